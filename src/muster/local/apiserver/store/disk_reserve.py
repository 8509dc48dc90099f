"""Space for deletions on a full disk, inside the files of the database.

A file that is deleted to make room would help the program that fills the disk: a pod that writes
takes the freed blocks before the store does. So the space is never given back to the file system:
- The write-ahead log has its blocks from the start; SQLite writes to the same blocks again after
  every checkpoint.
- The database has free pages, made by writing zeros and deleting them: SQLite keeps such pages in
  the file, and new rows go there. The file grows in large steps, before the free pages are used up.
  That costs processor time, so it begins when a program could fill the disk within seconds.

While the disk is nearly full, objects can be changed and deleted, but none is created.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from muster.local.apiserver.store.write_ahead_log import wal_of

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

SIZE = 4 * 1024 * 1024
"""Bytes of free pages after the file has grown: room for some thousand rows between compactions."""
WAL_SIZE = 8 * 1024 * 1024
"""SQLite begins the write-ahead log anew after about half of this."""
_SMALL_WAL_SIZE = 2 * 1024 * 1024
"""For a start on a disk that is nearly full."""
_PAGE = 4096
_NEARLY_FULL = 4 * 1024 * 1024
_SECONDS_FROM_FULL = 4 * 1024 * 1024 * 1024
_MIN_FREE = SIZE + WAL_SIZE + _NEARLY_FULL
"""Free space that the file needs to grow."""
_STEP = 256 * 1024
"""Bytes written between two looks at the free pages."""
_LOOK = 0.1
"""Seconds between two looks at the disk."""

TABLE = "CREATE TABLE IF NOT EXISTS reserve (space BLOB)"


class DiskReserve:
    """The reserve of one database. All but `has_room` is for the thread that writes."""

    def __init__(self, database: Path, db: sqlite3.Connection) -> None:
        self._database = database
        self._db = db
        self._written = 0
        self._looked = float("-inf")
        self._last_free = 0

    def has_room(self) -> bool:
        """Whether the disk has room for new objects."""
        return self._recently_free() >= _NEARLY_FULL

    def take(self) -> None:
        """Allocate the write-ahead log and, on a disk that is filling up, free pages."""
        if _MIN_FREE <= self.free() < _SECONDS_FROM_FULL and self.free_pages() < SIZE // 2:
            # Not in one transaction: pages that are freed at once would never be written.
            self._db.execute("INSERT INTO reserve VALUES (zeroblob(?))", (SIZE,))
            self._db.execute("DELETE FROM reserve")
            self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")
        self._allocate_wal()

    def count(self, written: int) -> None:
        """Count bytes that were written, and let the file grow in time."""
        self._written += written
        if self._written > _STEP and self._recently_free() < _SECONDS_FROM_FULL:
            self._written = 0
            self.take()

    def free_pages(self) -> int:
        """The bytes of pages that are in the file and not used."""
        (size,) = self._db.execute("PRAGMA page_size").fetchone()
        (count,) = self._db.execute("PRAGMA freelist_count").fetchone()
        return int(size * count)

    def _allocate_wal(self) -> None:
        wal = wal_of(self._database)
        if not wal.exists():
            # The first write of a connection creates it.
            self._db.execute("UPDATE compacted SET revision = revision")
        free = self.free()
        size = WAL_SIZE if free >= WAL_SIZE + 2 * _NEARLY_FULL else _SMALL_WAL_SIZE
        fd = os.open(wal, os.O_RDWR | os.O_CLOEXEC)
        try:
            if os.fstat(fd).st_size < size <= free:
                os.posix_fallocate(fd, 0, size)
                self._db.execute(f"PRAGMA wal_autocheckpoint = {size // 2 // _PAGE}")
        finally:
            os.close(fd)

    def _recently_free(self) -> int:
        now = time.monotonic()
        if now - self._looked > _LOOK:
            self._looked, self._last_free = now, self.free()
        return self._last_free

    def free(self) -> int:
        """The free bytes of the disk."""
        disk = os.statvfs(self._database.parent)
        return disk.f_bavail * disk.f_frsize
