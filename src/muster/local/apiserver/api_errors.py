"""Every error answer, worded and shaped as Kubernetes does it.

Each function builds a StatusError, or a Cause that names a field; `body` turns a StatusError into
the Status object for the client. Clients match on `reason` and `details`, people read `message`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from muster.errors import StatusError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.api.meta import Raw


class Cause(NamedTuple):
    """One invalid field."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


Causes = Iterable[Cause]


def required(field: str, detail: str = "") -> Cause:
    """The field must be there."""
    return Cause(field, "FieldValueRequired", f"Required value{_tail(detail)}")


def invalid_value(field: str, value: object, detail: str) -> Cause:
    """The field's value is not allowed."""
    return Cause(field, "FieldValueInvalid", f"Invalid value: {_show(value)}{_tail(detail)}")


def invalid_type(field: str, value: object, detail: str) -> Cause:
    """The field's value has the wrong type."""
    return Cause(field, "FieldValueTypeInvalid", f"Invalid value: {_show(value)}{_tail(detail)}")


def not_supported(field: str, value: object, allowed: Sequence[str]) -> Cause:
    """The field's value is none of those allowed."""
    values = ", ".join(f'"{v}"' for v in allowed)
    message = f"Unsupported value: {_show(value)}: supported values: {values}"
    return Cause(field, "FieldValueNotSupported", message)


def not_found_field(field: str, value: object) -> Cause:
    """The field names something that is not there."""
    return Cause(field, "FieldValueNotFound", f"Not found: {_show(value)}")


def duplicate(field: str, value: object) -> Cause:
    """Another item of the list has the same value."""
    return Cause(field, "FieldValueDuplicate", f"Duplicate value: {_show(value)}")


def too_long(field: str, most: int) -> Cause:
    """A text with more bytes than it may have."""
    detail = f"Too long: may not be more than {most} bytes"
    return Cause(field, "FieldValueTooLong", detail)


def forbidden_field(field: str, detail: str) -> Cause:
    """The field may not be set or changed here."""
    return Cause(field, "FieldValueForbidden", f"Forbidden: {detail}")


def _tail(detail: str) -> str:
    return f": {detail}" if detail else ""


def _show(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)


def _details(group: str, kind: str, name: str = "") -> dict[str, object]:
    found = {"name": name, "group": group, "kind": kind}
    return {key: value for key, value in found.items() if value}


def _resource(group: str, plural: str) -> str:
    return f"{plural}.{group}" if group else plural


def not_found(group: str, plural: str, name: str) -> StatusError:
    """No such object."""
    message = f'{_resource(group, plural)} "{name}" not found'
    return StatusError(
        message, status=404, reason="NotFound", details=_details(group, plural, name)
    )


def path_not_found() -> StatusError:
    """No such resource, version or group."""
    message = "the server could not find the requested resource"
    return StatusError(message, status=404, reason="NotFound", details={})


def already_exists(
    group: str, plural: str, name: str, *, being_deleted: bool = False
) -> StatusError:
    """An object of this name exists, and may be about to go."""
    message = f'{_resource(group, plural)} "{name}" already exists'
    if being_deleted:
        message = f"object is being deleted: {message}"
    details = _details(group, plural, name)
    return StatusError(message, status=409, reason="AlreadyExists", details=details)


CHANGED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def conflict(group: str, plural: str, name: str, why: str = CHANGED) -> StatusError:
    """Another writer was first, or a precondition does not hold."""
    message = f'Operation cannot be fulfilled on {_resource(group, plural)} "{name}": {why}'
    details = _details(group, plural, name)
    return StatusError(message, status=409, reason="Conflict", details=details)


def precondition_failed(field: str, expected: str, actual: str) -> str:
    """Why a write that names a uid or a revision is a conflict, as the storage layer words it."""
    return (
        f"Precondition failed: {field} in precondition: {expected}, {field} in object meta:"
        f" {actual}"
    )


def namespace_terminating(group: str, plural: str, name: str, namespace: str) -> StatusError:
    """Nothing is created in a namespace that is being deleted."""
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    error = forbidden(group, plural, name, why)
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    error.details = (error.details or {}) | {"causes": [cause]}
    return error


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> StatusError:
    """The object is invalid, with a cause for each field."""
    listed = str(causes[0]) if len(causes) == 1 else f"[{', '.join(map(str, causes))}]"
    details = _details(group, kind, name)
    details["causes"] = [
        {"reason": c.reason, "message": c.message, "field": c.field} for c in causes
    ]
    message = f'{_resource(group, kind)} "{name}" is invalid: {listed}'
    return StatusError(message, status=422, reason="Invalid", details=details)


def forbidden(group: str, plural: str, name: str, why: str) -> StatusError:
    """Not allowed for this user, or for anybody."""
    message = f'{_resource(group, plural)} "{name}" is forbidden: {why}'
    if not name:
        message = f"{_resource(group, plural)} is forbidden: {why}"
    details = _details(group, plural, name)
    return StatusError(message, status=403, reason="Forbidden", details=details)


def bad_request(message: str) -> StatusError:
    """The request itself is invalid."""
    return StatusError(message, status=400, reason="BadRequest")


def unauthorized() -> StatusError:
    """No valid token."""
    return StatusError("Unauthorized", status=401, reason="Unauthorized")


def expired(message: str) -> StatusError:
    """The requested history was compacted."""
    return StatusError(message, status=410, reason="Expired")


def method_not_allowed() -> StatusError:
    """The resource does not know this verb."""
    return StatusError(
        "the server does not allow this method on the requested resource",
        status=405,
        reason="MethodNotAllowed",
        details={},
    )


def unsupported_media(allowed: Sequence[str]) -> StatusError:
    """A body in an unknown format."""
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(allowed)
    )
    return StatusError(message, status=415, reason="UnsupportedMediaType")


def unsupported_patch() -> StatusError:
    """A patch in a format that this kind does not accept."""
    message = "415: Unsupported Media Type"
    return StatusError(message, status=415, reason="UnsupportedMediaType", details={})


def unprocessable() -> StatusError:
    """A patch that cannot be applied to the object as it is."""
    message = "the server rejected our request due to an error in our request"
    return StatusError(message, status=422, reason="Invalid", details={})


def resource_version_too_large(requested: int, current: int) -> StatusError:
    """A revision that does not exist yet."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return StatusError(
        f"Timeout: Too large resource version: {requested}, current: {current}",
        status=504,
        reason="Timeout",
        details={"causes": [cause], "retryAfterSeconds": 1},
    )


def too_large(message: str) -> StatusError:
    """The body is beyond the limit."""
    return StatusError(message, status=413, reason="RequestEntityTooLarge")


def too_many(message: str, cause: Cause | None = None) -> StatusError:
    """A disruption budget or a limit forbids it now."""
    details: dict[str, object] | None = None
    if cause is not None:
        details = {"causes": [{"reason": cause.reason, "message": cause.message}]}
    return StatusError(message, status=429, reason="TooManyRequests", details=details)


def body(error: StatusError) -> Raw:
    """The Status object for the client."""
    found: Raw = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": error.metadata,
        "status": "Failure",
        "message": str(error),
        "reason": error.reason,
        "details": error.details,
        "code": error.status,
    }
    return {key: value for key, value in found.items() if value not in (None, "")}


def success(group: str, plural: str, name: str, uid: str = "") -> Raw:
    """The Status object for a deletion or a binding that went well."""
    details = _details(group, plural, name) | ({"uid": uid} if uid else {})
    found: Raw = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return found | ({"details": details} if details else {})
