"""Stored objects, in collections, and changes of them.

Kept apart because rules of kinds read this, and know neither the store nor an event loop.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator


class Entry:
    """One object at one revision. `selector_fields` caches the values that selectors compare."""

    __slots__ = ("key", "revision", "selector_fields", "value")

    def __init__(self, key: str, revision: int, value: bytes) -> None:
        self.key = key
        self.revision = revision
        self.value = value
        self.selector_fields: object = None


class ObjectReader(Protocol):
    """The part of the store that rules of kinds may use."""

    def get(self, key: str) -> Entry | None: ...

    def scan(self, prefix: str) -> Iterator[Entry]: ...

    def scan_newest(self, prefix: str) -> Iterator[Entry]: ...


class Change(NamedTuple):
    """One write as watchers see it: added without `before`, else modified or deleted."""

    entry: Entry
    before: Entry | None
    deleted: bool

    @property
    def size(self) -> int:
        """The bytes that a change keeps in memory, at most."""
        # At most: the entry, and often `before`, are in memory as objects of the store anyway.
        return len(self.entry.value) + (len(self.before.value) if self.before else 0)


class Collection:
    """The objects of one resource, by key and in the order of keys."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.keys: list[str] = []

    def put(self, entry: Entry) -> None:
        if entry.key not in self.entries:
            bisect.insort(self.keys, entry.key)
        self.entries[entry.key] = entry

    def drop(self, key: str) -> None:
        del self.entries[key]
        del self.keys[bisect.bisect_left(self.keys, key)]

    def under(self, prefix: str, after: str) -> Iterator[Entry]:
        """Entries whose key starts with `prefix` and is greater than `after`.

        Lazy: a caller that awaits or writes between two entries must copy them first.
        """
        start = max(bisect.bisect_left(self.keys, prefix), bisect.bisect_right(self.keys, after))
        for index in range(start, len(self.keys)):
            key = self.keys[index]
            if not key.startswith(prefix):
                return
            yield self.entries[key]
