"""Sets of fields, in the form in which `managedFields` shows them (fieldsV1).

A set is a tree of maps. The keys are path elements: `f:name` is a field, `k:{"name":"a"}` an item
of a list with keys, `v:"a"` an item of a set. A node without children is in the set; a node with
children is in the set only if it has the key `.`. The root stands for the whole object, which is
in no set: an empty root is the empty set.

    {"f:spec": {"f:replicas": {}, "f:ports": {".": {}, 'k:{"port":80}': {".": {}, "f:port": {}}}}}

Sets are never changed after they were built, so they may share parts.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator


FieldSet = dict[str, Any]
Path = tuple[str, ...]

SELF = "."
LEAF: FieldSet = {}
"""The node of a field without children. Shared by all sets."""


def is_member(node: FieldSet) -> bool:
    """Whether the field of a node is in the set."""
    return not node or SELF in node


def children(node: FieldSet) -> FieldSet:
    """The fields below a node."""
    if SELF not in node:
        return node
    return {element: child for element, child in node.items() if element != SELF}


def put(parent: FieldSet, element: str, inner: FieldSet, *, member: bool) -> None:
    """Add a child with the fields `inner`, unless it would be empty."""
    if inner:
        parent[element] = {SELF: LEAF, **inner} if member else inner
    elif member:
        parent[element] = LEAF


def union(a: FieldSet, b: FieldSet) -> FieldSet:
    """The fields that are in either set."""
    if not a or not b:
        return a or b
    result = dict(a)
    for element, node in b.items():
        if element in a and element != SELF:
            other, inner = a[element], {}
            if node is not other:
                inner = union(children(other), children(node))
                put(result, element, inner, member=is_member(other) or is_member(node))
        else:
            result[element] = node
    return result


def difference(a: FieldSet, b: FieldSet, *, deep: bool = False) -> FieldSet:
    """The fields of `a` that are not in `b`.

    A field of `b` does not take the fields below it, except with `deep`.
    """
    if a.keys().isdisjoint(b):
        return a
    result: FieldSet = {}
    for element, node in a.items():
        other = b.get(element)
        if other is None:
            result[element] = node
        elif element != SELF and not (deep and is_member(other)):
            inner = difference(children(node), children(other), deep=deep)
            put(result, element, inner, member=is_member(node) and not is_member(other))
    return result


def without(a: FieldSet, b: FieldSet) -> FieldSet:
    """The fields of `a` that are neither in `b` nor below a field of `b`."""
    return difference(a, b, deep=True)


def intersection(a: FieldSet, b: FieldSet) -> FieldSet:
    """The fields that are in both sets."""
    result: FieldSet = {}
    for element in a.keys() & b.keys() - {SELF}:
        mine, other = a[element], b[element]
        inner = intersection(children(mine), children(other))
        put(result, element, inner, member=is_member(mine) and is_member(other))
    return result


def contains(fields: FieldSet, path: Path) -> bool:
    """Whether the field at a path is in the set."""
    node: FieldSet | None = fields
    for element in path:
        node = node.get(element) if node else None
        if node is None:
            return False
    return bool(path) and is_member(node or LEAF)


def single(path: Path) -> FieldSet:
    """The set of one field."""
    node = LEAF
    for element in reversed(path):
        node = {element: node}
    return node


def paths(fields: FieldSet) -> Iterator[Path]:
    """All fields of a set: those of one level, then those below each of them, each in order."""
    elements = sorted((element for element in fields if element != SELF), key=_order)
    for element in elements:
        if is_member(fields[element]):
            yield (element,)
    for element in elements:
        for inner in paths(children(fields[element])):
            yield (element, *inner)


# -- path elements -------------------------------------------------------------------------------

# Keys of an item and values of a set are JSON as Go writes it, so that a set which another server
# wrote has the same elements.
_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder().decode
# Go escapes these in JSON.
_TO_ESCAPE = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}
_KINDS = "fkvi"


def field(name: str) -> str:
    """The element of a field."""
    return f"f:{name}"


def item_with_keys(keys: dict[str, Any]) -> str:
    """The element of an item of a list with keys."""
    try:
        return _item_with_keys(tuple(keys), *keys.values())
    except TypeError:  # a map or a list, which no kind has as a key
        return "k:" + _json(keys)


@lru_cache(2048, typed=True)  # names of containers and conditions come again and again
def _item_with_keys(names: tuple[str, ...], *values: Any) -> str:
    return "k:" + _json(dict(zip(names, values, strict=True)))


def item_of_set(value: Any) -> str:
    """The element of an item of a set."""
    return "v:" + _json(value)


def _json(value: Any) -> str:
    return _encode(value).decode().translate(_TO_ESCAPE)


def canonical(element: str) -> str:
    """The same element as this server writes it; empty if it is of an unknown kind."""
    kind, content = element[:2], element[2:]
    if kind in ("k:", "v:"):
        value = _decode(content)
        return (item_with_keys if kind == "k:" else item_of_set)(value)
    return element if kind in ("f:", "i:") else ""


def _order(element: str) -> tuple[Any, ...]:
    """The order of elements: fields by name, then items by their keys or values."""
    kind, content = element[:1], element[2:]
    rank = _KINDS.find(kind)
    if kind == "k":
        return (rank, *((name, *_value_order(v)) for name, v in _decode(content).items()))
    if kind == "v":
        return (rank, _value_order(_decode(content)))
    return (rank, int(content)) if kind == "i" else (rank, content)


def _value_order(value: Any) -> tuple[int, Any]:
    if isinstance(value, bool):
        return (2, value)
    if isinstance(value, int | float):
        return (0, value)
    return (1, value) if isinstance(value, str) else (3, _json(value))


def path_text(path: tuple[str, ...]) -> str:
    """A path as messages show it: `.spec.ports[port=80,protocol="TCP"].name`."""
    return "".join(map(_text, path))


def _text(element: str) -> str:
    kind, content = element[:1], element[2:]
    if kind == "k":
        keys = (f"{name}={_value_text(value)}" for name, value in _decode(content).items())
        return f"[{','.join(keys)}]"
    if kind == "v":
        return f"[={_value_text(_decode(content))}]"
    return f"[{content}]" if kind == "i" else f".{content}"


def _value_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
