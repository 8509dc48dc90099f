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


_CODES = {
    "BadRequest": 400, "Unauthorized": 401, "Forbidden": 403, "NotFound": 404,
    "MethodNotAllowed": 405, "NotAcceptable": 406, "AlreadyExists": 409, "Conflict": 409,
    "Expired": 410, "RequestEntityTooLarge": 413, "UnsupportedMediaType": 415, "Invalid": 422,
    "TooManyRequests": 429, "": 500, "InternalError": 500, "ServiceUnavailable": 503,
    "Timeout": 504,
}  # fmt: skip
"""The code that goes with each reason."""


def error(reason: str, message: str, details: dict[str, object] | None = None) -> StatusError:
    """The error with this reason."""
    return StatusError(message, status=_CODES[reason], reason=reason, details=details)


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
    message = f"{_quoted(group, plural, name)} not found"
    return error("NotFound", message, _details(group, plural, name))


def already_exists(
    group: str, plural: str, name: str, *, being_deleted: bool = False
) -> StatusError:
    """The name is taken, by an object that may be about to go."""
    message = f"{_quoted(group, plural, name)} already exists"
    if being_deleted:
        message = f"object is being deleted: {message}"
    return error("AlreadyExists", message, _details(group, plural, name))


CHANGED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def conflict(group: str, plural: str, name: str, why: str = CHANGED) -> StatusError:
    """Another writer was first, or a precondition does not hold."""
    message = f"Operation cannot be fulfilled on {_quoted(group, plural, name)}: {why}"
    return error("Conflict", message, _details(group, plural, name))


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
    message = f"{subject} is forbidden: {why}"
    return error("Forbidden", message, _details(group, plural, name, **details))


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


def invalid(group: str, kind: str, name: str, found: Sequence[Cause]) -> StatusError:
    """The object is invalid, with a cause for each field."""
    listed = str(found[0]) if len(found) == 1 else f"[{', '.join(map(str, found))}]"
    message = f"{_quoted(group, kind, name)} is invalid: {listed}"
    details = _details(group, kind, name, causes=[cause._asdict() for cause in found])
    return error("Invalid", message, details)


def raise_if_invalid(group: str, kind: str, name: str, found: Causes) -> None:
    """Raise the 422 that lists the causes; an object without any is valid."""
    if listed := list(found):
        raise invalid(group, kind, name, listed)


# -- errors about the request --------------------------------------------------------------------


NO_AUTOSCALER = (
    "this cluster has no HorizontalPodAutoscaler, because nothing here scales by load;"
    " set the number of replicas with `kubectl scale`"
)
"""The warning beside the 404 of `kubectl autoscale`, which itself only says "empty input"."""


def path_not_found() -> StatusError:
    """The resource, version or group does not exist."""
    return error("NotFound", "the server could not find the requested resource", {})


def bad_request(message: str) -> StatusError:
    """The request itself is invalid."""
    return error("BadRequest", message)


def expired(message: str) -> StatusError:
    """The requested history was compacted."""
    return error("Expired", message)


def method_not_allowed() -> StatusError:
    """The resource does not have this verb."""
    message = "the server does not allow this method on the requested resource"
    return error("MethodNotAllowed", message, {})


def unsupported_media(allowed: Sequence[str]) -> StatusError:
    """The body has a type that the server cannot read."""
    message = "the body of the request was in an unknown format - accepted media types include: "
    return error("UnsupportedMediaType", message + ", ".join(allowed))


def unprocessable() -> StatusError:
    """The patch cannot be applied to the object as it is."""
    message = "the server rejected our request due to an error in our request"
    return error("Invalid", message, {})


def resource_version_too_large(requested: int, current: int) -> StatusError:
    """The requested revision does not exist yet."""
    message = f"Timeout: Too large resource version: {requested}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return error("Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})


def too_large(message: str) -> StatusError:
    """The body is larger than the limit."""
    return error("RequestEntityTooLarge", message)


# -- Status objects ------------------------------------------------------------------------------


def body(problem: StatusError) -> Raw:
    """The Status object for the client."""
    status: Raw = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": problem.metadata,
        "status": "Failure",
        "message": str(problem),
        "reason": problem.reason,
        "details": problem.details,
        "code": problem.status,
    }
    return {key: value for key, value in status.items() if value not in (None, "")}


def success(group: str, plural: str, name: str, uid: str) -> Raw:
    """The Status object for a deletion."""
    status: Raw = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return status | {"details": _details(group, plural, name, uid=uid)}
