"""Finds damage of a database before it is opened for writing.

Opening would destroy evidence: SQLite overwrites the part of its write-ahead log that it cannot
read. So `inspect` looks at the file through a connection that only reads, and compares
- the structure of table and index, which `PRAGMA integrity_check` knows,
- the frames that SQLite accepts with the frames that the write-ahead log has,
- the newest revision with the newest one that was answered (`acknowledged`).
Rows with a wrong checksum are not found here but when the rows are loaded.
"""

from __future__ import annotations

import sqlite3
import struct
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from kubekit.errors import ConfigError
from localkube.apiserver.store import acknowledged
from localkube.apiserver.store.write_ahead_log import commit_frames, wal_of

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = 1
"""The version of the tables; version 0 had no checksums."""
_MAX_PROBLEMS = 20
_MAX_UNRECORDED = 1 << 32
"""Revisions that the record of answered writes may be behind: it is missing at first."""
_ROW_PROBLEMS = ("missing from index", "entries in index", "entry in index", " value in log.")
"""Parts of SQLite's messages about single rows; all others are about the structure of the file."""

_VALID_FRAMES = struct.Struct("=I")
_VALID_FRAMES_AT = 16
"""Where the index of a write-ahead log has the number of frames that SQLite accepts."""


class Findings(NamedTuple):
    """What is wrong with a database."""

    problems: tuple[str, ...] = ()
    """Sentences about damage that forbids writing to the file."""
    index_damaged: bool = False
    """Whether only the index is wrong, which can be built again from the rows."""
    record_lost: bool = False
    """Whether the record of acknowledged writes is gone; nothing else may be wrong."""


def inspect(database: Path) -> Findings:
    """Look at a database that no process has open."""
    record = acknowledged.read(database)
    answered = record or 0
    if not database.exists() or not database.stat().st_size:
        # SQLite would delete the write-ahead log of an empty database.
        lost = _lost_writes(answered)
        return Findings((f"the file is empty or missing; {lost}",) if answered else ())
    commits = commit_frames(wal_of(database))
    try:
        with closing(connect_read_only(database)) as db:
            version = check_version(db, database)
            problems = [] if version < SCHEMA else _schema_problems(db)
            findings = _look(db, database, commits, answered, problems)
            return findings._replace(record_lost=record is None and acknowledged.is_marked(db))
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        return Findings((f"SQLite cannot read it: {error}",))


def _look(
    db: sqlite3.Connection, database: Path, commits: list[int], answered: int, problems: list[str]
) -> Findings:
    if problems:
        return Findings(tuple(problems))
    problems, index_damaged = structure_problems(db)
    reached = newest_revision(db)
    accepted = _valid_frames(database)
    ignored = [frame for frame in commits if frame > accepted]
    # The last commit alone may be one that a power failure interrupted before it was answered.
    if len(ignored) > 1:
        problems.append(
            f"frame {accepted + 1} of the write-ahead log is damaged, and {len(ignored)} commits"
            " follow it"
        )
    if reached > answered + _MAX_UNRECORDED:
        problems.append(f"revision {reached} was never given")
    if answered > reached:
        problems.append(_lost_writes(answered - reached))
    return Findings(tuple(problems), index_damaged)


def _lost_writes(number: int) -> str:
    return f"{number} acknowledged {'write is' if number == 1 else 'writes are'} missing"


def _schema_problems(db: sqlite3.Connection) -> list[str]:
    """Damage of the definitions of the tables."""
    definitions = {
        "log": ["revision", "key", "previous", "deleted", "value", "checksum"],
        "compacted": ["id", "revision"],
        "reserve": ["space"],
    }
    problems = [
        f"the definition of table {name} is damaged"
        for name, columns in definitions.items()
        if [row[1] for row in db.execute(f"PRAGMA table_info({name})")] != columns
    ]
    if [row[2] for row in db.execute("PRAGMA index_info(swap)")] != ["key", "previous"]:
        problems.append("the definition of the index is damaged")
    if not problems:
        compacted = db.execute("SELECT revision FROM compacted").fetchall()
        if len(compacted) != 1 or not isinstance(compacted[0][0], int):
            problems.append("the record of the last compaction is damaged")
    return problems


def structure_problems(db: sqlite3.Connection) -> tuple[list[str], bool]:
    """Damage of the file's structure, and whether the index alone is wrong."""
    lines = [str(row[0]) for row in db.execute(f"PRAGMA integrity_check({_MAX_PROBLEMS})")]
    if lines == ["ok"]:
        return [], False
    structural = [line for line in lines if not any(part in line for part in _ROW_PROBLEMS)]
    if structural:
        return [_one_line(line) for line in structural], False
    in_table = {row[0] for row in db.execute("SELECT revision FROM log NOT INDEXED")}
    in_index = {row[0] for row in db.execute("SELECT revision FROM log INDEXED BY swap")}
    missing = len(in_index - in_table)
    if missing:
        return [f"{missing} rows that the index names are missing"], False
    return [], True


def newest_revision(db: sqlite3.Connection) -> int:
    """The newest revision that the database knows; 0 without tables."""
    if not has_table(db, "log"):
        return 0
    (newest,) = db.execute("SELECT MAX(revision) FROM log").fetchone()
    compacted = db.execute("SELECT revision FROM compacted").fetchone()
    return max(newest or 0, compacted[0] or 0 if compacted else 0)


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
    """A connection that changes neither the database nor its write-ahead log, also when closed."""
    uri = f"{database.absolute().as_uri()}?mode=ro"
    db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    db.text_factory = lambda text: text.decode(errors="replace")  # damaged text may be anything
    return db


def _valid_frames(database: Path) -> int:
    """The frames of the write-ahead log that SQLite accepted when it was opened."""
    try:
        with database.with_name(f"{database.name}-shm").open("rb") as file:
            file.seek(_VALID_FRAMES_AT)
            return int(_VALID_FRAMES.unpack(file.read(_VALID_FRAMES.size))[0])
    except (OSError, struct.error):
        return 0


def _one_line(text: str) -> str:
    return " ".join(text.replace("*** in database main ***", "").split())
