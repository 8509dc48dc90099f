"""The newest changes, kept in memory for watchers that resume; older ones are in the table.

Used by `store.py`. There is a limit to their number and one to their size, whichever is met first:
a few large objects that change often must not fill the memory.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.local.apiserver.entries import Change

MOST = 20_000
LARGEST = 32 * 1024 * 1024


class Ring:
    """All changes after revision `start`."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.size = 0
        self._changes: deque[Change] = deque()

    def add(self, change: Change) -> None:
        """Remember a change, and forget the oldest ones for it if need be."""
        self._changes.append(change)
        self.size += change.size
        while len(self._changes) > MOST or self.size > LARGEST:
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
