"""The types that a schema gives values in expressions.

The library knows objects with named fields as protobuf messages only. So each object of a schema
becomes a message, in a pool that exists for the checks of one definition.

As with a real server, a value without a type in its schema is not visible in expressions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from localkube.apiserver.cel.descriptors import OPTIONAL, REPEATED, TYPES, Field, Message, Pool
from localkube.apiserver.cel.escaping import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kubekit.objects.meta import Raw

_PACKAGE = "schema"
_STRINGS = {
    "byte": "bytes",
    "duration": "duration",
    "date": "timestamp",
    "date-time": "timestamp",
}
_SCALARS = {"boolean": "bool", "number": "double", "integer": "int"}
_TEXT = {"type": "string"}
_OBJECT_META = {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}}
_WELL_KNOWN = {
    "dyn": "google.protobuf.Value",
    "duration": "google.protobuf.Duration",
    "timestamp": "google.protobuf.Timestamp",
}


class Variables(NamedTuple):
    """The variables of expressions: the type of each, and a pool that describes the types."""

    types: Mapping[str, Raw]
    pool: Pool


def as_resource(schema: Raw) -> Raw:
    """The schema of a whole object, whose kind and name expressions can always see."""
    implied = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": _OBJECT_META}
    return {**schema, "properties": {**(schema.get("properties") or {}), **implied}}


class Messages:
    """Collects the messages of a pool."""

    def __init__(self, *, escaped: bool = True) -> None:
        """`escaped` if fields have the names that expressions use for fields of custom kinds."""
        self._identifier: Callable[[str], str | None] = escape if escaped else str
        self._messages: list[Message] = []
        self._known: dict[int, tuple[Raw, Raw | None]] = {}

    def type_of(self, schema: Raw, *, root: bool = False) -> Raw | None:
        """The type of a schema's values; None if expressions cannot see them."""
        if schema.get("x-kubernetes-int-or-string"):
            return {"type_name": "dyn"}
        if root or schema.get("x-kubernetes-embedded-resource"):
            schema = as_resource(schema)
        # Many rules are about parts of the same schema.
        if id(schema) not in self._known:
            self._known[id(schema)] = (schema, self._type_of(schema))
        return self._known[id(schema)][1]

    def _type_of(self, schema: Raw) -> Raw | None:
        kind = schema.get("type")
        if kind == "array":
            item = self.type_of(schema.get("items") or {})
            return item and {"type_name": "list", "params": [item]}
        if kind == "object":
            return self._map_or_message(schema)
        if kind == "string":
            return {"type_name": _STRINGS.get(schema.get("format", ""), "string")}
        return {"type_name": _SCALARS[kind]} if kind in _SCALARS else None

    def _map_or_message(self, schema: Raw) -> Raw | None:
        values = schema.get("additionalProperties")
        if isinstance(values, dict):
            value = self.type_of(values)
            return value and {"type_name": "map", "params": [{"type_name": "string"}, value]}
        types = {
            name: self.type_of(part) for name, part in (schema.get("properties") or {}).items()
        }
        return self.message({name: kind for name, kind in types.items() if kind})

    def message(self, fields: Mapping[str, Raw]) -> Raw:
        """A new type with these fields."""
        message = Message(f"Object{len(self._messages)}", [], [])
        self._messages.append(message)
        for field, kind in fields.items():
            if identifier := self._identifier(field):
                message.fields.append(self._field(message, identifier, kind))
        return {"type_name": f"{_PACKAGE}.{message.name}"}

    def _field(self, message: Message, name: str, kind: Raw) -> Field:
        word, label = str(kind["type_name"]), REPEATED
        if word == "list":
            word = _element(kind["params"][0])
        elif word == "map":
            word = self._entry(message, name, kind["params"][1])
        else:
            label = OPTIONAL
        label = OPTIONAL if word == "dyn" and kind["type_name"] == "map" else label
        return Field(name, _WELL_KNOWN.get(word, word), label)

    def _entry(self, message: Message, field: str, value: Raw) -> str:
        """The type of the entries of a map."""
        # The name is the only one that protobuf accepts: `fooBar` and `foo_bar` have the same.
        name = "".join(word[:1].upper() + word[1:] for word in field.split("_")) + "Entry"
        if any(other.name == name for other in message.nested):
            return "dyn"
        kind = _element(value)
        fields = [Field("key", "string"), Field("value", _WELL_KNOWN.get(kind, kind))]
        message.nested.append(Message(name, fields, [], is_map_entry=True))
        return f"{_PACKAGE}.{message.name}.{name}"

    def variables(self, types: Mapping[str, Raw]) -> Variables:
        """Variables of these types."""
        return Variables(types, Pool(_PACKAGE, self._messages))


def _element(kind: Raw) -> str:
    # A field cannot hold lists of lists or of maps; such an element is not checked.
    return "dyn" if kind["type_name"] in ("list", "map") else str(kind["type_name"])


def field_type(name: str) -> Raw:
    """The type that an expression has (`LIST<STRING>`) as that of a field of a message."""
    kind, _, inner = name.removesuffix(">").partition("<")
    if kind == "LIST":
        return {"type_name": "list", "params": [field_type(inner)]}
    if kind == "MAP" and inner.startswith("STRING, "):
        value = field_type(inner.removeprefix("STRING, "))
        return {"type_name": "map", "params": [{"type_name": "string"}, value]}
    word = kind.lower()
    return {"type_name": word if word in TYPES or word in _WELL_KNOWN else "dyn"}
