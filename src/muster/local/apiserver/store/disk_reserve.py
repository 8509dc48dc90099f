"""Room on the disk that is kept for the day when it is full.

Used by `log.py`. While the reserve is held, writing is as usual. When a write finds the disk full,
the reserve is spent: objects can still be changed and deleted, but none is created until there is
room for a reserve again.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SIZE = 4 * 1024 * 1024
_AND_SOME = 2 * SIZE
"""The least that must be free before room is reserved again: else it would be spent at once."""


class DiskReserve:
    """A file of some size, or the lack of it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.held = False

    def take(self) -> bool:
        """Whether there is a reserve, by now."""
        if self.held:
            return True
        try:
            if self._room() < _AND_SOME and not self._path.exists():
                return False
            with self._path.open("ab") as file:
                os.posix_fallocate(file.fileno(), 0, SIZE)
        except OSError:
            self._path.unlink(missing_ok=True)
            return False
        self.held = True
        return True

    def spend(self) -> bool:
        """Give the room back to the disk; False if there was none to give."""
        held, self.held = self.held, False
        if held:
            self._path.unlink(missing_ok=True)
        return held

    def _room(self) -> int:
        found = os.statvfs(self._path.parent)
        return found.f_bavail * found.f_frsize
