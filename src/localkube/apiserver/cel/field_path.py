"""Paths of fields in rules: `.spec.size`, `['a.b'].c`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw

_STEP = re.compile(r"\.(?P<name>[^.\[\]']+)|\['(?P<quoted>(?:\\.|[^'\\])*)'\]")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class InvalidPath(ValueError):
    """The path is malformed, or names a field that the schema does not have."""


def normalized(path: str, schema: Raw) -> str:
    """The path as messages show it: without its first dot, with keys of maps in brackets."""
    shown, at = "", 0
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            raise InvalidPath(path)
        at = step.end()
        name = step["name"]
        if name is None:
            name = re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), step["quoted"])
        properties = schema.get("properties")
        others = schema.get("additionalProperties")
        if properties:
            if name not in properties:
                raise InvalidPath(path)
            schema, shown = properties[name], f"{shown}.{name}"
        elif isinstance(others, dict):
            schema, shown = others, f"{shown}[{name}]"
        else:
            raise InvalidPath(path)
    return shown.removeprefix(".")
