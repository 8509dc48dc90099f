"""OpenAPI as far as clients use it: /openapi/v3, one document per group and version; v2 is empty.

kubectl reads from it that the server validates fields itself, and `kubectl explain` reads the
schemas. The schemas come from the generated ones of built-in kinds and from CRDs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.api import schemas
from muster.local.apiserver.schema.structural import METADATA

if TYPE_CHECKING:
    from muster.api.meta import Raw
    from muster.local.apiserver.resource import Resource
    from muster.local.apiserver.resource_registry import Registry

_GVK = "x-kubernetes-group-version-kind"
_QUERY = ("dryRun", "fieldManager", "fieldValidation")
_REFERENCE = "#/components/schemas/"
_TEXT = {"type": "string"}
_CONVENTIONS = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
# The fields of every custom object, in the real server's words: `kubectl explain` prints them.
_EVERY_OBJECT: Raw = {
    "apiVersion": {
        "type": "string",
        "description": "APIVersion defines the versioned schema of this representation of an"
        " object. Servers should convert recognized schemas to the latest internal value, and may"
        f" reject unrecognized values. More info: {_CONVENTIONS}#resources",
    },
    "kind": {
        "type": "string",
        "description": "Kind is a string value representing the REST resource this object"
        " represents. Servers may infer this from the endpoint the client submits requests to."
        f" Cannot be updated. In CamelCase. More info: {_CONVENTIONS}#types-kinds",
    },
    "metadata": {
        "description": f"Standard object's metadata. More info: {_CONVENTIONS}#metadata",
        "allOf": [{"$ref": _REFERENCE + METADATA}],
    },
}
_WRITES = ("post", "put", "patch")
_INFO = {"title": "Kubernetes", "version": "v1.36.0"}
V2 = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
V2_SENT = V2.replace("@", ".")  # an @ is not allowed in the type of an answer
# The same document without any types, as protobuf: field 1 is the format's version.
V2_EMPTY = b"\x0a\x032.0"
"""kubectl checks lists by the old format, in protobuf only, and does not check kinds without a type
there: the server checks the objects when they arrive."""


def document(registry: Registry, path: str) -> Raw | None:
    """The document at an /openapi path; None if there is none."""
    parts = path.strip("/").split("/")
    if parts == ["openapi", "v3"]:
        roots = dict.fromkeys(resource.root for resource in registry.all())
        urls = {root[1:]: {"serverRelativeURL": f"/openapi/v3{root}"} for root in roots}
        return {"paths": urls}
    if parts == ["openapi", "v2"]:
        return {"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": {}}
    if parts[:2] != ["openapi", "v3"]:
        return None
    root = "/".join(["", *parts[2:]])
    resources = [resource for resource in registry.all() if resource.root == root]
    return _document(resources) if resources else None


def _document(resources: list[Resource]) -> Raw:
    components: Raw = {}
    paths: Raw = {}
    for resource in resources:
        name = _add_schema(resource, components)
        for path in _paths(resource):
            paths[path] = _operations(resource, name, named=path.endswith("}"))
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": paths,
        "components": {"schemas": components},
    }


def _paths(resource: Resource) -> list[str]:
    namespace = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = f"{resource.root}{namespace}/{resource.plural}"
    return [collection, f"{collection}/{{name}}"]


def _operations(resource: Resource, schema: str, *, named: bool) -> Raw:
    content = {"application/json": {"schema": {"$ref": _REFERENCE + schema}}}
    parameters = [{"name": option, "in": "query", "schema": _TEXT} for option in _QUERY]
    verbs = ("get", "put", "patch", "delete") if named else ("get", "post")
    return {
        verb: {
            "x-kubernetes-action": verb if verb in _WRITES else "get" if named else "list",
            _GVK: resource.gvk,
            "parameters": parameters if verb in _WRITES else [],
            "responses": {"200": {"description": "OK", "content": content}},
        }
        for verb in verbs
    }


def _add_schema(resource: Resource, components: Raw) -> str:
    """Add the schema of a kind, and all schemas it refers to; returns its name."""
    if resource.custom:
        name = f"{'.'.join(reversed(resource.group.split('.')))}.{resource.version}.{resource.kind}"
        own = resource.schema or {"type": "object"}
        properties = {**(own.get("properties") or {}), **_EVERY_OBJECT}
        components[name] = {**own, "properties": properties, _GVK: [resource.gvk]}
        _collect(METADATA, components)
        return name
    name = schemas.name_of(resource.group, resource.version, resource.kind)
    if not name:
        name = f"{resource.version}.{resource.kind}"
        components[name] = {"type": "object", _GVK: [resource.gvk]}
    else:
        _collect(name, components)
    return name


def _collect(name: str, components: Raw) -> None:
    todo = [name]
    while todo:
        current = todo.pop()
        if current not in components:
            components[current] = schemas.definitions()[current]
            todo += references(components[current])


def references(node: Any) -> list[str]:
    """The names of all types a schema refers to."""
    if isinstance(node, dict):
        own = [node["$ref"].rpartition("/")[2]] if isinstance(node.get("$ref"), str) else []
        return own + [name for value in node.values() for name in references(value)]
    if isinstance(node, list):
        return [name for value in node for name in references(value)]
    return []
