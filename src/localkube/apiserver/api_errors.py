"""Every error answer, worded and shaped as Kubernetes does it.

Each function builds a StatusError; `body` turns it into the Status object for the client. Clients
match on `reason` and `details`, people read `message`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.request_errors import StatusError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubekit.objects.meta import Raw
    from localkube.apiserver.causes import Cause, Causes


# -- errors about one object ---------------------------------------------------------------------


def _details(group: str, kind: str, name: str, **more: object) -> dict[str, object]:
    details = {"name": name, "group": group, "kind": kind, **more}
    return {field: value for field, value in details.items() if value}


def _quoted(group: str, plural: str, name: str) -> str:
    return f'{_resource(group, plural)} "{name}"'


def _resource(group: str, plural: str) -> str:
    return f"{plural}.{group}" if group else plural


def not_found(group: str, plural: str, name: str) -> StatusError:
    """The object does not exist."""
    message, details = f"{_quoted(group, plural, name)} not found", _details(group, plural, name)
    return StatusError(message, status=404, reason="NotFound", details=details)


def already_exists(
    group: str, plural: str, name: str, *, being_deleted: bool = False
) -> StatusError:
    """The name is taken, by an object that may be about to go."""
    message = f"{_quoted(group, plural, name)} already exists"
    if being_deleted:
        message = f"object is being deleted: {message}"
    details = _details(group, plural, name)
    return StatusError(message, status=409, reason="AlreadyExists", details=details)


CHANGED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def conflict(group: str, plural: str, name: str, why: str = CHANGED) -> StatusError:
    """Another writer was first, or a precondition does not hold."""
    message = f"Operation cannot be fulfilled on {_quoted(group, plural, name)}: {why}"
    details = _details(group, plural, name)
    return StatusError(message, status=409, reason="Conflict", details=details)


def apply_conflict(message: str, causes: Sequence[Cause]) -> StatusError:
    """An apply would change fields of other managers."""
    details: dict[str, object] = {"causes": [cause._asdict() for cause in causes]}
    return StatusError(message, status=409, reason="Conflict", details=details)


def precondition_failed(field: str, expected: str, actual: str) -> str:
    """The reason of a conflict for a write that names a uid or a revision."""
    # Worded as kube-apiserver's storage layer words it; other layers say the same differently.
    return (
        f"Precondition failed: {field} in precondition: {expected}, {field} in object meta:"
        f" {actual}"
    )


def forbidden(group: str, plural: str, name: str, why: str, **details: object) -> StatusError:
    """The caller, or every caller, is forbidden to do this."""
    subject = _quoted(group, plural, name) if name else _resource(group, plural)
    return StatusError(
        f"{subject} is forbidden: {why}",
        status=403,
        reason="Forbidden",
        details=_details(group, plural, name, **details),
    )


def forbidden_pod(pod: Raw, why: str) -> StatusError:
    """No such pod is created. Its name may be generated later."""
    meta = pod["metadata"]
    return forbidden("", "pods", meta.get("name") or meta.get("generateName"), why)


def namespace_terminating(group: str, plural: str, name: str, namespace: str) -> StatusError:
    """No object is created in a namespace that is being deleted."""
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    return forbidden(group, plural, name, why, causes=[cause])


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> StatusError:
    """The object is invalid, with a cause for each field."""
    listed = str(causes[0]) if len(causes) == 1 else f"[{', '.join(map(str, causes))}]"
    return StatusError(
        f"{_quoted(group, kind, name)} is invalid: {listed}",
        status=422,
        reason="Invalid",
        details=_details(group, kind, name, causes=[cause._asdict() for cause in causes]),
    )


def raise_if_invalid(group: str, kind: str, name: str, causes: Causes) -> None:
    """Raise the 422 that lists the causes; an object without any is valid."""
    if listed := list(causes):
        raise invalid(group, kind, name, listed)


# -- errors about the request --------------------------------------------------------------------


def path_not_found() -> StatusError:
    """The resource, version or group does not exist."""
    message = "the server could not find the requested resource"
    return StatusError(message, status=404, reason="NotFound", details={})


def bad_request(message: str) -> StatusError:
    """The request itself is invalid."""
    return StatusError(message, status=400, reason="BadRequest")


def unauthorized() -> StatusError:
    """The request has no valid token."""
    return StatusError("Unauthorized", status=401, reason="Unauthorized")


def expired(message: str) -> StatusError:
    """The requested history was compacted."""
    return StatusError(message, status=410, reason="Expired")


def method_not_allowed() -> StatusError:
    """The resource does not have this verb."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(message, status=405, reason="MethodNotAllowed", details={})


def unsupported_media(allowed: Sequence[str]) -> StatusError:
    """The body has a type that the server cannot read."""
    listed = ", ".join(allowed)
    message = (
        f"the body of the request was in an unknown format - accepted media types include: {listed}"
    )
    return StatusError(message, status=415, reason="UnsupportedMediaType")


def unsupported_patch() -> StatusError:
    """The kind does not accept patches of this type."""
    message = "415: Unsupported Media Type"
    return StatusError(message, status=415, reason="UnsupportedMediaType", details={})


def unprocessable() -> StatusError:
    """The patch cannot be applied to the object as it is."""
    message = "the server rejected our request due to an error in our request"
    return StatusError(message, status=422, reason="Invalid", details={})


def resource_version_too_large(requested: int, current: int) -> StatusError:
    """The requested revision does not exist yet."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return StatusError(
        f"Timeout: Too large resource version: {requested}, current: {current}",
        status=504,
        reason="Timeout",
        details={"causes": [cause], "retryAfterSeconds": 1},
    )


def too_large(message: str) -> StatusError:
    """The body is larger than the limit."""
    return StatusError(message, status=413, reason="RequestEntityTooLarge")


def too_many(message: str, cause: Cause, retry_after: int = 0) -> StatusError:
    """A disruption budget forbids the eviction for now.

    With `retry_after`, clients repeat the request by themselves after so many seconds.
    """
    details: dict[str, object] = {"causes": [{"reason": cause.reason, "message": cause.message}]}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return StatusError(message, status=429, reason="TooManyRequests", details=details)


def several_budgets() -> StatusError:
    """An eviction takes a disruption from one budget only."""
    return StatusError(
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not"
        " support.",
        status=500,
        reason="",
    )


def lacks_descriptors(error: OSError) -> StatusError:
    """The system refused the daemon a descriptor."""
    return StatusError(
        f"the daemon of the local cluster has no descriptors left: {error.strerror}; raise "
        "`ulimit -n`, or delete pods",
        status=503,
        reason="ServiceUnavailable",
    )


# -- Status objects ------------------------------------------------------------------------------


def body(error: StatusError) -> Raw:
    """The Status object for the client."""
    status: Raw = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": error.metadata,
        "status": "Failure",
        "message": str(error),
        "reason": error.reason,
        "details": error.details,
        "code": error.status,
    }
    return {key: value for key, value in status.items() if value not in (None, "")}


def success(group: str, plural: str, name: str, uid: str) -> Raw:
    """The Status object for a deletion."""
    status: Raw = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return status | {"details": _details(group, plural, name, uid=uid)}
