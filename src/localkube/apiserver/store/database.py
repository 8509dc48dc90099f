"""The database: its lock, its tables, and the rows of the log with their checksums.

The disk may return other bytes than were written, and so may a person with an SQL prompt. A row
whose checksum does not match is an `OddRow`: it is reported and set aside, and never shown as an
object.
"""

from __future__ import annotations

import fcntl
import sqlite3
from typing import IO, TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from kubekit.errors import ConfigError
from localkube.apiserver.store.collection import Entry

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = 1
"""The version of the tables."""
_TABLES = """
CREATE TABLE IF NOT EXISTS log (
    revision INTEGER PRIMARY KEY,
    key      TEXT NOT NULL,
    previous INTEGER NOT NULL,
    deleted  INTEGER NOT NULL,
    value    BLOB NOT NULL,
    checksum INTEGER
);
CREATE TABLE IF NOT EXISTS compacted (id INTEGER PRIMARY KEY CHECK (id = 0), revision INTEGER);
INSERT OR IGNORE INTO compacted VALUES (0, 0);
CREATE TABLE IF NOT EXISTS reserve (space BLOB);
"""
_INDEX = "CREATE UNIQUE INDEX IF NOT EXISTS swap ON log (key, previous)"


def prepare(db: sqlite3.Connection, path: Path, *, index_damaged: bool = False) -> None:
    """Create the tables, unless they exist, and mend the index."""
    if check_version(db, path) == SCHEMA and not index_damaged:
        return  # a start writes nothing
    db.execute("BEGIN IMMEDIATE")
    for statement in (*_TABLES.split(";\n"), _INDEX):
        db.execute(statement)
    if index_damaged:
        _rebuild_index(db)
    db.execute(f"PRAGMA user_version = {SCHEMA}")
    db.execute("COMMIT")


def _rebuild_index(db: sqlite3.Connection) -> None:
    """Make the index match the rows; the index has a second copy of a damaged row's key."""
    rows = map(read_row, db.execute(f"SELECT {COLUMNS} FROM log NOT INDEXED"))
    odd = {row.revision for row in rows if isinstance(row, OddRow)}
    query = "SELECT CAST(key AS BLOB), previous, revision FROM log INDEXED BY swap"
    copies = [row for row in db.execute(query) if row[2] in odd]
    db.execute("DROP INDEX swap")
    update = "UPDATE log SET key = CAST(? AS TEXT), previous = ? WHERE revision = ?"
    db.executemany(update, copies)
    db.execute(_INDEX)


class Row(NamedTuple):
    """One write. `previous` is 0 for a key never seen before; a deletion keeps the last value.

    SQLite has no booleans: `deleted` of a row that was read is 0 or 1.
    """

    revision: int
    key: str
    previous: int
    deleted: bool
    value: bytes

    @property
    def entry(self) -> Entry:
        """The object as of this write."""
        return Entry(self.key, self.revision, self.value)


class OddRow(NamedTuple):
    """A row that does not hold what was written; its key may be wrong too."""

    revision: int
    key: str


COLUMNS = "revision, CAST(key AS BLOB), previous, deleted, value, checksum"
"""The columns that `read_row` takes. Damaged text that is not UTF-8 cannot be read as text."""


def checksum(row: Row) -> int:
    """The checksum that is stored with a row."""
    revision, key, previous, deleted, value = row
    return _checksum(revision, key.encode(), previous, deleted, value)


def read_row(columns: tuple[Any, ...]) -> Row | OddRow:
    """The row of these columns."""
    revision, key, previous, deleted, value, stored = columns
    try:
        if stored == _checksum(revision, key, previous, deleted, value):
            return Row(revision, key.decode(), previous, deleted, value)
    except TypeError:
        pass  # a column has another type: it was not written by us
    name = key.decode(errors="replace") if isinstance(key, bytes) else str(key)
    return OddRow(revision, name)


def _checksum(revision: int, key: bytes, previous: int, deleted: bool, value: bytes) -> int:
    # CRC-32 finds every change of up to four neighbouring bytes, and others but for one in 2^32.
    return crc32(value, crc32(b"%d %d %d %s" % (revision, previous, deleted, key)))


def check_version(db: sqlite3.Connection, database: Path) -> int:
    """The version of the tables; ConfigError if it is newer than this program."""
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version > SCHEMA:
        raise ConfigError(
            f"{database} was written by a newer version of Muster: it has schema {version}, and"
            f" this version reads up to {SCHEMA}",
            hint="Install that version again, or use another directory: `arena up --data-dir DIR`.",
        )
    return version


def has_table(db: sqlite3.Connection, name: str) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    return db.execute(query, (name,)).fetchone() is not None


def connect_read_only(database: Path) -> sqlite3.Connection:
    """A connection that changes neither the database nor its write-ahead log, even on close."""
    uri = f"{database.absolute().as_uri()}?mode=ro"
    db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    db.text_factory = lambda text: text.decode(errors="replace")  # damaged text may be anything
    return db


def take_lock(database: Path) -> IO[bytes]:
    """Lock a database; the kernel frees it on exit. ConfigError if another process has it."""
    path = database.with_suffix(".lock")
    lock = path.open("wb")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise ConfigError(
            f"{path.parent} is in use by another local cluster, or `arena check` reads it"
        ) from error
    return lock


def wal_of(database: Path) -> Path:
    return database.with_name(f"{database.name}-wal")
