"""Objects of built-in kinds as Go's types would hold them: without what is empty.

Pure; called by `screening.py`. A real server decodes an object into a struct and writes it out
again, so an empty list is the same as none, and `paused: false` the same as nothing said, unless
the field is a pointer. Which fields are which is in the generated layout of all kinds.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from muster.api import schemas

if TYPE_CHECKING:
    from muster.api.meta import Raw
    from muster.local.apiserver.registry import Resource

METADATA = "k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_SCALARS = {"string": "", "bytes": "", "bool": False, "double": 0, "int32": 0, "int64": 0}
_ZEROS: dict[str, Any] = {**_SCALARS, "k8s.io.apimachinery.pkg.api.resource.Quantity": "0"}
# What is free in JSON: whatever is in there is not a struct's.
_FREE = ("k8s.io.apimachinery.pkg.runtime.RawExtension", f"{METADATA.rpartition('.')[0]}.FieldsV1")


class _Field(NamedTuple):
    type: str
    shape: str
    """o, r or m: one, a list, or a map of text to this type."""
    drops: bool
    """Whether it is left out when it is empty."""


@cache
def _layout(message: str) -> dict[str, _Field]:
    """The fields of a struct, with those of structs that are written inline."""
    found: dict[str, _Field] = {}
    for row in schemas.protobuf().get(message, {}).values() if message not in _FREE else ():
        name, type_, shape, pointer, inline, omits = row
        if inline:
            found |= _layout(type_)
        else:
            scalar = type_ in _SCALARS and omits and not pointer
            found[name] = _Field(type_, shape, shape != "o" or bool(scalar))
    return found


@cache
def struct(resource: Resource) -> str:
    """The name of the struct that objects of a kind are; empty if its layout is not known."""
    name = schemas.name_of(resource.group, resource.version, resource.kind)
    return name.replace("io.k8s.", "k8s.io.", 1)


def fill_nulls(obj: Raw, message: str) -> None:
    """Write zeros, in place, for nulls in maps and lists; those in fields mean nothing."""
    layout = _layout(message)
    for value, field in ((v, layout[name]) for name, v in obj.items() if name in layout):
        zero = _ZEROS.get(field.type)
        if zero is None:
            for part in _parts(value, field):
                fill_nulls(part, field.type)
        elif field.shape == "m" and isinstance(value, dict):
            value.update({k: zero for k, v in value.items() if v is None})
        elif field.shape == "r" and isinstance(value, list):
            value[:] = [zero if v is None else v for v in value]


def drop(obj: Raw, message: str) -> None:
    """Take out, in place, what is left out when it is empty. Types must be right."""
    layout = _layout(message)
    for name, value in list(obj.items()):
        field = layout.get(name)
        if field is None:
            continue
        if not value and field.drops:
            del obj[name]
        elif value and field.type not in _ZEROS:
            for part in _parts(value, field):
                drop(part, field.type)


def _parts(value: Any, field: _Field) -> list[Raw]:
    """The structs in a field."""
    if field.shape == "o":
        return [value] if isinstance(value, dict) else []
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [part for part in inner if isinstance(part, dict)]
