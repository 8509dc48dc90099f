"""The causes of a 422: one for each invalid field, worded as Kubernetes words them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


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


def invalid(field: str, value: object, detail: str) -> Cause:
    """The field's value is not allowed."""
    return Cause(field, "FieldValueInvalid", f"Invalid value: {_show(value)}{_tail(detail)}")


def mistyped(field: str, value: object, detail: str) -> Cause:
    """The field's value has the wrong type."""
    return Cause(field, "FieldValueTypeInvalid", f"Invalid value: {_show(value)}{_tail(detail)}")


def not_supported(field: str, value: object, allowed: Sequence[str]) -> Cause:
    """The field's value is not in the list of allowed values."""
    values = ", ".join(f'"{v}"' for v in allowed)
    message = f"Unsupported value: {_show(value)}: supported values: {values}"
    return Cause(field, "FieldValueNotSupported", message)


def not_found(field: str, value: object) -> Cause:
    """The field refers to an object or item that does not exist."""
    return Cause(field, "FieldValueNotFound", f"Not found: {_show(value)}")


def duplicate(field: str, value: object) -> Cause:
    """Another item of the list has the same value."""
    return Cause(field, "FieldValueDuplicate", f"Duplicate value: {_show(value)}")


def too_long(field: str, most: int) -> Cause:
    """A text with more bytes than it may have."""
    detail = f"Too long: may not be more than {most} bytes"
    return Cause(field, "FieldValueTooLong", detail)


def forbidden(field: str, detail: str) -> Cause:
    """The field may not be set or changed here."""
    return Cause(field, "FieldValueForbidden", f"Forbidden: {detail}")


def too_many(field: str, count: int, most: int) -> Cause:
    """The list or the map has too many items."""
    message = f"Too many: {count}: must have at most {most} item{'' if most == 1 else 's'}"
    return Cause(field, "FieldValueTooMany", message)


def _tail(detail: str) -> str:
    return f": {detail}" if detail else ""


def _show(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)
