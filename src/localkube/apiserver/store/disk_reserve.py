"""Space for deletions on a full disk, inside the files of the database.

A file that is deleted to make room would help the program that fills the disk: a pod that writes
takes the freed blocks before the store does. So the space is never given back to the file system:
- The write-ahead log has its blocks from the start; SQLite writes to the same blocks again after
  every checkpoint.
- The database has free pages, made by writing zeros and deleting them: SQLite keeps such pages in
  the file, and new rows go there. The file grows in large steps, before the free pages are used up.
  That costs processor time, so it begins when a program could fill the disk within seconds.

While the disk is nearly full, objects can be changed and deleted, but none is created. The free
pages are shared out, so that no write can take the space that deletions need:
- A write that makes no object larger needs space only until the row before it is compacted.
- A graceful deletion first writes the whole object once more. So the free pages for the largest
  object are for deletions alone. The row of the deletion itself has no value on such a disk.
- The next part is for small writes, most of which are statuses, and first those of objects that
  are being deleted. Larger writes get the rest.
"""

from __future__ import annotations

import os
import time
from enum import Enum
from typing import TYPE_CHECKING

from localkube.apiserver.store.database import wal_of

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

SIZE = 8 * 1024 * 1024
"""Bytes of free pages after the file has grown."""
_LOW = 6 * 1024 * 1024
"""Bytes of free pages at which the file grows."""
WAL_SIZE = 8 * 1024 * 1024
"""SQLite begins the write-ahead log anew after about half of this."""
_SMALL_WAL_SIZE = 4 * 1024 * 1024
"""For a start on a disk that is nearly full."""
_PAGE = 4096
_NEARLY_FULL = 4 * 1024 * 1024
_SECONDS_FROM_FULL = 4 * 1024 * 1024 * 1024
_TIGHT = SIZE + WAL_SIZE + _NEARLY_FULL
"""Free space below which a program can fill the disk before the file has grown."""
_FOR_DELETIONS = 3 * 1024 * 1024 + 256 * 1024
"""Bytes that only deletions may use: the largest object once more, and pages of the index."""
_PART = 512 * 1024
"""Bytes for small writes of objects being deleted, and the same for small writes of others."""
_SMALL = 16 * 1024
_STEP = 256 * 1024
"""Bytes written between two looks at the free pages."""
_LOOK = 0.1
"""Seconds between two looks at the disk."""


class Purpose(Enum):
    """What a write is for; it decides how much of the reserve the write must leave."""

    CHANGE = 0
    CHANGE_WHILE_DELETED = 1
    """A change of an object that is being deleted, for instance a status or a finalizer."""
    DELETION = 2


def size_on_disk(length: int) -> int:
    """The pages that a row of this length may need, in bytes, with pages of tree and index."""
    return (length // _PAGE + 6) * _PAGE


def left_by(purpose: Purpose, growth: int) -> int:
    """The free pages, in bytes, that a write must leave."""
    if growth <= 0 or purpose is Purpose.DELETION:
        return 0
    if growth > _SMALL:
        return _FOR_DELETIONS + 2 * _PART
    return _FOR_DELETIONS + (_PART if purpose is Purpose.CHANGE else 0)


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

    def is_tight(self) -> bool:
        """Whether writes must leave their part of the free pages: the file may not grow in time."""
        # Looked at anew for every group of writes: a program can fill the disk between two looks.
        try:
            return self._recently_free() < _SECONDS_FROM_FULL and self.free() < _TIGHT
        except OSError:
            return False  # the write itself will tell

    def take(self) -> None:
        """Allocate the write-ahead log and, on a disk that is filling up, free pages."""
        self._allocate_wal()
        if self._recently_free() < _SECONDS_FROM_FULL and self.free_pages() < _LOW:
            self._grow()

    def _grow(self) -> None:
        # In parts that fit into the write-ahead log, and as many as the disk has room for; the
        # first ones take the present free pages. Pages that are freed in the transaction that
        # allocates them would never be written.
        try:
            for _ in range(SIZE // _PART):
                if self.free() < _NEARLY_FULL + 4 * _PART:  # new objects need some room too
                    break
                self._db.execute("INSERT INTO reserve VALUES (zeroblob(?))", (_PART,))
                self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")
        finally:
            self._db.execute("DELETE FROM reserve")
        self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")

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
                # The largest object must still fit behind what is not yet in the database.
                limit = (size - _FOR_DELETIONS - _PART // 2) // _PAGE
                self._db.execute(f"PRAGMA wal_autocheckpoint = {limit}")
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
