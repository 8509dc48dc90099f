"""Watch: the changes that one watcher has yet to read.

A watcher that falls too far behind is ended, because its changes would fill the memory. When it
reconnects, it resumes from the table.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.local.apiserver.store.changes import Change
    from muster.local.apiserver.store.store import Store

MAX_CHANGES, MAX_BYTES = 50_000, 64 * 1024 * 1024
"""The changes that may wait for one watcher."""


class Watch:
    """Changes under a prefix after a revision, in order and without gaps. Close it."""

    def __init__(self, store: Store, prefix: str, since: int) -> None:
        self._store = store
        self._since = since
        self._ready = asyncio.Event()
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
        self._store.forget(self)
