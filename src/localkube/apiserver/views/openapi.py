"""OpenAPI version 3: one document per group and version, at /openapi/v3.

kubectl reads from it that the server validates fields itself, and `kubectl explain` reads the
schemas. The list of documents gives each of them a hash, with which clients keep it: a document is
large and changes only with a definition or with the server.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from kubekit import schemas
from localkube.apiserver import codec
from localkube.apiserver.views.openapi_types import GVK, REFERENCE, Types

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from localkube.apiserver.resource import Resource
    from localkube.apiserver.resource_registry import Registry

_QUERY = ("dryRun", "fieldManager", "fieldValidation")
_TEXT = {"type": "string"}
_WRITES = ("post", "put", "patch")
INFO = {"title": "Kubernetes", "version": "v1.36.0"}


def document(registry: Registry, path: str) -> Raw | None:
    """The document at an /openapi/v3 path; None if there is none."""
    parts = path.strip("/").split("/")
    if parts == ["openapi", "v3"]:
        return {"paths": _index(registry)}
    root = "/".join(["", *parts[2:]])
    resources = [resource for resource in registry.all() if resource.root == root]
    return _document(resources) if resources else None


def _index(registry: Registry) -> Raw:
    roots: dict[str, list[Resource]] = {}
    for resource in registry.all():
        roots.setdefault(resource.root, []).append(resource)
    return {
        root[1:]: {"serverRelativeURL": f"/openapi/v3{root}?hash={_hash(resources)}"}
        for root, resources in roots.items()
    }


def _hash(resources: list[Resource]) -> str:
    """A hash of everything that a document is made from."""
    content = hashlib.sha256(schemas.checksum())
    for resource in resources:
        subresources = sorted(resource.subresources)
        content.update(codec.dump([resource.gvk, resource.namespaced, subresources]))
        content.update(codec.dump(resource.schema))
    return content.hexdigest().upper()


def _document(resources: list[Resource]) -> Raw:
    types = Types()
    paths: Raw = {}
    for resource in resources:
        name, _ = types.add_kind(resource)
        for path in _paths(resource):
            paths[path] = _operations(resource, name, named=path.endswith("}"))
    return {
        "openapi": "3.0.0",
        "info": INFO,
        "paths": paths,
        "components": {"schemas": types.by_name},
    }


def _paths(resource: Resource) -> list[str]:
    namespace = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = f"{resource.root}{namespace}/{resource.plural}"
    return [collection, f"{collection}/{{name}}"]


def _operations(resource: Resource, schema: str, *, named: bool) -> Raw:
    content = {"application/json": {"schema": {"$ref": REFERENCE + schema}}}
    parameters = [{"name": option, "in": "query", "schema": _TEXT} for option in _QUERY]
    verbs = ("get", "put", "patch", "delete") if named else ("get", "post")
    return {
        verb: {
            "x-kubernetes-action": verb if verb in _WRITES else "get" if named else "list",
            GVK: resource.gvk,
            "parameters": parameters if verb in _WRITES else [],
            "responses": {"200": {"description": "OK", "content": content}},
        }
        for verb in verbs
    }
