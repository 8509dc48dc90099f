"""Stored objects, and changes of them.

`RecentChanges` holds the newest changes in memory, for watchers that resume; older ones are in the
table. Their number and their size are limited: a few large objects that change often must not fill
the memory.
"""

from __future__ import annotations

import bisect
from collections import deque
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


# A watcher that reconnects is seconds behind; these are minutes of a busy cluster.
RECENT_CHANGES = 20_000
RECENT_BYTES = 32 * 1024 * 1024


class RecentChanges:
    """All changes after revision `start`."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.size = 0
        self._changes: deque[Change] = deque()

    def add(self, change: Change) -> None:
        """Remember a change, and forget the oldest ones if there are too many."""
        self._changes.append(change)
        self.size += change.size
        while len(self._changes) > RECENT_CHANGES or self.size > RECENT_BYTES:
            oldest = self._changes.popleft()
            self.size -= oldest.size
            self.start = oldest.entry.revision

    def since(self, revision: int, prefix: str) -> list[Change]:
        """The changes under a prefix after a revision, which must not be before `start`."""
        # From the end: a watcher that resumes lacks only the last few.
        newest_first = []
        for change in reversed(self._changes):
            if change.entry.revision <= revision:
                break
            if change.entry.key.startswith(prefix):
                newest_first.append(change)
        return newest_first[::-1]
