"""The types of fields: which maps and lists are merged, and by which keys their items are found.

A FieldType is made from the schema of a kind, as kube-apiserver makes its types from the same
schema. For a built-in kind it also knows the Go struct: a Go object always has some of its fields,
even if nobody set them (`resources: {}` of a container), and these have an owner too.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from kubekit import schemas
from kubekit.schemas import Schema
from localkube.apiserver.apply import field_set
from localkube.apiserver.http.protobuf import Field, struct_layout, struct_name
from localkube.apiserver.schema.structural import METADATA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localkube.apiserver.resource import Resource


ABSENT: Any = object()
"""The value of a field that does not exist. None is a null."""

_RAW = "k8s.io.apimachinery.pkg.runtime.RawExtension"
_ZEROS: dict[str, Any] = {
    "string": "", "bytes": "", "bool": False, "double": 0, "int32": 0, "int64": 0,
    "k8s.io.apimachinery.pkg.api.resource.Quantity": "0",
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": 0,
    "k8s.io.apimachinery.pkg.apis.meta.v1.Time": None,
    "k8s.io.apimachinery.pkg.apis.meta.v1.MicroTime": None,
    "k8s.io.apimachinery.pkg.apis.meta.v1.Duration": "0s",
}  # fmt: skip
_OMITTED = frozenset({"string", "bytes", "bool", "double", "int32", "int64"})
"""Types whose zero Go leaves out if the field is marked so."""


Shape = tuple[dict[str, Any], tuple[tuple[str, str, "FieldType"], ...]]
"""The node of a map with certain fields if all of them were leaves; name, path element and type of
those that may be none."""


class FieldType:
    """The type of a field whose value may be a scalar, a map or a list."""

    __slots__ = (
        *("_fields", "_items", "_layout", "_message", "_preserves", "_schema", "atomic_list"),
        *("atomic_map", "declared", "element", "implied", "is_leaf", "key_defaults", "keys"),
        *("shapes", "tags"),
    )

    def __init__(self, schema: Schema, message: str = "", *, preserves: bool = False) -> None:
        """`message` is the Go struct of the value, or of its items; empty for custom kinds."""
        raw = schema.raw
        self._schema, self._message = schema, message
        self._preserves = preserves or schema.preserves
        self._layout = struct_layout(message) if message and schema.properties else {}
        # A CRD need not declare the fields that every object has.
        self._fields: dict[str, FieldType] = {}
        if raw.get("x-kubernetes-embedded-resource"):
            text = FieldType(Schema({"type": "string"}))
            metadata = FieldType(schemas.by_name(METADATA))
            self._fields = {"apiVersion": text, "kind": text, "metadata": metadata}
        self._items: FieldType | None = None
        self.declared = frozenset((*schema.properties, *self._fields))
        self.tags = {name: field_set.field(name) for name in self.declared}
        self.atomic_map = raw.get("x-kubernetes-map-type") == "atomic" or message == _RAW
        self.keys, self.atomic_list = _list_kind(raw)
        declared = schema.items() if self.keys else None
        keys = {key: declared.properties.get(key) or {} for key in self.keys} if declared else {}
        self.key_defaults = {key: raw["default"] for key, raw in keys.items() if "default" in raw}
        self.implied = {
            name: value
            for name, field in self._layout.items()
            if name in self.declared and (value := _implied(field)) is not ABSENT
        }
        self.element = None if schema is _ANY else self._undeclared()
        scalar = schema.type not in ("object", "array", "")
        self.is_leaf = scalar or (self.atomic_map if schema.type == "object" else False)
        self.is_leaf |= schema.type == "array" and self.atomic_list
        self.shapes: dict[tuple[str, ...], Shape] = {}

    def _undeclared(self) -> FieldType | None:
        """The type of fields that are not declared; None if the map has declared fields only."""
        extra = self._schema.raw.get("additionalProperties")
        if isinstance(extra, dict):
            schema = self._schema.additional() or _ANY
            return FieldType(schema, self._message, preserves=self._preserves)
        anything = self._preserves or not self.declared if extra is None else extra
        return deduced() if anything else None

    def field(self, name: str) -> FieldType | None:
        """The type of a field; None if the map cannot have it."""
        known = self._fields.get(name)
        if known is None and name in self.declared:
            row = self._layout.get(name)
            message = row.type if row is not None and row.type not in _ZEROS else ""
            schema = self._schema.field(name) or _ANY
            known = self._fields[name] = FieldType(schema, message, preserves=self._preserves)
        return known or self.element

    def items(self) -> FieldType:
        """The type of the items of a list."""
        if self._items is None:
            schema = None if self.atomic_list else self._schema.items()
            known = schema and FieldType(schema, self._message, preserves=self._preserves)
            self._items = known or untyped()
        return self._items

    def tag(self, name: str) -> str:
        """The path element of a field."""
        return self.tags.get(name) or field_set.field(name)


def _list_kind(raw: dict[str, Any]) -> tuple[tuple[str, ...], bool]:
    """The keys of a list's items, and whether the list is atomic. A set has no keys."""
    kind, strategy = raw.get("x-kubernetes-list-type"), raw.get("x-kubernetes-patch-strategy", "")
    if kind:
        keys = raw.get("x-kubernetes-list-map-keys") or () if kind == "map" else ()
        return tuple(keys), kind == "atomic"
    if "merge" in str(strategy).split(","):
        key = raw.get("x-kubernetes-patch-merge-key")
        return (str(key),) if key else (), False
    return (), True


def _implied(field: Field) -> Any:
    """The value of a field that nobody set, as Go writes it; ABSENT if it leaves the field out."""
    if field.shape != "o" or field.pointer:
        return ABSENT if field.omits else None
    if field.type in _ZEROS:
        omitted = field.omits and (field.type in _OMITTED or field.name == "creationTimestamp")
        return ABSENT if omitted else _ZEROS[field.type]
    return {}  # `omitempty` has no effect on a struct


_ANY = Schema({})


@cache
def deduced(*, atomic_map: bool = False) -> FieldType:
    """The type of fields without a schema: maps are merged, lists are atomic."""
    anything = FieldType(_ANY)
    anything.element = anything
    anything.atomic_map = atomic_map
    return anything


@cache
def untyped() -> FieldType:
    """The type of values inside an atomic list."""
    return deduced(atomic_map=True)


def type_of(resource: Resource) -> FieldType:
    """The type of the objects of a kind."""
    if not resource.custom:
        name = schemas.name_of(resource.group, resource.version, resource.kind)
        return _builtin(name)
    schema = resource.walkable_schema
    if schema is None:
        return deduced()
    return FieldType(Schema({**schema.raw, "x-kubernetes-embedded-resource": True}))


@cache
def _builtin(name: str) -> FieldType:
    return FieldType(schemas.by_name(name), struct_name(name)) if name else deduced()


# -- items of lists that are merged item by item -------------------------------------------------


class NoIdentityError(ValueError):
    """An item cannot be found again, because it has no keys or no plain value."""


def element_of(item: Any, of: FieldType) -> str:
    """The path element of an item of a list of this type."""
    if not of.keys:
        if isinstance(item, dict):
            raise NoIdentityError("associative list without keys has an element that's a map type")
        if isinstance(item, list):
            raise NoIdentityError("not supported: associative list with lists as elements")
        if item is None:
            why = "associative list without keys has an element that's an explicit null"
            raise NoIdentityError(why)
        return field_set.item_of_set(item)
    if not isinstance(item, dict):
        kind = "a null element" if item is None else "non-map elements"
        raise NoIdentityError(f"associative list with keys may not have {kind}")
    keys = {key: item[key] for key in of.keys if key in item}
    if len(keys) < len(of.keys):
        keys = of.key_defaults | keys
    if not keys:
        names = " ".join(f'"{key}"' for key in of.keys)
        raise NoIdentityError(
            f"associative list with keys has an element that omits all key fields [{names}]"
            " (and doesn't have default values for any key fields)"
        )
    return field_set.item_with_keys(keys)


def by_element(items: Sequence[Any], of: FieldType) -> dict[str, list[Any]]:
    """The items by their path elements, in order. Several items may have the same one."""
    found: dict[str, list[Any]] = {}
    for item in items:
        found.setdefault(element_of(item, of), []).append(item)
    return found
