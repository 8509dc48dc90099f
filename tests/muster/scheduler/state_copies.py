"""Copies of the scheduler's state, and where two states differ, named caches aside."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from enum import Enum
from types import MethodType
from typing import Any

import msgspec
import numpy as np

from muster.scheduler.cluster.pod_class import PodClass, PodClasses
from muster.scheduler.state import CACHES, State

PLAIN = (str, bytes, int, float, bool, type(None), set, frozenset, datetime, Enum, msgspec.Struct)
SHARED = (PodClass, PodClasses)
"""A decision names classes of pods: it can be applied only to a copy that has the same ones."""


def copy_of(state: State) -> State:
    """A state that can be changed without changing the first one."""
    copy: State = _copy(state, {})
    return copy


def _copy(value: Any, known: dict[int, Any]) -> Any:
    if id(value) in known:
        return known[id(value)]
    if isinstance(value, MethodType):
        return MethodType(value.__func__, _copy(value.__self__, known))
    if isinstance(value, tuple):
        parts = [_copy(part, known) for part in value]
        same = all(new is old for new, old in zip(parts, value, strict=True))
        return value if same else tuple(parts)
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, dict | weakref.WeakKeyDictionary):
        twin = known[id(value)] = value.__class__()
        for key, item in value.items():
            twin[key] = _copy(item, known)
        return twin
    if isinstance(value, list | set):
        return value.__class__(_copy(item, known) for item in value)
    if not type(value).__module__.startswith("muster.scheduler") or _is_shared(value):
        return value
    twin = known[id(value)] = value.__class__.__new__(value.__class__)
    for name, item in _attributes(value):
        setattr(twin, name, _copy(item, known))
    return twin


def _is_shared(value: Any) -> bool:
    """Whether nothing in it changes, or its copies are to share it."""
    frozen = getattr(getattr(value, "__dataclass_params__", None), "frozen", False)
    return frozen or isinstance(value, (*SHARED, Enum, msgspec.Struct)) or callable(value)


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    names = vars(value) if hasattr(value, "__dict__") else value.__slots__
    return ((name, getattr(value, name)) for name in names)


def difference(first: Any, second: Any, where: str = "state") -> str:
    """The first place where two states differ, and how; empty if they are equal."""
    if first is second or callable(first):
        return ""
    if type(first) is not type(second):
        return f"{where}: {first!r} and {second!r}"
    if isinstance(first, np.ndarray):
        same = np.array_equal(_trimmed(first), _trimmed(second))
        return "" if same else f"{where}: {first!r} and {second!r}"
    if isinstance(first, Counter):
        first, second = +first, +second
    if isinstance(first, dict):
        if first.keys() != second.keys():
            return f"{where}: {sorted(map(str, first))} and {sorted(map(str, second))}"
        pairs = ((str(key), first[key], second[key]) for key in first)
    elif isinstance(first, list | tuple):
        if len(first) != len(second):
            return f"{where}: {first!r} and {second!r}"
        pairs = ((str(n), *both) for n, both in enumerate(zip(first, second, strict=True)))
    elif isinstance(first, (*PLAIN, PodClass)):
        return "" if first == second else f"{where}: {first!r} and {second!r}"
    else:
        caches = CACHES.get(type(first), frozenset())
        pairs = (
            (name, item, getattr(second, name))
            for name, item in _attributes(first)
            if name not in caches
        )
    return next(filter(None, (difference(a, b, f"{where}.{name}") for name, a, b in pairs)), "")


def _trimmed(array: Any) -> Any:
    """Without the last rows if they are empty: a resource that is first named gets a new row."""
    if array.ndim < 2:
        return array
    used = np.flatnonzero(array.any(axis=1))
    return array[: used[-1] + 1 if len(used) else 0]


def settled(state: State) -> State:
    """The state with nodes and classes brought up to date."""
    state.snapshot.settle()
    return state
