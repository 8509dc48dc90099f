"""Stored objects, changes of them, and the changes that each watcher has yet to read.

`RecentChanges` holds the newest changes in memory, for watchers that resume; older ones are in the
table. Their number and their size are limited: a few large objects that change often must not fill
the memory. For the same reason a watcher that falls too far behind is ended. When it reconnects, it
resumes from the table.
"""

from __future__ import annotations

import bisect
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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


MAX_CHANGES, MAX_BYTES = 50_000, 64 * 1024 * 1024
"""The changes that may wait for one watcher."""


class Signal(Protocol):
    """An `asyncio.Event`. Rules of kinds read this module too, and know no event loop."""

    def set(self) -> None: ...

    def clear(self) -> None: ...

    async def wait(self) -> object: ...


class Watch:
    """Changes under a prefix after a revision, in order and without gaps. Close it."""

    def __init__(
        self, prefix: str, since: int, ready: Signal, forget: Callable[[Watch], None]
    ) -> None:
        """`forget` ends the calls of `push`."""
        self._since, self._ready, self._forget = since, ready, forget
        self._waiting: deque[Change] = deque()
        self._size = 0
        self.prefix = prefix
        self.ended = False

    def push(self, change: Change) -> None:
        """Add a change of the collection, if it is new to this watcher and under its prefix."""
        entry = change.entry
        if self.ended or entry.revision <= self._since or not entry.key.startswith(self.prefix):
            return
        if len(self._waiting) >= MAX_CHANGES or self._size >= MAX_BYTES:
            # Without the rest of the changes these would be a gap.
            self._waiting.clear()
            self.end()
            return
        self._waiting.append(change)
        self._size += change.size
        self._ready.set()

    def replay(self, changes: list[Change]) -> None:
        """Put past changes before the changes that arrived meanwhile."""
        self._waiting.extendleft(reversed(changes))
        self._size += sum(change.size for change in changes)
        if changes:
            self._ready.set()

    def end(self) -> None:
        """Let the watcher read the waiting changes and stop."""
        self.ended = True
        self._ready.set()

    @property
    def idle(self) -> bool:
        """Whether everything has been read."""
        return not self._waiting

    async def next(self) -> list[Change]:
        """All changes that are waiting, at least one; none when the watch has ended."""
        await self._ready.wait()
        changes = list(self._waiting)
        self._waiting.clear()
        self._size = 0
        if not self.ended:  # an ended watch stays ready, so that no reader waits for ever
            self._ready.clear()
        return changes

    def close(self) -> None:
        """Stop receiving."""
        self._forget(self)
