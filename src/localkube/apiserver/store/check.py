"""`arena check`: what is damaged in a database, what can be saved, and putting it in place.

Repairing never changes the damaged files: it writes a copy, and restoring moves the damaged files
to a folder of their own.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from kubekit.errors import ConfigError, DamagedStore, MusterError, UsageError
from localkube.apiserver.store import acknowledged, backups, damage
from localkube.apiserver.store.lock import take_lock
from localkube.apiserver.store.rows import COLUMNS, OddRow, Row, read_row
from localkube.apiserver.store.salvage import salvage, write_copy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MAX_NAMES = 1000


class CheckReport(msgspec.Struct, rename="camel"):
    """The result of a check."""

    database: str
    damaged: bool
    problems: list[str]
    objects: int
    """The objects that can be read, or saved if the database is damaged."""
    unreadable: list[str]
    """The keys of objects whose newest state is damaged."""
    older_saved: list[str]
    """Those of them of which an older state can be saved."""
    backups: list[str]
    running: bool
    """Whether a cluster is using the database."""


def check(database: Path) -> CheckReport:
    """Look for damage; changes nothing."""
    if not database.exists() and acknowledged.read(database) is None:
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
        problems.append(f"{acknowledged.LOST}; the next start begins a new record")
    objects, odd = (0, []) if findings.problems else _rows(database)
    report = _report(database, problems, objects, odd)
    if report.damaged:
        saved = salvage(database)
        report.objects = len(saved.objects)
        report.unreadable = sorted({*odd, *saved.lost})[:_MAX_NAMES]
        report.older_saved = saved.older
    return report


def _check_running(database: Path) -> CheckReport:
    objects, odd = 0, list[str]()
    try:
        with closing(damage.connect_read_only(database)) as db:
            damage.check_version(db, database)
            problems, _ = damage.structure_problems(db)
            # Only whether it is there: the cluster writes to it.
            if acknowledged.is_marked(db) and not acknowledged.file_of(database).exists():
                problems.append(acknowledged.LOST)
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
        unreadable=odd,
        older_saved=[],
        backups=[str(path) for path in reversed(backups.all_backups(database))],
        running=False,
    )


def _rows(database: Path) -> tuple[int, list[str]]:
    """The number of objects, and the keys of damaged rows."""
    newest: dict[str, Row | OddRow] = {}
    with closing(damage.connect_read_only(database)) as db:
        if not damage.check_version(db, database):
            return 0, []  # no checksums yet; the next start adds them
        for columns in db.execute(f"SELECT {COLUMNS} FROM log NOT INDEXED ORDER BY revision"):
            row = read_row(columns)
            newest[row.key] = row
    odd = sorted(key for key, row in newest.items() if isinstance(row, OddRow))
    return sum(isinstance(row, Row) and not row.deleted for row in newest.values()), odd


def repair(database: Path) -> Path:
    """Write everything that can be saved to a copy; returns its path."""
    with _locked(database):
        target = database.with_name(f"{database.stem}.repaired{database.suffix}")
        _write(database, database, target)
        return target


def restore(database: Path, source: Path) -> Path:
    """Use the objects of another file; returns the folder with the files that were in use."""
    if not source.is_file():
        raise UsageError(f"there is no file {source}")
    with _locked(database):
        draft = database.with_suffix(".draft")
        _write(source, database, draft)
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        folder = database.parent / f"replaced-{stamp}"
        folder.mkdir(mode=0o700)
        names = (f"{database.name}{end}" for end in ("-shm", "-wal", ""))
        for name in (*names, acknowledged.file_of(database).name):
            if (database.parent / name).exists():
                (database.parent / name).rename(folder / name)
        draft.rename(database)
        return folder


def _write(source: Path, database: Path, target: Path) -> None:
    saved = salvage(source)
    if not saved.objects:
        raise DamagedStore(f"no object can be saved from {source}")
    answered = acknowledged.read(database) or acknowledged.Acknowledged()
    # Clients may know any revision that was answered: none of them is used again.
    revision = max(saved.revision, answered.revision)
    try:
        write_copy(saved._replace(revision=revision), target)
    except sqlite3.Error as error:
        target.unlink(missing_ok=True)
        raise MusterError(f"{target} cannot be written: {error}") from error


@contextmanager
def _locked(database: Path) -> Iterator[None]:
    try:
        lock = take_lock(database)
    except ConfigError as error:
        raise UsageError(
            f"{database.parent} is in use: the local cluster is up", hint="`arena down` stops it."
        ) from error
    with lock:
        yield
