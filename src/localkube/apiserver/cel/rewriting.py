"""Calls that the library cannot evaluate, rewritten to calls that it can.

A function in Python cannot return an optional, so those of `format` return a list, and `[?0]` is
added. The library declares `transformMap` but cannot evaluate it: it becomes a list of entries,
from which a function in Python makes a map.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from localkube.apiserver.cel.escaping import masked

if TYPE_CHECKING:
    from localkube.apiserver.cel.functions.signatures import Implementation

_CALL = re.compile(
    r"(?:\.\s*(validate|transformMapEntry|transformMap)|(?<![.\w])format\s*\.\s*(named))\s*\("
)


class _Call(NamedTuple):
    name: str
    start: int
    """Where the name of the function starts."""
    commas: list[int]
    end: int
    """Where the call is closed."""


@lru_cache(maxsize=4096)
def rewritten(expression: str) -> str:
    """The expression as the library can evaluate it."""
    text = masked(expression)
    calls = [_call(text, found) for found in _CALL.finditer(text)]
    inserted: defaultdict[int, str] = defaultdict(str)
    removed: dict[int, int] = {}
    # The inner ones first: the end of an inner call comes before the end of the outer one.
    for call in reversed(calls):
        if call.name in ("validate", "named"):
            inserted[call.end + 1] += "[?0]"
            continue
        inserted[call.start], removed[call.start] = "transformList", len(call.name)
        if call.name == "transformMapEntry":
            inserted[call.end + 1] += ".mergedMaps__()"
        else:
            key = expression[call.start + len(call.name) : call.commas[0]].lstrip(" \t\r\n(")
            inserted[call.commas[-1] + 1] += f" [{key}, "
            inserted[call.end] += "]"
            inserted[call.end + 1] += ".mapOfEntries__()"
    for place in sorted(inserted, reverse=True):
        after = expression[place + removed.get(place, 0) :]
        expression = expression[:place] + inserted[place] + after
    return expression


def _call(text: str, found: re.Match[str]) -> _Call:
    """The call that starts here, in an expression that compiles."""
    depth, commas, end = 0, [], len(text)
    for place in range(found.end(), len(text)):
        sign = text[place]
        if sign in ")]}":
            if depth == 0:
                end = place
                break
            depth -= 1
        elif sign in "([{":
            depth += 1
        elif sign == "," and depth == 0:
            commas.append(place)
    group = 1 if found[1] else 2
    return _Call(found[group], found.start(group), commas, end)


def _map_of_entries(entries: list[tuple[Any, Any]]) -> dict[Any, Any]:
    return dict(entries)


def _merged_maps(maps: list[dict[Any, Any]]) -> dict[Any, Any]:
    merged: dict[Any, Any] = {}
    for key, value in (item for each in maps for item in each.items()):
        if key in merged:
            raise ValueError(f"insert failed: key {key} already exists")
        merged[key] = value
    return merged


FUNCTIONS: dict[str, Implementation] = {
    "list(T).mapOfEntries__() -> map": _map_of_entries,
    "list(T).mergedMaps__() -> map": _merged_maps,
}
