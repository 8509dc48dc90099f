"""Objects of the API in which one field, anywhere, has any value."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from hypothesis import strategies as st

from kubekit.objects.meta import Raw
from tests.muster.scheduler.hostile_objects import JSON, TEXT

Path = tuple[str | int, ...]
TIMES = (
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-23:59",
    "2999-12-31T23:59:59Z",
    "2026-01-02T03:04:05Z",
)
VALUES = JSON | st.sampled_from(TIMES) | st.just(10**30) | st.just(1e308)
_SERVERS_OWN = ("apiVersion", "kind", "name", "namespace", "uid", "generation", "resourceVersion")
"""Fields in the metadata that the server checks or writes."""


def changed(raw: Raw) -> st.SearchStrategy[Raw]:
    """The object, with another value in one to three of its fields."""
    paths = [path for path in _paths(raw) if not _is_servers_own(path)]
    change = st.sampled_from(paths).flatmap(
        lambda path: st.tuples(st.just(path), TEXT if _is_text(path) else VALUES)
    )
    return st.lists(change, min_size=1, max_size=3).map(lambda rows: _with(raw, rows))


def _is_servers_own(path: Path) -> bool:
    if path[0] != "metadata":
        return path[0] in ("apiVersion", "kind")
    return len(path) == 1 or path[1] in _SERVERS_OWN or path[1:] in (("labels",), ("annotations",))


def _is_text(path: Path) -> bool:
    return path[:2] in (("metadata", "labels"), ("metadata", "annotations"))


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*path, key)
        if isinstance(inner, dict | list):
            yield from _paths(inner, (*path, key))


def _with(raw: Raw, rows: list[tuple[Path, Any]]) -> Raw:
    result = copy.deepcopy(raw)
    for path, value in rows:
        holder: Any = result
        with suppress(KeyError, IndexError, TypeError):  # an earlier change has removed it
            for step in path[:-1]:
                holder = holder[step]
            holder[path[-1]] = value
    return result
