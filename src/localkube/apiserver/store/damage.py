"""Finds damage of a database before it is opened for writing, and the loss of acknowledged writes.

Opening would destroy evidence: SQLite overwrites the part of its write-ahead log that it cannot
read, and forgets all frames after it without an error. So `inspect` looks at the file through a
connection that only reads, and compares
- the structure of table and index, which `PRAGMA integrity_check` knows,
- the frames that SQLite accepts with the frames that the write-ahead log has, as
  https://sqlite.org/walformat.html describes them,
- the newest revision with the newest one that was answered (`AcknowledgedFile`).
Rows with a wrong checksum are not found here but when the rows are loaded.

The newest answered revision is in a small file beside the database. It is overwritten in place
after every commit, and not synced: after a power failure it may be behind the database, never ahead
of it. Once it exists, the database has a mark, so that its loss is noticed too: without it, nobody
would know of lost writes.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import struct
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from kubekit.errors import MusterError
from localkube.apiserver.store.database import check_version, connect_read_only, has_table, wal_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from localkube.apiserver.store.database import OddRow

_MAX_PROBLEMS = 20
_MAX_UNRECORDED = 1 << 32
"""Revisions that the record of answered writes may be behind: it is missing at first."""
_ROW_PROBLEMS = ("missing from index", "entries in index", "entry in index", " value in log.")
"""Parts of SQLite's messages about single rows; all others are about the structure of the file."""

_VALID_FRAMES = struct.Struct("=I")
_VALID_FRAMES_AT = 16
"""Where the index of a write-ahead log has the number of frames that SQLite accepts."""


class DamagedStore(MusterError):
    """The database of the local cluster is damaged."""


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
    record = answered_revision(database)
    answered = record or 0
    if not database.exists() or not database.stat().st_size:
        # SQLite would delete the write-ahead log of an empty database.
        lost = _lost_writes(answered)
        return Findings((f"the file is empty or missing; {lost}",) if answered else ())
    commits = commit_frames(wal_of(database))
    try:
        with closing(connect_read_only(database)) as db:
            prepared = check_version(db, database) or has_table(db, "log")
            problems = _schema_problems(db) if prepared else []
            findings = _look(db, database, commits, answered, problems)
            return findings._replace(record_lost=record is None and is_marked(db))
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
        problems.append(f"revision {reached} was never written")
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
        mark = "*** in database main ***"
        return [" ".join(line.replace(mark, "").split()) for line in structural], False
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
    return max(newest or 0, compacted_revision(db))


def compacted_revision(db: sqlite3.Connection) -> int:
    """The revision up to which superseded rows were deleted."""
    row = db.execute("SELECT revision FROM compacted").fetchone()
    return row[0] or 0 if row else 0


def _valid_frames(database: Path) -> int:
    """The frames of the write-ahead log that SQLite accepted when it was opened."""
    try:
        with database.with_name(f"{database.name}-shm").open("rb") as file:
            file.seek(_VALID_FRAMES_AT)
            return int(_VALID_FRAMES.unpack(file.read(_VALID_FRAMES.size))[0])
    except (OSError, struct.error):
        return 0


def damage_text(rows: Sequence[OddRow], *, record_lost: bool) -> str:
    """What is or may be missing because of damage; empty if nothing is."""
    texts = [LOST] if record_lost else []
    if rows:
        more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
        texts.append(f"damaged and set aside: {rows[0].key}{more}; `arena check` names them")
    return "; ".join(texts)


_FORM = struct.Struct("<8sQ8x")
_CHECKSUM = struct.Struct("<I")
_RECORD = b"muster 1"


def record_file(database: Path) -> Path:
    return database.with_suffix(".acknowledged")


def answered_revision(database: Path) -> int | None:
    """The newest revision that was answered; None if there is no record, or it is not readable."""
    try:
        data = record_file(database).read_bytes()
        (stored,) = _CHECKSUM.unpack_from(data, _FORM.size)
    except (OSError, struct.error):
        return None
    magic, revision = _FORM.unpack_from(data)
    if magic != _RECORD or stored != crc32(data[: _FORM.size]):
        return None
    return int(revision)


MARK = 0x4D757374
"""SQLite's `application_id` of a database that has a record."""
LOST = (
    "the record of acknowledged writes, objects.acknowledged, was lost or damaged: it is not"
    " known whether all of the last writes are there"
)


def is_marked(db: sqlite3.Connection) -> bool:
    return bool(db.execute("PRAGMA application_id").fetchone()[0] == MARK)


class AcknowledgedFile:
    """The open file of one database."""

    def __init__(self, database: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._fd = os.open(record_file(database), flags, 0o600)

    def write(self, revision: int) -> None:
        data = _FORM.pack(_RECORD, revision)
        # On a full disk, the first write may fail. Without the record, no object is lost.
        with contextlib.suppress(OSError):
            os.pwrite(self._fd, data + _CHECKSUM.pack(crc32(data)), 0)

    def mark(self, db: sqlite3.Connection, database: Path) -> None:
        """Let the database know of the file, once the file is on the disk."""
        if is_marked(db):
            return
        with contextlib.suppress(OSError, sqlite3.Error):  # the disk is full: at the next start
            os.fsync(self._fd)
            if answered_revision(database) is not None:
                db.execute(f"PRAGMA application_id = {MARK}")

    def close(self) -> None:
        os.close(self._fd)


_HEADER = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")
_WAL = 0x377F0682
_DEFAULT_SIZE = 4096


def commit_frames(wal: Path) -> list[int]:
    """The numbers of the frames that end a commit, whether or not they are damaged.

    SQLite begins the file anew after a checkpoint: frames of its former use do not count.
    """
    commits = []
    try:
        with wal.open("rb") as file:
            size, salts = _page_size_and_salts(file.read(_HEADER.size))
            number = 0
            while len(head := file.read(_FRAME.size)) == _FRAME.size:
                number += 1
                _, pages, *rest = _FRAME.unpack(head)
                salts = salts or rest[:2]  # the first frames are of the present use
                if pages and rest[:2] == salts:
                    commits.append(number)
                file.seek(size, os.SEEK_CUR)
    except (OSError, struct.error):
        pass  # without a write-ahead log there is nothing to lose
    return commits


def _page_size_and_salts(header: bytes) -> tuple[int, list[int]]:
    """The contents of the header; no salts if it is damaged."""
    magic, _, size, _, *salts, sum0, sum1 = _HEADER.unpack(header)
    words = struct.unpack(">6I" if magic & 1 else "<6I", header[:24])
    first = second = 0
    for i in range(0, 6, 2):
        first = (first + words[i] + second) & 0xFFFFFFFF
        second = (second + words[i + 1] + first) & 0xFFFFFFFF
    intact = magic & ~1 == _WAL and (first, second) == (sum0, sum1)
    return (size, salts) if intact else (_DEFAULT_SIZE, [])
