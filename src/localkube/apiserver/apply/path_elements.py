"""Path elements: one step from an object into a field or an item, as text.

The text of an item's keys and of a set's value is JSON as Go writes it, so that a set which
another server wrote has the same elements.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

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


def order(element: str) -> tuple[Any, ...]:
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
