"""The one table on disk: every write of every object, appended in order.

The row number is the resourceVersion. `previous` is the row that the writer had read, and the
unique index on (key, previous) makes two writers of the same past impossible: that is the
compare-and-swap. `append` returns when the rows are on the disk. Row numbers are never used twice:
compaction stores how far it went, so the next number is known even when no row is left.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from muster.errors import ServerError
from muster.local.apiserver.store.disk_reserve import DiskReserve

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_TABLES = """
CREATE TABLE IF NOT EXISTS log (
    revision INTEGER PRIMARY KEY,
    key      TEXT NOT NULL,
    previous INTEGER NOT NULL,
    deleted  INTEGER NOT NULL,
    value    BLOB NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS swap ON log (key, previous);
CREATE TABLE IF NOT EXISTS compacted (id INTEGER PRIMARY KEY CHECK (id = 0), revision INTEGER);
INSERT OR IGNORE INTO compacted VALUES (0, 0);
"""

_STEP = 5000
"""Rows in one transaction of a compaction; writers wait no longer than it takes."""


class Row(NamedTuple):
    """One write. `previous` is 0 for a key never seen before; a deletion keeps the last value.

    SQLite has no booleans: `deleted` of a row that was read is 0 or 1.
    """

    revision: int
    key: str
    previous: int
    deleted: bool
    value: bytes


class PastRow(NamedTuple):
    """A row together with the object it replaced, for watchers that resume from the table."""

    row: Row
    before: bytes | None


class WriteLog:
    """The table. All methods block; `append` and `compact_step` are called by one thread only."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.reserve = DiskReserve(path.with_suffix(".reserve"))
        self._db = self._connect()
        self._db.executescript(_TABLES)
        self.reserve.take()

    def _connect(self) -> sqlite3.Connection:
        # No implicit transactions; the writer thread uses a connection that another one opened.
        db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        # With a write-ahead log, reading the past never blocks the writer.
        db.execute("PRAGMA journal_mode=WAL")
        # Every commit is synced: an answered write survives a power failure.
        db.execute("PRAGMA synchronous=FULL")
        return db

    @property
    def compacted(self) -> int:
        """The revision up to which superseded rows were deleted."""
        return int(self._db.execute("SELECT revision FROM compacted").fetchone()[0])

    def rows(self) -> Iterator[Row]:
        """All rows, oldest first."""
        query = "SELECT revision, key, previous, deleted, value FROM log ORDER BY revision"
        return map(Row._make, self._db.execute(query))

    def append(self, rows: Sequence[Row]) -> None:
        """Write all of `rows` or none; returns when they are durable."""
        try:
            self._insert(rows)
        except ServerError as error:
            if not _is_full(error.__cause__) or not self.reserve.spend():
                raise
            # The reserve has just been freed, so the same rows fit now.
            self._insert(rows)

    def _insert(self, rows: Sequence[Row]) -> None:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?)", rows)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise ServerError(f"the store cannot write: {error}", status=500) from error

    def between(self, after: int, upto: int, prefix: str) -> list[PastRow]:
        """The writes under `prefix` with after < revision <= upto, and the object each replaced."""
        query = """
            SELECT log.revision, log.key, log.previous, log.deleted, log.value,
                   CASE old.deleted WHEN 0 THEN old.value END
            FROM log LEFT JOIN log AS old ON old.revision = log.previous
            WHERE log.revision > ? AND log.revision <= ? AND log.key >= ? AND log.key < ?
            ORDER BY log.revision"""
        with closing(self._connect()) as db:
            rows = db.execute(query, (after, upto, prefix, _end(prefix)))
            return [PastRow(Row(*row), before) for *row, before in rows]

    def at(self, revision: int, prefix: str) -> list[Row]:
        """The objects under `prefix` at `revision`, in the order of keys."""
        query = """
            SELECT MAX(revision), key, previous, deleted, value FROM log -- columns of that row
            WHERE revision <= ? AND key >= ? AND key < ? GROUP BY key ORDER BY key"""
        with closing(self._connect()) as db:
            rows = map(Row._make, db.execute(query, (revision, prefix, _end(prefix))))
            return [row for row in rows if not row.deleted]

    def compact_step(self, after: int, upto: int) -> int:
        """Delete rows that rows in (after, upto] superseded; returns the revision reached.

        A row stays as long as a row beyond the step names it as its previous one, so every write
        after the compaction point still knows the object it replaced.
        """
        reached = min(after + _STEP, upto)
        try:
            self._drop(after, reached)
        except sqlite3.Error as error:
            raise ServerError(f"the store cannot compact: {error}", status=500) from error
        return reached

    def _drop(self, after: int, reached: int) -> None:
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("UPDATE compacted SET revision = MAX(revision, ?)", (reached,))
            # Superseded rows.
            self._db.execute(
                "DELETE FROM log WHERE revision IN"
                " (SELECT previous FROM log WHERE revision > ? AND revision <= ?)",
                (after, reached),
            )
            # Deletions that no later object of the same name names as its previous row.
            self._db.execute(
                "DELETE FROM log WHERE deleted AND revision > ? AND revision <= ? AND NOT EXISTS"
                " (SELECT 1 FROM log AS heir WHERE heir.previous = log.revision"
                " AND heir.key = log.key)",
                (after, reached),
            )

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def _is_full(error: BaseException | None) -> bool:
    """Whether the disk may be full; SQLite also reports that as an I/O error."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


def _end(prefix: str) -> str:
    """The first key after all keys that start with `prefix`."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)
