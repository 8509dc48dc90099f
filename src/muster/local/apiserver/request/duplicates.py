"""Keys that a body has twice. The last one counts, but a client may want to hear of it.

Pure; called by `screening.py` and `verbs.py` for bodies that `bodies.py` could read.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from muster.local.apiserver.request.bodies import media_type, read
from muster.local.apiserver.request.protobuf import MEDIA_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.local.apiserver.request.call import Call


_DUPLICATE = "duplicate field"


class Told(NamedTuple):
    """Something to warn of, and the field it is about."""

    text: str
    path: str = ""


class _Repeating(dict[str, Any]):
    """A map that was written with some keys twice."""

    keys_twice: tuple[str, ...] = ()


def repeated(call: Call) -> list[Told]:
    """All keys that come again in the same map."""
    if call.query.get("fieldValidation") == "Ignore" or not call.body:
        return []
    kind = media_type(call.content_type)
    if kind == MEDIA_TYPE:
        return []
    text = "json patch duplicate field" if kind == "application/json-patch+json" else _DUPLICATE
    if kind.endswith("yaml") and call.body.lstrip()[:1] != b"{":
        found = [path for path, _ in _in_yaml(_composed(call.body), "")]
    else:
        found = _in_json(call.body)
    if kind == "application/apply-patch+yaml":
        return _by_line(call.body) if found else []
    return [Told(f'{text} "{path}"', path) for path in dict.fromkeys(found)]


def in_order(call: Call, told: list[Told]) -> list[Told]:
    """What is told of the fields of a body, in the order of the fields."""
    if len(told) < 2 or call.resource.custom:
        return told
    places = {path: i for i, path in enumerate(_paths(read(call.body, call.content_type), ""))}
    return sorted(told, key=lambda one: places.get(one.path, 0))


def _by_line(body: bytes) -> list[Told]:
    found = _in_yaml(_composed(body), "")
    return [
        Told(f'line {key.start_mark.line + 1}: key "{key.value}" already set in map')
        for _, key in found
    ]


def _composed(body: bytes) -> yaml.Node | None:
    node: yaml.Node | None = yaml.compose(body, yaml.CSafeLoader)
    return node


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
    return list(_twice(value, "")) if found else []


def _twice(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Repeating):
        yield from (f"{path}{key}" for key in value.keys_twice)
    for part, below in _parts(value, path):
        yield from _twice(part, f"{below}.")


def _paths(value: Any, path: str) -> Iterator[str]:
    """The paths of all fields, in their order."""
    for part, below in _parts(value, path):
        yield below
        yield from _paths(part, f"{below}.")


def _parts(value: Any, path: str) -> Iterator[tuple[Any, str]]:
    if isinstance(value, dict):
        yield from ((part, f"{path}{key}") for key, part in value.items())
    elif isinstance(value, list):
        yield from ((part, f"{path.removesuffix('.')}[{i}]") for i, part in enumerate(value))


def _in_yaml(node: yaml.Node | None, path: str) -> Iterator[tuple[str, yaml.Node]]:
    """The paths of keys that come again, and where they do."""
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                yield f"{path}{key.value}", key
            seen.add(key.value)
            yield from _in_yaml(value, f"{path}{key.value}.")
    elif isinstance(node, yaml.SequenceNode):
        for i, value in enumerate(node.value):
            yield from _in_yaml(value, f"{path.removesuffix('.')}[{i}].")
