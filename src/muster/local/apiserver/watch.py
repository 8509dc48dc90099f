"""One watcher's queue: the changes it has yet to read.

Made and fed by `store.py`, read by `views/watching.py`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.local.apiserver.entries import Change
    from muster.local.apiserver.store import Store

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
