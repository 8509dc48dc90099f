"""Keys that a body has twice. The last one counts, but a client may want to hear of it.

Pure; called by `verbs.py` for bodies that `bodies.py` could read.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import yaml

from muster.local.apiserver.request.bodies import YAML, media_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.local.apiserver.request.call import Call


class _Repeating(dict[str, Any]):
    """A map that was written with some keys twice."""

    keys_twice: tuple[str, ...] = ()


def repeated(call: Call) -> list[str]:
    """The paths of all keys that come again in the same map."""
    if call.query.get("fieldValidation") == "Ignore" or not call.body:
        return []
    kind = media_type(call.content_type)
    if kind == YAML and call.body.lstrip()[:1] != b"{":
        node = yaml.compose(call.body, yaml.CSafeLoader)
        return list(dict.fromkeys(_in_yaml(node, ""))) if node else []
    return _in_json(call.body) if kind in ("", "application/json", YAML) else []


def _in_json(body: bytes) -> list[str]:
    found = False

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal found
        made = dict(items)
        if len(made) == len(items):
            return made
        found = True
        marked = _Repeating(made)
        written = Counter(key for key, _ in items)
        marked.keys_twice = tuple(key for key, times in written.items() if times > 1)
        return marked

    try:
        value = json.loads(body, object_pairs_hook=pairs)
    except ValueError:  # flow style YAML, which begins like JSON
        return []
    return list(dict.fromkeys(_paths(value, ""))) if found else []


def _paths(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Repeating):
        yield from (f"{path}{key}" for key in value.keys_twice)
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _paths(part, f"{path}{key}.")
    elif isinstance(value, list):
        for i, part in enumerate(value):
            yield from _paths(part, f"{path.removesuffix('.')}[{i}].")


def _in_yaml(node: yaml.Node, path: str) -> Iterator[str]:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                yield f"{path}{key.value}"
            seen.add(key.value)
            yield from _in_yaml(value, f"{path}{key.value}.")
    elif isinstance(node, yaml.SequenceNode):
        for i, value in enumerate(node.value):
            yield from _in_yaml(value, f"{path.removesuffix('.')}[{i}].")
