"""OpenAPI version 2, at /openapi/v2: one document with all types and paths.

Old clients read nothing else, and kubectl checks the items of a List by it. The types are those of
version 3 in the older form, as the real server writes it: without defaults and alternatives.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from localkube.apiserver.views.openapi import INFO
from localkube.apiserver.views.openapi_types import (
    DELETE_OPTIONS,
    GVK,
    REFERENCE,
    SCALE,
    STATUS,
    Types,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.objects.meta import Raw
    from localkube.apiserver.resource import Resource
    from localkube.apiserver.resource_registry import Registry

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
_PATCHES = [
    f"application/{kind}"
    for kind in ("json-patch+json", "merge-patch+json", "strategic-merge-patch+json")
] + ["application/apply-patch+yaml"]


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
        name: _custom_type(schema) if name in custom else lowered(schema)
        for name, schema in types.by_name.items()
    }
    return {"swagger": "2.0", "info": INFO, "paths": paths, "definitions": definitions}


# -- types ---------------------------------------------------------------------------------------


def _custom_type(schema: Raw) -> Raw:
    if schema.get(_PRESERVE):
        # kubectl would take every field outside of a list of properties for unknown.
        return {"type": "object", GVK: schema[GVK]}
    return lowered(schema)


def lowered(schema: Raw) -> Raw:
    """A schema of version 3 in the form of version 2."""
    schema = _single(schema)
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


def _single(schema: Raw) -> Raw:
    """A reference that stands in `allOf` only to have a description beside it."""
    wrapped = schema.get("allOf")
    if isinstance(wrapped, list) and len(wrapped) == 1 and "$ref" in wrapped[0]:
        return {**{k: v for k, v in schema.items() if k != "allOf"}, **wrapped[0]}
    return schema


def _lowered_part(key: str, value: Any) -> Any:
    if key == "properties":
        return {name: lowered(part) for name, part in value.items()}
    if key in ("items", "additionalProperties") and isinstance(value, dict):
        return lowered(value)
    return value.replace(REFERENCE, "#/definitions/") if key == "$ref" else value


# -- paths ---------------------------------------------------------------------------------------


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


def _operation(
    resource: Resource, names: tuple[str, str], path: str, verb: str, action: str
) -> Raw:
    scale = path.endswith("/scale")
    own = SCALE if scale else names[0]
    deleted = own if resource.strategy.delete_answer == "object" else STATUS
    answer = {"list": names[1], "delete": deleted, "deletecollection": STATUS}.get(action, own)
    gvk = {"group": "autoscaling", "version": "v1", "kind": "Scale"} if scale else resource.gvk
    codes = {"post": ("200", "201", "202"), "put": ("200", "201"), "delete": ("200", "202")}
    schema = {"$ref": f"#/definitions/{answer}"}
    operation: Raw = {
        "operationId": _operation_id(resource, path, action),
        "consumes": _PATCHES if verb == "patch" else ["*/*"],
        "produces": ["application/json", "application/yaml"],
        "schemes": ["https"],
        "parameters": [*_body(verb, action, own), *_query(action)],
        "responses": {
            code: {"description": _MEANINGS[code], "schema": schema}
            for code in codes.get(action, ("200",))
        },
        "x-kubernetes-action": action,
        GVK: gvk if not (scale and resource.custom) else resource.gvk,
    }
    return operation


_MEANINGS = {"200": "OK", "201": "Created", "202": "Accepted"}


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


def _query(action: str) -> list[Raw]:
    return [
        {"name": name, "in": "query", "type": _TYPES.get(name, "string"), "uniqueItems": True}
        for name in _QUERY.get(action, ())
    ]


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
