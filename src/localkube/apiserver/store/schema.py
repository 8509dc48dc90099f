"""The tables of the database, and the sentences about a database that cannot be used."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING

import msgspec

from kubekit.errors import DamagedStore, MusterError, ServerError
from localkube.apiserver.store import backups, damage, disk_reserve
from localkube.apiserver.store.rows import COLUMNS, OddRow, Row, checksum, read_row

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

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
"""
_FULL = 64 * 1024
"""Free bytes; SQLite enlarges the index of its write-ahead log by half of it."""
_INDEX = "CREATE UNIQUE INDEX IF NOT EXISTS swap ON log (key, previous)"


class DiskFull(ServerError):
    """A write does not fit on the disk."""


class _Object(msgspec.Struct):
    """The fields that every stored object has."""

    apiVersion: str
    kind: str
    metadata: dict[str, object]


_decoder = msgspec.json.Decoder(_Object)


def holds_object(value: object) -> bool:
    """Whether a value is a stored object, as far as that can be known without a checksum."""
    try:
        _decoder.decode(value)  # type: ignore[arg-type] # anything else than bytes is a TypeError
    except (msgspec.MsgspecError, TypeError, UnicodeDecodeError):
        return False
    return isinstance(value, bytes)


def prepare(db: sqlite3.Connection, path: Path, *, index_damaged: bool = False) -> None:
    """Create the tables, or bring tables of an earlier version up to date."""
    version = damage.check_version(db, path)
    if version == damage.SCHEMA and not index_damaged:
        return  # a start writes nothing
    db.execute("BEGIN IMMEDIATE")
    if not version and damage.has_table(db, "log"):
        _add_checksums(db)
    for statement in (*_TABLES.split(";\n"), _INDEX, disk_reserve.TABLE):
        db.execute(statement)
    if index_damaged:
        _rebuild_index(db)
    db.execute(f"PRAGMA user_version = {damage.SCHEMA}")
    db.execute("COMMIT")
    path.with_suffix(".reserve").unlink(missing_ok=True)  # of version 0: space outside the database


def _add_checksums(db: sqlite3.Connection) -> None:
    """Add checksums to the rows of version 0, except to rows that hold no object."""
    db.execute("ALTER TABLE log ADD COLUMN checksum INTEGER")
    sums = []
    query = "SELECT revision, CAST(key AS BLOB), previous, deleted, value FROM log"
    for revision, key, previous, deleted, value in db.execute(query):
        if holds_object(value):
            row = Row(revision, key.decode(errors="replace"), previous, deleted, value)
            sums.append((checksum(row), revision))
    db.executemany("UPDATE log SET checksum = ? WHERE revision = ?", sums)


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


def damaged(path: Path, problems: Sequence[str]) -> DamagedStore:
    """The error about a damaged database, with the next steps."""
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return DamagedStore(f"the database {path} is damaged: {problems[0]}{more}", hint=advice(path))


def advice(path: Path) -> str:
    """What to do about a damaged database."""
    check = f"arena check --data-dir {path.parent}"
    backup = backups.newest(path)
    if not backup:
        return (
            f"`{check}` says what is damaged. There is no backup; `arena up --data-dir DIR` starts"
            " an empty cluster in another directory."
        )
    return f"`{check}` says what is damaged; with --restore it returns to the backup {backup}."


def failure(path: Path, error: sqlite3.Error) -> MusterError:
    """The error about a database that cannot be opened."""
    if is_full(error, path):
        return MusterError(
            f"the disk of {path.parent} is full: the database cannot be opened",
            hint="Free some space on it, then try again.",
        )
    # SQLITE_ERROR: the tables are not as they were defined.
    if _is_damage(error) or _code(error) == sqlite3.SQLITE_ERROR:
        return damaged(path, [f"SQLite cannot read it: {error}"])
    if _is_io_error(error):
        return MusterError(
            f"the disk of {path.parent} fails: {_named(error)}; the database cannot be opened",
            hint="`dmesg` shows the errors of the disk. Copy the directory to another disk.",
        )
    return MusterError(f"the database {path} cannot be opened: {error}")


def write_failure(path: Path, error: sqlite3.Error) -> ServerError:
    """The answer to writers whose write failed."""
    if _is_damage(error):
        return ServerError(f"{damaged(path, [str(error)])}. {advice(path)}", status=500)
    if is_full(error, path):
        return DiskFull(f"the disk of the local cluster is full: {error}", status=500)
    if _is_io_error(error):
        text = f"the disk of the local cluster fails: {_named(error)}; `dmesg` shows its errors"
        return ServerError(text, status=500)
    return ServerError(f"the store cannot write: {error}", status=500)


def is_full(error: sqlite3.Error, path: Path) -> bool:
    """Whether the disk is full; SQLite reports that of some files as an I/O error."""
    if _code(error) == sqlite3.SQLITE_FULL:
        return True
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return False
    return _is_io_error(error) and disk.f_bavail * disk.f_frsize < _FULL


def _is_io_error(error: sqlite3.Error) -> bool:
    return _code(error) == sqlite3.SQLITE_IOERR


def _named(error: sqlite3.Error) -> str:
    return f"{error} ({getattr(error, 'sqlite_errorname', 'SQLITE_IOERR')})"


def _is_damage(error: sqlite3.Error) -> bool:
    # Two rows of one past: the index cannot be built, because the key of a row is damaged.
    codes = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT)
    return _code(error) in codes


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
