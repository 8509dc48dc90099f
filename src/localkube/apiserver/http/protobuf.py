"""From Kubernetes protobuf to an object: Go clients send built-in kinds in this form.

Answers are never protobuf: every client that writes it reads JSON too. The layout of each kind is a
generated table (`api/schemas/protobuf.json.gz`). Go writes every field that is not a pointer, so a
zero in a plain field counts as missing, and a zero in a pointer is a value.
"""

from __future__ import annotations

import base64
import struct
from datetime import UTC, datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kubekit import schemas
from localkube.apiserver.api_errors import bad_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kubekit.objects.meta import Raw
    from kubekit.request_errors import StatusError

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_META = "k8s.io.apimachinery.pkg.apis.meta.v1"
_DEPTH = 100  # `_decode` is recursive
# Free JSON: no struct describes the content, so nothing in it is dropped or filled.
_FREE = ("k8s.io.apimachinery.pkg.runtime.RawExtension", f"{_META}.FieldsV1")


class Field(NamedTuple):
    """One row of the generated layout: a field of a Go struct."""

    name: str
    type: str
    shape: str
    """o, r or m: one, repeated, or a map of text to this type."""
    pointer: int
    inline: int
    omits: int

    @property
    def omitted_if_empty(self) -> bool:
        """Whether Go leaves the field out of JSON when it is empty."""
        return self.shape != "o" or bool(self.type in _SCALARS and self.omits and not self.pointer)


def read(body: bytes) -> Raw:
    """The object in a body; it begins with a magic number and the object's kind."""
    if not body.startswith(_MAGIC):
        raise _broken("it does not begin as Kubernetes' own does")
    try:
        envelope = dict(_fields(body[len(_MAGIC) :]))
        kind = {n: v.decode() for n, v in _fields(envelope.get(1, b""))}
        api_version, name = kind.get(1, ""), kind.get(2, "")
        message = _message(api_version, name)
        obj = _decode(message, envelope.get(2, b""), 0)
    except (ValueError, IndexError, AttributeError, TypeError, struct.error) as error:
        raise _broken(str(error)) from error
    return {"apiVersion": api_version, "kind": name, **obj}


def _broken(why: str) -> StatusError:
    return bad_request(f"the body cannot be read as protobuf: {why}")


def struct_name(schema_name: str) -> str:
    """The name of a struct in protobuf, from its name in OpenAPI."""
    return schema_name.replace("io.k8s.", "k8s.io.", 1)


@cache
def struct_layout(message: str) -> dict[str, Field]:
    """The fields of a struct, with the fields of structs that it embeds; none for free JSON."""
    fields: dict[str, Field] = {}
    for row in schemas.protobuf().get(message, {}).values() if message not in _FREE else ():
        field = Field(*row)
        fields |= struct_layout(field.type) if field.inline else {field.name: field}
    return fields


def _message(api_version: str, kind: str) -> str:
    # DeleteOptions and the like belong to every group, and clients send them under any.
    if kind.endswith("Options") and f"{_META}.{kind}" in schemas.protobuf():
        return f"{_META}.{kind}"
    group, _, version = api_version.rpartition("/")
    message = struct_name(schemas.name_of(group, version, kind))
    if message not in schemas.protobuf():
        raise _broken(f"{kind} of {api_version} has no protobuf form here; send JSON")
    return message


# -- the encoding --------------------------------------------------------------------------------


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:  # 64 bits at most: a number without end would take all time
            raise ValueError("a number is too long")


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers and values: an unsigned number for a varint, bytes for every other type."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if kind == 2:
            size, at = _varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"wire type {kind} is not used")
        if at + size > len(data):
            raise ValueError("a field is longer than the message")
        yield tag >> 3, data[at : at + size]
        at += size


# -- messages ------------------------------------------------------------------------------------


def _decode(message: str, data: bytes, depth: int) -> Raw:
    if depth > _DEPTH:
        raise ValueError("it is nested too deeply")
    layout = schemas.protobuf()[message]
    result: Raw = {}
    for number, value in _fields(data):
        row = layout.get(str(number))
        if row is not None:  # a newer client may send fields that this version lacks
            _put(result, Field(*row), value, depth)
    return result


def _put(result: Raw, field: Field, value: Any, depth: int) -> None:
    if field.shape == "m":
        entry = dict(_fields(value))
        key = entry.get(1, b"").decode()
        entry_value = entry.get(2, b"" if field.type not in ("bool", "int32", "int64") else 0)
        result.setdefault(field.name, {})[key] = _value(field.type, entry_value, depth)
        return
    decoded = _value(field.type, value, depth)
    if field.shape == "r":
        result.setdefault(field.name, []).append(decoded)
    elif field.inline:
        result.update(decoded or {})
    elif field.pointer or decoded not in ("", 0, False, None, {}):
        result[field.name] = decoded


def _value(type_: str, value: Any, depth: int) -> Any:
    decode = _SPECIAL.get(type_) or _SCALARS.get(type_)
    return decode(value) if decode else _decode(type_, value, depth + 1)


def _signed(value: int) -> int:
    # Negative numbers are sent as 64 bits in two's complement.
    return value - (1 << 64) if value >= 1 << 63 else value


def _time(value: bytes, *, micro: bool = False) -> str | None:
    parts = dict(_fields(value))
    seconds, nanos = _signed(parts.get(1, 0)), parts.get(2, 0)
    if not parts or seconds < -62_135_596_800:  # Go's zero time, or before the year 1
        return None
    moment = datetime.fromtimestamp(seconds, UTC)
    fraction = f".{nanos // 1000:06}" if nanos or micro else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"


def _int_or_string(value: bytes) -> int | str:
    parts = dict(_fields(value))
    if parts.get(1, 0):
        text: bytes = parts.get(3, b"")
        return text.decode()
    return _signed(parts.get(2, 0))


def _raw_json(value: bytes) -> Any:
    return msgspec.json.decode(dict(_fields(value)).get(1) or b"null")


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "string": lambda value: value.decode(),
    "bytes": lambda value: base64.b64encode(value).decode(),
    "bool": bool,
    "int32": _signed,
    "int64": _signed,
    "double": lambda value: struct.unpack("<d", value)[0],
}
_SPECIAL: dict[str, Callable[[bytes], Any]] = {
    f"{_META}.Time": _time,
    f"{_META}.MicroTime": partial(_time, micro=True),
    f"{_META}.FieldsV1": _raw_json,
    "k8s.io.apimachinery.pkg.api.resource.Quantity": lambda value: (
        dict(_fields(value)).get(1, b"0").decode()
    ),
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    "k8s.io.apimachinery.pkg.runtime.RawExtension": _raw_json,
}
