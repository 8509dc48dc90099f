"""The document of OpenAPI version 2 in protobuf: kubectl and all Go clients ask for this form only.

The layout is that of `openapi.v2.Document` in gnostic's OpenAPIv2.proto. Values without a layout of
their own (extensions, enums) are text in YAML there; JSON is YAML too.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from localkube.apiserver import codec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.objects.meta import Raw

MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
SENT = MEDIA_TYPE.replace("@", ".")
"""The type of the answer: an @ is not allowed there."""

_TEXTS = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13}
_DOUBLES = {"multipleOf": 6, "maximum": 7, "minimum": 9}
_INTEGERS = {
    "exclusiveMaximum": 8, "exclusiveMinimum": 10, "maxLength": 11, "minLength": 12,
    "maxItems": 14, "minItems": 15, "uniqueItems": 16, "maxProperties": 17, "minProperties": 18,
}  # fmt: skip
_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}


def encode(document: Raw) -> bytes:
    """The bytes of a document."""
    info = _text(1, document["info"]["title"]) + _text(2, document["info"]["version"])
    paths = b"".join(_named(2, path, _path(item)) for path, item in document["paths"].items())
    definitions = b"".join(_named(1, n, _schema(s)) for n, s in document["definitions"].items())
    return b"".join(
        [_text(1, document["swagger"]), _part(2, info), _part(8, paths), _part(9, definitions)]
    )


# -- the wire format -----------------------------------------------------------------------------


def _varint(value: int) -> bytes:
    out = bytearray()
    value &= 2**64 - 1  # a negative number has all bits of 64
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _part(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _text(number: int, text: str) -> bytes:
    return _part(number, text.encode()) if text else b""


def _texts(number: int, texts: Iterable[str]) -> bytes:
    return b"".join(_part(number, text.encode()) for text in texts)


def _integer(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(int(value)) if value else b""


def _named(number: int, name: str, value: bytes) -> bytes:
    return _part(number, _text(1, name) + _part(2, value))


def _any(value: object) -> bytes:
    return _part(2, codec.dump(value))


def _extensions(number: int, node: Raw) -> bytes:
    return b"".join(
        _named(number, name, _any(value)) for name, value in node.items() if name.startswith("x-")
    )


# -- messages ------------------------------------------------------------------------------------


def _schema(schema: Raw) -> bytes:
    parts = [_text(number, schema.get(name, "")) for name, number in _TEXTS.items()]
    parts += [
        _varint(number << 3 | 1) + struct.pack("<d", schema[name])
        for name, number in _DOUBLES.items()
        if schema.get(name)
    ]
    parts += [_integer(number, schema.get(name, 0)) for name, number in _INTEGERS.items()]
    parts.append(_texts(19, schema.get("required") or ()))
    parts += [_part(20, _any(value)) for value in schema.get("enum") or ()]
    if "additionalProperties" in schema:
        parts.append(_part(21, _additional(schema["additionalProperties"])))
    if schema.get("type"):
        parts.append(_part(22, _text(1, schema["type"])))
    if "items" in schema:
        parts.append(_part(23, _part(1, _schema(schema["items"]))))
    if "properties" in schema:
        fields = schema["properties"].items()
        parts.append(_part(25, b"".join(_named(1, name, _schema(part)) for name, part in fields)))
    return b"".join(parts) + _extensions(31, schema)


def _additional(value: Any) -> bytes:
    return _part(1, _schema(value)) if isinstance(value, dict) else _integer(2, value)


def _path(item: Raw) -> bytes:
    methods = (
        _part(number, _operation(item[method]))
        for method, number in _METHODS.items()
        if method in item
    )
    return b"".join(methods) + _parameters(9, item["parameters"])


def _operation(operation: Raw) -> bytes:
    return b"".join(
        [
            _text(5, operation["operationId"]),
            _texts(6, operation["produces"]),
            _texts(7, operation["consumes"]),
            _parameters(8, operation["parameters"]),
            _part(9, b"".join(_response(*row) for row in operation["responses"].items())),
            _texts(10, operation["schemes"]),
            _extensions(13, operation),
        ]
    )


def _response(code: str, response: Raw) -> bytes:
    schema = _part(2, _part(1, _schema(response["schema"])))
    return _named(1, code, _part(1, _text(1, response["description"]) + schema))


def _parameters(number: int, parameters: Iterable[Raw]) -> bytes:
    return b"".join(_part(number, _part(1, _parameter(row))) for row in parameters)


def _parameter(row: Raw) -> bytes:
    if row["in"] == "body":
        head = _text(2, row["name"]) + _text(3, "body") + _integer(4, row.get("required", False))
        return _part(1, head + _part(5, _schema(row["schema"])))
    query = row["in"] == "query"
    fields = _integer(1, row.get("required", False)) + _text(2, row["in"])
    fields += _text(3, row.get("description", "")) + _text(4, row["name"])
    fields += _text(6 if query else 5, row["type"]) + _integer(20 if query else 19, True)
    return _part(2, _part(3 if query else 4, fields))
