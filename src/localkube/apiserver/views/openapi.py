"""OpenAPI version 3: one document per group and version, at /openapi/v3; the types in documents.

kubectl reads from it that the server validates fields itself, and `kubectl explain` reads the
schemas. The list of documents gives each of them a hash, with which clients keep it: a document is
large and changes only with a definition or with the server.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from kubekit import schemas
from localkube.apiserver import codec
from localkube.apiserver.schema.structural import METADATA

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from localkube.apiserver.resource import Resource
    from localkube.apiserver.resource_registry import Registry


_QUERY = ("dryRun", "fieldManager", "fieldValidation")
_TEXT = {"type": "string"}
_WRITES = ("post", "put", "patch")
INFO = {"title": "Kubernetes", "version": "v1.36.0"}
GVK = "x-kubernetes-group-version-kind"
REFERENCE = "#/components/schemas/"
_CONVENTIONS = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
_META = METADATA.rpartition(".")[0]
_LIST_META, STATUS, DELETE_OPTIONS = (
    f"{_META}.{name}" for name in ("ListMeta", "Status", "DeleteOptions")
)
SCALE = "io.k8s.api.autoscaling.v1.Scale"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_ANY_OBJECT = "io.k8s.apimachinery.pkg.runtime.RawExtension"
# The fields of every custom object, in the real server's words: `kubectl explain` prints them.
_TYPE_META: Raw = {
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
}


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
        namespace = "/namespaces/{namespace}" if resource.namespaced else ""
        collection = f"{resource.root}{namespace}/{resource.plural}"
        paths[collection] = _operations(resource, name, named=False)
        paths[f"{collection}/{{name}}"] = _operations(resource, name, named=True)
    return {
        "openapi": "3.0.0",
        "info": INFO,
        "paths": paths,
        "components": {"schemas": types.by_name},
    }


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


# -- types -----------------------------------------------------------------------------------------


class Types:
    """The types of one document, by name; a type brings all types that it refers to.

    The server itself works with schemas without descriptions (`kubekit.schemas`). The descriptions
    are in a separate file, which is read only for a document.
    """

    def __init__(self) -> None:
        self.by_name: Raw = {}
        self._descriptions = schemas.descriptions()

    def add_kind(self, resource: Resource) -> tuple[str, str]:
        """Add the type of a resource and of its list; returns their names."""
        return self._add_custom(resource) if resource.custom else self._add_built_in(resource)

    def add(self, name: str) -> str:
        """Add a built-in type."""
        todo = [name]
        while todo:
            current = todo.pop()
            if current not in self.by_name:
                self.by_name[current] = self._described(current)
                todo += references(self.by_name[current])
        return name

    def _add_built_in(self, resource: Resource) -> tuple[str, str]:
        group, version, kind = resource.group, resource.version, resource.kind
        name = schemas.name_of(group, version, kind)
        listed = schemas.name_of(group, version, f"{kind}List")
        if name:
            return self.add(name), self.add(listed or name)
        name = f"{version}.{kind}"
        self.by_name[name] = {"type": "object", GVK: [resource.gvk]}
        return name, name

    def _add_custom(self, resource: Resource) -> tuple[str, str]:
        name = f"{'.'.join(reversed(resource.group.split('.')))}.{resource.version}.{resource.kind}"
        own: Raw = _unfolded(resource.schema or {"type": "object"})
        metadata = _wrapped(
            METADATA, f"Standard object's metadata. More info: {_CONVENTIONS}#metadata"
        )
        properties = {**(own.get("properties") or {}), **_TYPE_META, "metadata": metadata}
        self.by_name[name] = {**own, "properties": properties, GVK: [resource.gvk]}
        self.by_name[f"{name}List"] = _list_type(resource, name)
        self.add(METADATA)
        self.add(_LIST_META)
        return name, f"{name}List"

    def _described(self, name: str) -> Raw:
        """A built-in type with its descriptions, as the real server publishes it."""
        bare: Raw = schemas.definitions()[name]
        texts = self._descriptions.get(name) or {}
        described = {**bare, **({"description": texts[""]} if "" in texts else {})}
        if name == _ANY_OBJECT:  # the mark is for this server's own checks
            del described["x-kubernetes-preserve-unknown-fields"]
        if "properties" in bare:
            described["properties"] = {
                field: {**schema, **({"description": texts[field]} if field in texts else {})}
                for field, schema in bare["properties"].items()
            }
        return described


def _wrapped(name: str, description: str) -> Raw:
    return {"description": description, "allOf": [{"$ref": REFERENCE + name}]}


def _unfolded(node: Any) -> Any:
    """A custom schema that says in plain OpenAPI what a number or a text is."""
    if isinstance(node, list):
        return [_unfolded(part) for part in node]
    if not isinstance(node, dict):
        return node
    unfolded = {key: _unfolded(part) for key, part in node.items()}
    if node.get(_INT_OR_STRING) is True and not node.keys() & {"anyOf", "allOf"}:
        unfolded["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    return unfolded


def _list_type(resource: Resource, name: str) -> Raw:
    kind = f"{resource.kind}List"
    items = f"List of {resource.plural}. More info: {_CONVENTIONS}"
    metadata = f"Standard list metadata. More info: {_CONVENTIONS}#types-kinds"
    return {
        "type": "object",
        "description": f"{kind} is a list of {resource.kind}",
        "required": ["items"],
        "properties": {
            **_TYPE_META,
            "items": {"type": "array", "items": {"$ref": REFERENCE + name}, "description": items},
            "metadata": _wrapped(_LIST_META, metadata),
        },
        GVK: [{**resource.gvk, "kind": kind}],
    }


def references(node: Any) -> list[str]:
    """The names of all types a schema refers to."""
    found = (part.get("$ref") for part in schemas.maps_in(node))
    return [ref.rpartition("/")[2] for ref in found if isinstance(ref, str)]
