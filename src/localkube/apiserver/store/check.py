"""`arena check`: what is damaged in a database, and returning to a backup.

Restoring never changes the damaged files: it moves them to a separate folder.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from kubekit.errors import ConfigError, MusterError, UsageError
from localkube.apiserver.store import backups, damage
from localkube.apiserver.store.damage import DamagedStore
from localkube.apiserver.store.database import (
    COLUMNS,
    OddRow,
    Row,
    check_version,
    connect_read_only,
    has_table,
    prepare,
    read_row,
    take_lock,
)

if TYPE_CHECKING:
    from pathlib import Path

_MAX_NAMES = 1000


class CheckReport(msgspec.Struct, rename="camel"):
    """The result of a check."""

    database: str
    damaged: bool
    problems: list[str]
    objects: int
    """The objects that can be read; 0 if the structure of the file is damaged."""
    unreadable: list[str]
    """The keys of objects whose newest state is damaged."""
    backups: list[str]
    running: bool
    """Whether a cluster is using the database."""


def check(database: Path) -> CheckReport:
    """Look for damage; changes nothing."""
    if not database.exists() and damage.answered_revision(database) is None:
        raise UsageError(
            f"there is no database in {database.parent}",
            hint="`arena check --data-dir DIR` checks another directory.",
        )
    try:
        lock = take_lock(database)
    except ConfigError:
        return _check_running(database)
    with lock:
        return _check_stopped(database)


def _check_stopped(database: Path) -> CheckReport:
    findings = damage.inspect(database)
    problems = list(findings.problems)
    if findings.index_damaged:
        problems.append("the index does not match the rows; the next start builds it again")
    if findings.record_lost:
        problems.append(f"{damage.LOST}; the next start begins a new record")
    objects, odd = (0, []) if findings.problems else _rows(database)
    return _report(database, problems, objects, odd)


def _check_running(database: Path) -> CheckReport:
    objects, odd = 0, list[str]()
    try:
        with closing(connect_read_only(database)) as db:
            check_version(db, database)
            problems, _ = damage.structure_problems(db)
            # Only whether it is there: the cluster writes to it.
            if damage.is_marked(db) and not damage.record_file(database).exists():
                problems.append(damage.LOST)
        if not problems:
            objects, odd = _rows(database)
    except sqlite3.OperationalError as error:  # no damage: the cluster starts or stops just now
        raise MusterError(f"{database} cannot be read: {error}", hint="Try again.") from error
    except sqlite3.DatabaseError as error:
        problems = [f"SQLite cannot read it: {error}"]
    report = _report(database, problems, objects, odd)
    report.running = True
    return report


def _report(database: Path, problems: list[str], objects: int, odd: list[str]) -> CheckReport:
    return CheckReport(
        database=str(database),
        damaged=bool(problems or odd),
        problems=problems,
        objects=objects,
        unreadable=odd[:_MAX_NAMES],
        backups=[str(path) for path in reversed(backups.all_backups(database))],
        running=False,
    )


def _rows(database: Path) -> tuple[int, list[str]]:
    """The number of objects, and the keys of damaged rows."""
    with closing(connect_read_only(database)) as db:
        if not check_version(db, database):
            return 0, []  # the next start creates the tables
        query = f"SELECT {COLUMNS} FROM log NOT INDEXED ORDER BY revision"
        newest = {row.key: row for row in map(read_row, db.execute(query))}
    odd = sorted(key for key, row in newest.items() if isinstance(row, OddRow))
    return sum(isinstance(row, Row) and not row.deleted for row in newest.values()), odd


def restore(database: Path, source: Path | None = None) -> tuple[Path, Path]:
    """Use the objects of a backup, by default of the newest good one.

    Returns the backup and the folder with the files that were in use.
    """
    try:
        lock = take_lock(database)
    except ConfigError as error:
        raise UsageError(
            f"{database.parent} is in use: the local cluster is up", hint="`arena down` stops it."
        ) from error
    with lock:
        source, draft = _good_copy(database, source)
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        folder = database.parent / f"replaced-{stamp}"
        folder.mkdir(mode=0o700)
        names = (f"{database.name}{end}" for end in ("-shm", "-wal", ""))
        for name in (*names, damage.record_file(database).name):
            if (database.parent / name).exists():
                (database.parent / name).rename(folder / name)
        draft.rename(database)
        return source, folder


def _good_copy(database: Path, source: Path | None) -> tuple[Path, Path]:
    """The backup to restore, and a copy of it that continues the revisions of `database`."""
    sources = [source] if source else reversed(backups.all_backups(database))
    problems = []
    for backup in sources:
        if not backup.is_file():
            raise UsageError(f"there is no file {backup}")
        try:
            return backup, _copy(backup, database)
        except DamagedStore as error:
            problems.append(str(error))
    raise DamagedStore("; ".join(problems) or f"{database} has no backup")


def _copy(backup: Path, database: Path) -> Path:
    """A verified copy of a backup, with the newest row of every object and without the past."""
    draft = database.with_suffix(".draft")
    try:
        with backups.copied(backup, draft) as db:
            problems, index_damaged = damage.structure_problems(db)
            if problems or not has_table(db, "log"):
                raise DamagedStore(f"{backup} is damaged: {(problems or ['it has no objects'])[0]}")
            prepare(db, draft, index_damaged=index_damaged)
            _forget_the_past(db, backup, database)
    except (sqlite3.Error, MusterError) as error:
        draft.unlink(missing_ok=True)
        if isinstance(error, MusterError):
            raise
        if isinstance(error, sqlite3.OperationalError):  # the disk is full, for instance
            raise MusterError(f"{backup} cannot be restored: {error}") from error
        raise DamagedStore(f"{backup} is damaged: SQLite cannot read it: {error}") from error
    return draft


def _forget_the_past(db: sqlite3.Connection, backup: Path, database: Path) -> None:
    rows, newest = list[Row](), dict[str, int]()
    for columns in db.execute(f"SELECT {COLUMNS} FROM log ORDER BY revision"):
        row = read_row(columns)
        if isinstance(row, OddRow):
            raise DamagedStore(f"{backup} is damaged: the row of {row.key}")
        rows.append(row)
        newest[row.key] = row.revision
    kept = {*newest.values()} - {row.revision for row in rows if row.deleted}
    # Clients may know any revision that was answered: none of them is used again.
    answered = damage.answered_revision(database) or 0
    revision = max(damage.newest_revision(db), answered)
    db.execute("BEGIN")
    db.executemany(
        "DELETE FROM log WHERE revision = ?",
        ((row.revision,) for row in rows if row.revision not in kept),
    )
    db.execute("UPDATE compacted SET revision = ?", (revision,))
    db.execute("PRAGMA application_id = 0")  # the next start begins a new record of writes
    db.execute("COMMIT")
