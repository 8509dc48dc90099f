"""OpenAPI version 2, at /openapi/v2: one document with all types and paths, JSON or protobuf.

Old clients read nothing else, and kubectl checks the items of a List by it. The types are those of
version 3 in the older form, as the real server writes it: without defaults and alternatives. Go
clients ask for protobuf only, in the layout of `openapi.v2.Document` in gnostic's OpenAPIv2.proto.
Values without a layout there (extensions, enums) are text in YAML; JSON is YAML too.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Any

from localkube.apiserver import codec
from localkube.apiserver.http.bodies import PATCHES
from localkube.apiserver.views.openapi import (
    DELETE_OPTIONS,
    GVK,
    INFO,
    REFERENCE,
    SCALE,
    STATUS,
    Types,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kubekit.objects.meta import Raw
    from localkube.apiserver.resource import Resource
    from localkube.apiserver.resource_registry import Registry

    Encode = Callable[[int, Any], bytes]
    Layout = dict[str, tuple[int, Encode]]
    """The number of each field, and the function that encodes it."""


_PRESERVE, _NULLABLE = "x-kubernetes-preserve-unknown-fields", "nullable"
_DROPPED = frozenset({"default", "allOf", "oneOf", "anyOf", "not", _NULLABLE, "example"})
_QUERY = {
    "post": ("dryRun", "fieldManager", "fieldValidation"),
    "put": ("dryRun", "fieldManager", "fieldValidation"),
    "patch": ("dryRun", "fieldManager", "fieldValidation", "force"),
    "delete": ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy"),
    "list": ("continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "watch"),
}
_TYPES = {
    "force": "boolean", "orphanDependents": "boolean", "watch": "boolean",
    "gracePeriodSeconds": "integer", "limit": "integer",
}  # fmt: skip


def document(registry: Registry) -> Raw:
    """The whole document."""
    types = Types()
    types.add(STATUS)
    types.add(SCALE)
    types.add(DELETE_OPTIONS)
    paths: Raw = {}
    custom: set[str] = set()
    for resource in registry.all():
        names = types.add_kind(resource)
        if resource.custom:
            custom.add(names[0])
        for path, verb, action in _operations(resource):
            item = paths.setdefault(path, {"parameters": _path_parameters(resource, path)})
            item[verb] = _operation(resource, names, path, verb, action)
    definitions = {
        # kubectl would take every field outside of a list of properties for unknown.
        name: {"type": "object", GVK: schema[GVK]}
        if name in custom and schema.get(_PRESERVE)
        else lowered(schema)
        for name, schema in types.by_name.items()
    }
    return {"swagger": "2.0", "info": INFO, "paths": paths, "definitions": definitions}


# -- types -----------------------------------------------------------------------------------------


def lowered(schema: Raw) -> Raw:
    """A schema of version 3 in the form of version 2."""
    wrapped = schema.get("allOf")
    if isinstance(wrapped, list) and len(wrapped) == 1 and "$ref" in wrapped[0]:
        # A reference that stands in `allOf` only to have a description beside it.
        schema = {**schema, **wrapped[0]}
    if schema.get("oneOf") and "type" not in schema:  # a number or a text
        schema = {**schema, "type": "string"}
    result = {
        key: _lowered_part(key, value) for key, value in schema.items() if key not in _DROPPED
    }
    preserved = bool(schema.get(_PRESERVE))
    # kubectl copes with neither fields nor items of a value that may be something else.
    if schema.get(_NULLABLE) or preserved:
        result.pop("properties", None)
        result.pop("items", None)
    untyped = schema.get(_NULLABLE) or (preserved and result.get("type") == "object")
    if untyped or ("items" not in result and result.get("type") == "array"):
        result.pop("type", None)
    if "required" in result and "properties" in schema:
        nullable = {name for name, part in schema["properties"].items() if part.get(_NULLABLE)}
        result["required"] = [name for name in result["required"] if name not in nullable]
        if not result["required"]:
            del result["required"]
    return result


def _lowered_part(key: str, value: Any) -> Any:
    if key == "properties":
        return {name: lowered(part) for name, part in value.items()}
    if key in ("items", "additionalProperties") and isinstance(value, dict):
        return lowered(value)
    return value.replace(REFERENCE, "#/definitions/") if key == "$ref" else value


# -- paths -----------------------------------------------------------------------------------------


def _operations(resource: Resource) -> Iterator[tuple[str, str, str]]:
    """Path, method and action of each operation."""
    namespace = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = f"{resource.root}{namespace}/{resource.plural}"
    every = f"{resource.root}/{resource.plural}"
    named = f"{collection}/{{name}}"
    by_verb = (
        ("list", every, "get", "list"), ("list", collection, "get", "list"),
        ("create", collection, "post", "post"),
        ("deletecollection", collection, "delete", "deletecollection"),
        ("get", named, "get", "get"), ("update", named, "put", "put"),
        ("patch", named, "patch", "patch"), ("delete", named, "delete", "delete"),
    )  # fmt: skip
    for verb, path, method, action in by_verb:
        if verb in resource.verbs:
            yield path, method, action
    for subresource in ("status", "scale"):
        if subresource in resource.subresources:
            for method in ("get", "put", "patch"):
                yield f"{named}/{subresource}", method, method


def _path_parameters(resource: Resource, path: str) -> list[Raw]:
    texts = {
        "name": f"name of the {resource.kind}",
        "namespace": "object name and auth scope, such as for teams and projects",
    }
    return [
        {"name": name, "in": "path", "required": True, "type": "string", "uniqueItems": True,
         "description": text}
        for name, text in texts.items() if f"{{{name}}}" in path
    ]  # fmt: skip


_MEANINGS = {"200": "OK", "201": "Created", "202": "Accepted"}


def _operation(
    resource: Resource, names: tuple[str, str], path: str, verb: str, action: str
) -> Raw:
    scale = path.endswith("/scale")
    own = SCALE if scale else names[0]
    deleted = own if resource.strategy.deletion.answer == "object" else STATUS
    answer = {"list": names[1], "delete": deleted, "deletecollection": STATUS}.get(action, own)
    gvk = {"group": "autoscaling", "version": "v1", "kind": "Scale"} if scale else resource.gvk
    codes = {"post": ("200", "201", "202"), "put": ("200", "201"), "delete": ("200", "202")}
    schema = {"$ref": f"#/definitions/{answer}"}
    return {
        "operationId": _operation_id(resource, path, action),
        "consumes": list(PATCHES) if verb == "patch" else ["*/*"],
        "produces": ["application/json", "application/yaml"],
        "schemes": ["https"],
        "parameters": [
            *_body(verb, action, own),
            *(
                {"name": n, "in": "query", "type": _TYPES.get(n, "string"), "uniqueItems": True}
                for n in _QUERY.get(action, ())
            ),
        ],
        "responses": {
            code: {"description": _MEANINGS[code], "schema": schema}
            for code in codes.get(action, ("200",))
        },
        "x-kubernetes-action": action,
        GVK: gvk if not (scale and resource.custom) else resource.gvk,
    }


def _body(verb: str, action: str, own: str) -> list[Raw]:
    body: Raw = {"name": "body", "in": "body", "required": True}
    if verb in ("post", "put"):
        return [body | {"schema": {"$ref": f"#/definitions/{own}"}}]
    if verb == "patch":
        return [body | {"schema": {"type": "object"}}]
    if action == "delete":
        reference = {"$ref": f"#/definitions/{DELETE_OPTIONS}"}
        return [{"name": "body", "in": "body", "schema": reference}]
    return []


_WORDS = {"get": "read", "put": "replace", "post": "create", "deletecollection": "delete"}


def _operation_id(resource: Resource, path: str, action: str) -> str:
    """The identifier from which generators make the name of a function."""
    group = (resource.group or "core").removesuffix(".k8s.io")
    words = "".join(_title(part) for part in [*re.split("[.-]", group), resource.version])
    collection = "Collection" if action == "deletecollection" else ""
    sub = path.rpartition("}/")[2] if path.endswith(("/status", "/scale")) else ""
    every = action == "list" and resource.namespaced and "{namespace}" not in path
    scope = "Namespaced" if resource.namespaced and not every else ""
    end = "ForAllNamespaces" if every else _title(sub)
    return f"{_WORDS.get(action, action)}{words}{collection}{scope}{resource.kind}{end}"


def _title(word: str) -> str:
    return word[:1].upper() + word[1:]


# -- protobuf --------------------------------------------------------------------------------------


MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
SENT = MEDIA_TYPE.replace("@", ".")
"""The type of the answer: an @ is not allowed there."""
_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}


def encode(document: Raw) -> bytes:
    """The bytes of a document."""
    return _fields(_DOCUMENT, document)


def _fields(layout: Layout, value: Raw) -> bytes:
    """The fields of a message, by its layout."""
    return b"".join(
        encode(number, value[name]) for name, (number, encode) in layout.items() if name in value
    )


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


def _double(number: int, value: float) -> bytes:
    return _varint(number << 3 | 1) + struct.pack("<d", value) if value else b""


def _any(number: int, value: object) -> bytes:
    return _part(number, _part(2, codec.dump(value)))


def _named(number: int, values: Raw, encode: Encode) -> bytes:
    """Entries of a map: messages with a name and a value."""
    rows = (_text(1, name) + encode(2, value) for name, value in values.items())
    return b"".join(_part(number, row) for row in rows)


def _schema(number: int, schema: Raw) -> bytes:
    return _part(number, _fields(_SCHEMA, schema) + _extensions(31, schema))


def _extensions(number: int, node: Raw) -> bytes:
    own = {name: value for name, value in node.items() if name.startswith("x-")}
    return _named(number, own, _any)


def _additional(number: int, value: Any) -> bytes:
    return _part(number, _schema(1, value) if isinstance(value, dict) else _integer(2, value))


def _path(number: int, item: Raw) -> bytes:
    methods = (
        _part(method, _fields(_OPERATION, item[name]) + _extensions(13, item[name]))
        for name, method in _METHODS.items()
        if name in item
    )
    return _part(number, b"".join(methods) + _parameters(9, item["parameters"]))


def _response(number: int, response: Raw) -> bytes:
    schema = _part(2, _schema(1, response["schema"]))
    return _part(number, _part(1, _text(1, response["description"]) + schema))


def _parameters(number: int, rows: Iterable[Raw]) -> bytes:
    return b"".join(_part(number, _part(1, _parameter(row))) for row in rows)


def _parameter(row: Raw) -> bytes:
    if row["in"] == "body":
        head = _text(2, row["name"]) + _text(3, "body") + _integer(4, row.get("required", False))
        return _part(1, head + _schema(5, row["schema"]))
    query = row["in"] == "query"
    fields = _integer(1, row.get("required", False)) + _text(2, row["in"])
    fields += _text(3, row.get("description", "")) + _text(4, row["name"])
    fields += _text(6 if query else 5, row["type"]) + _integer(20 if query else 19, True)
    return _part(2, _part(3 if query else 4, fields))


_INFO: Layout = {"title": (1, _text), "version": (2, _text)}
_SCHEMA: Layout = {
    "$ref": (1, _text), "format": (2, _text), "title": (3, _text), "description": (4, _text),
    "multipleOf": (6, _double), "maximum": (7, _double), "exclusiveMaximum": (8, _integer),
    "minimum": (9, _double), "exclusiveMinimum": (10, _integer), "maxLength": (11, _integer),
    "minLength": (12, _integer), "pattern": (13, _text), "maxItems": (14, _integer),
    "minItems": (15, _integer), "uniqueItems": (16, _integer), "maxProperties": (17, _integer),
    "minProperties": (18, _integer), "required": (19, _texts),
    "enum": (20, lambda number, values: b"".join(_any(number, value) for value in values)),
    "additionalProperties": (21, _additional),
    "type": (22, lambda number, name: _part(number, _text(1, name))),
    "items": (23, lambda number, items: _part(number, _schema(1, items))),
    "properties": (25, lambda number, fields: _part(number, _named(1, fields, _schema))),
}  # fmt: skip
_OPERATION: Layout = {
    "operationId": (5, _text), "produces": (6, _texts), "consumes": (7, _texts),
    "parameters": (8, _parameters),
    "responses": (9, lambda number, rows: _part(number, _named(1, rows, _response))),
    "schemes": (10, _texts),
}  # fmt: skip
_DOCUMENT: Layout = {
    "swagger": (1, _text),
    "info": (2, lambda number, info: _part(number, _fields(_INFO, info))),
    "paths": (8, lambda number, paths: _part(number, _named(2, paths, _path))),
    "definitions": (9, lambda number, types: _part(number, _named(1, types, _schema))),
}
