"""The newest revision that was answered, in a small file beside the database.

SQLite ends the replay of its write-ahead log at the first frame with a wrong checksum, and forgets
all frames after it without an error. A store that comes back with an older revision than this file
has lost writes that clients were told of.

The file is overwritten in place after every commit, and not synced: after a power failure it may be
behind the database, never ahead of it. Once it exists, the database has a mark, so that its loss is
noticed too: without it, nobody would know of lost writes.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import struct
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from pathlib import Path

_FORM = struct.Struct("<8sQ8x")
_CHECKSUM = struct.Struct("<I")
_MAGIC = b"muster 1"


def file_of(database: Path) -> Path:
    return database.with_suffix(".acknowledged")


def read(database: Path) -> int | None:
    """The newest revision that was answered; None if there is no record, or it is not readable."""
    try:
        data = file_of(database).read_bytes()
        (stored,) = _CHECKSUM.unpack_from(data, _FORM.size)
    except (OSError, struct.error):
        return None
    magic, revision = _FORM.unpack_from(data)
    if magic != _MAGIC or stored != crc32(data[: _FORM.size]):
        return None
    return int(revision)


MARK = 0x4D757374
"""SQLite's `application_id` of a database that has a record."""
LOST = (
    "the record of acknowledged writes, objects.acknowledged, was lost or damaged: whether the last"
    " writes are all there is not known"
)


def is_marked(db: sqlite3.Connection) -> bool:
    return bool(db.execute("PRAGMA application_id").fetchone()[0] == MARK)


class AcknowledgedFile:
    """The open file of one database."""

    def __init__(self, database: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._fd = os.open(file_of(database), flags, 0o600)

    def write(self, revision: int) -> None:
        data = _FORM.pack(_MAGIC, revision)
        # On a full disk, the first write may fail. A lost record is no lost object.
        with contextlib.suppress(OSError):
            os.pwrite(self._fd, data + _CHECKSUM.pack(crc32(data)), 0)

    def mark(self, db: sqlite3.Connection, database: Path) -> None:
        """Let the database know of the file, once the file is on the disk."""
        if is_marked(db):
            return
        with contextlib.suppress(OSError, sqlite3.Error):  # the disk is full: at the next start
            os.fsync(self._fd)
            if read(database) is not None:
                db.execute(f"PRAGMA application_id = {MARK}")

    def close(self) -> None:
        os.close(self._fd)
