"""4 MiB of disk space reserved for a full disk.

While the reserve is held, all writes are possible. When a write finds the disk full, the reserve is
spent: objects can still be changed and deleted, but none is created until there is space for a
reserve again.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SIZE = 4 * 1024 * 1024
_MIN_FREE = 2 * SIZE
"""Free space needed before a new reserve: with less it would be spent at once."""


class DiskReserve:
    """A file that occupies the space."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.held = False

    def take(self) -> bool:
        """Reserve the space if possible; whether it is held."""
        if self.held:
            return True
        try:
            # A file left by a server that was killed holds its space already.
            if self._free() < _MIN_FREE and not self._path.exists():
                return False
            with self._path.open("ab") as file:
                # Allocates blocks; a file that was only made longer would occupy none.
                os.posix_fallocate(file.fileno(), 0, SIZE)
        except OSError:
            self._path.unlink(missing_ok=True)
            return False
        self.held = True
        return True

    def spend(self) -> bool:
        """Free the space; False if none was held."""
        held, self.held = self.held, False
        if held:
            self._path.unlink(missing_ok=True)
        return held

    def _free(self) -> int:
        disk = os.statvfs(self._path.parent)
        return disk.f_bavail * disk.f_frsize
