"""Functions of Kubernetes for lists and for regular expressions."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import re2

from localkube.apiserver.schema.values import compile_pattern

if TYPE_CHECKING:
    from localkube.apiserver.cel.functions.signatures import Implementation

_SORTABLE = ("int", "uint", "double", "bool", "string", "timestamp", "duration", "bytes")
_SUMMABLE = {"int": 0, "uint": 0, "double": 0.0, "duration": timedelta()}


def _is_sorted(items: list[Any]) -> bool:
    return all(a <= b for a, b in pairwise(items))


def _sum(items: list[Any]) -> Any:
    # The type of an empty list is not known here; 0 compares with every number.
    return sum(items[1:], items[0]) if items else 0


def _min(items: list[Any]) -> Any:
    if not items:
        raise ValueError("min called on empty list")
    return min(items)


def _max(items: list[Any]) -> Any:
    if not items:
        raise ValueError("max called on empty list")
    return max(items)


def _index_of(items: list[Any], item: Any) -> int:
    return next((i for i, other in enumerate(items) if other == item), -1)


def _last_index_of(items: list[Any], item: Any) -> int:
    return next((i for i in range(len(items) - 1, -1, -1) if items[i] == item), -1)


def _pattern(text: str) -> re2._Regexp:
    try:
        return compile_pattern(text)
    except re2.error as error:
        why = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        raise ValueError(f"Illegal regex: error parsing regexp: {why}") from error


def _find(text: str, pattern: str) -> str:
    found = _pattern(pattern).search(text)
    return str(found.group()) if found else ""


def _find_all(text: str, pattern: str, most: int = -1) -> list[str]:
    found: list[str] = []
    for match in _pattern(pattern).finditer(text):
        if 0 <= most <= len(found):
            break
        found.append(match.group())
    return found


FUNCTIONS: dict[str, Implementation] = {
    **{f"list({kind}).isSorted() -> bool": _is_sorted for kind in _SORTABLE},
    **{f"list({kind}).sum() -> {kind}": _sum for kind in _SUMMABLE},
    **{f"list({kind}).min() -> {kind}": _min for kind in _SORTABLE},
    **{f"list({kind}).max() -> {kind}": _max for kind in _SORTABLE},
    "string.find(string) -> string": _find,
    "string.findAll(string) -> list(string)": _find_all,
    "string.findAll(string, int) -> list(string)": _find_all,
}

OVERLOADS: dict[str, Implementation] = {
    "list(T).indexOf(T) -> int": _index_of,
    "list(T).lastIndexOf(T) -> int": _last_index_of,
}
"""Functions that have overloads in the library too."""
