"""A stored object, one change of it, and all objects of a resource.

What the store hands out, and everybody else passes on.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class Entry:
    """One object at one revision. `facts` is a place for whoever decodes it to keep the result."""

    __slots__ = ("facts", "key", "revision", "value")

    def __init__(self, key: str, revision: int, value: bytes) -> None:
        self.key = key
        self.revision = revision
        self.value = value
        self.facts: object = None


class Change(NamedTuple):
    """One write as watchers see it: added without `before`, else modified or deleted."""

    entry: Entry
    before: Entry | None
    deleted: bool

    @property
    def size(self) -> int:
        """The bytes that whoever keeps the change keeps with it, at most."""
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
        """Entries whose key starts with `prefix` and is greater than `after`."""
        start = max(bisect.bisect_left(self.keys, prefix), bisect.bisect_right(self.keys, after))
        for index in range(start, len(self.keys)):
            key = self.keys[index]
            if not key.startswith(prefix):
                return
            yield self.entries[key]
