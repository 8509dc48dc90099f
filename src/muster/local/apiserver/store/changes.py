"""A stored object, one change of it, and all objects of a resource.

What the store hands out, and everybody else passes on.

The newest changes, kept in memory for watchers that resume; older ones are in the table.

Used by `store.py`. There is a limit to their number and one to their size, whichever is met first:
a few large objects that change often must not fill the memory.

One watcher's queue: the changes it has yet to read.

Made and fed by `store.py`, read by `views/watching.py`.
"""

from __future__ import annotations

import asyncio
import bisect
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.local.apiserver.store.store import Store


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


RECENT_CHANGES = 20_000
RECENT_BYTES = 32 * 1024 * 1024


class RecentChanges:
    """All changes after revision `start`."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.size = 0
        self._changes: deque[Change] = deque()

    def add(self, change: Change) -> None:
        """Remember a change, and forget the oldest ones for it if need be."""
        self._changes.append(change)
        self.size += change.size
        while len(self._changes) > RECENT_CHANGES or self.size > RECENT_BYTES:
            oldest = self._changes.popleft()
            self.size -= oldest.size
            self.start = oldest.entry.revision

    def since(self, revision: int, prefix: str) -> list[Change]:
        """The changes under a prefix after a revision, which must not be before `start`."""
        found = []
        for change in reversed(self._changes):
            if change.entry.revision <= revision:
                break
            if change.entry.key.startswith(prefix):
                found.append(change)
        return found[::-1]


BACKLOG, LARGEST = 50_000, 64 * 1024 * 1024
"""Changes, and bytes, a watcher may fall behind before it is ended and has to resume."""


class Watch:
    """Changes under a prefix after a revision, in order and without gaps. Close it."""

    def __init__(self, store: Store, prefix: str, since: int) -> None:
        self._store = store
        self._since = since
        self._ready = asyncio.Event()
        self._waiting: deque[Change] = deque()
        self._size = 0
        self.prefix = prefix
        self.over = False

    def push(self, change: Change) -> None:
        """Called by the store for each change of the collection."""
        if change.entry.revision <= self._since or not change.entry.key.startswith(self.prefix):
            return
        if self.over:
            return
        if len(self._waiting) >= BACKLOG or self._size >= LARGEST:
            self._waiting.clear()  # to be read from the table when the watcher comes back
            self.end()
            return
        self._waiting.append(change)
        self._size += change.size
        self._ready.set()

    def replay(self, changes: list[Change]) -> None:
        """Put the past before whatever has come since."""
        self._waiting.extendleft(reversed(changes))
        self._size += sum(change.size for change in changes)
        if changes:
            self._ready.set()

    def end(self) -> None:
        """Let the watcher finish what is waiting and stop."""
        self.over = True
        self._ready.set()

    @property
    def idle(self) -> bool:
        """Whether everything has been read."""
        return not self._waiting

    async def next(self) -> list[Change]:
        """At least one change; all that are waiting. Empty when the watch has ended."""
        await self._ready.wait()
        changes = list(self._waiting)
        self._waiting.clear()
        self._size = 0
        if not self.over:
            self._ready.clear()
        return changes

    def close(self) -> None:
        """Stop receiving."""
        self._store.forget(self)
