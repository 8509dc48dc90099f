"""Saves the objects of a damaged database into a new one.

Every row that its checksum confirms is genuine, wherever in the files it is found. Which of them
are present objects follows from their revisions: the newest row of a key counts. Rows that a
compaction deleted must not come back; SQLite overwrote them then. So the newest version of every
page is taken as it is. An older version (a page may be damaged only in its newest one) adds a row
only if no compaction has reached it, or if the index still names it.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from localkube.apiserver.store import acknowledged, schema
from localkube.apiserver.store.page_file import PageFile, Record
from localkube.apiserver.store.rows import Row, checksum, read_row

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class Salvage(NamedTuple):
    """What can be saved of a database."""

    objects: dict[str, Row]
    """The newest genuine row of every object."""
    lost: dict[str, int]
    """The keys of objects whose newest row is damaged, with its revision."""
    revision: int
    """The newest revision that was ever used, as far as known."""

    @property
    def older(self) -> list[str]:
        """Lost objects of which an older revision can be saved."""
        return sorted(key for key in self.lost if key in self.objects)


def salvage(database: Path) -> Salvage:
    """Read everything that can be read; the files stay as they are."""
    file = PageFile(database)
    answered = acknowledged.read(database)
    rows: dict[int, Row] = {}
    named: dict[int, str] = {}
    for number, page in file.newest.items():
        for record in file.records(number, page):
            if (row := _genuine_row(record)) is not None:
                rows[row.revision] = row
            named |= _index_entry(record)
    compacted = answered.compacted if answered else max(rows, default=0)
    for number, page in file.older:
        for record in file.records(number, page):
            row = _genuine_row(record)
            if row is not None and (row.revision > compacted or row.revision in named):
                rows.setdefault(row.revision, row)
    return _sorted_out(rows, named, answered.revision if answered else 0)


def _sorted_out(rows: dict[int, Row], named: dict[int, str], answered: int) -> Salvage:
    newest: dict[str, Row] = {}
    for revision in sorted(rows):
        newest[rows[revision].key] = rows[revision]
    lost = {
        key: revision
        for revision, key in sorted(named.items())
        if key not in newest or newest[key].revision < revision
    }
    objects = {key: row for key, row in sorted(newest.items()) if not row.deleted}
    return Salvage(objects, lost, max([answered, *rows, *named]))


def _genuine_row(record: Record) -> Row | None:
    """The row of a record, if its checksum is right."""
    values = record.values
    if record.row is None or len(values) not in (5, 6):
        return None
    match values:
        # Of the version without checksums.
        case [None, bytes(key), int(previous), int(deleted), bytes(value)]:
            name = key.decode(errors="replace")
            row = Row(record.row, name, previous, bool(deleted), value)
            return row if schema.holds_object(value) and name.count("/") == 2 else None
        case _:
            pass
    read = read_row((record.row, *values[1:])) if len(values) == 6 else None
    return read if isinstance(read, Row) else None


def _index_entry(record: Record) -> dict[int, str]:
    """The revision and key of an entry of the index; no checksum confirms it."""
    match record:
        case Record(None, [bytes(key), int(), int(revision)]) if key.count(b"/") == 2:
            return {revision: key.decode(errors="replace")}
        case _:
            return {}


def write_copy(saved: Salvage, target: Path) -> None:
    """Write a new database with these objects; revisions go on where the old ones ended."""
    target.unlink(missing_ok=True)
    os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    with closing(sqlite3.connect(target, isolation_level=None)) as db:
        schema.prepare(db, target)
        db.execute("BEGIN")
        db.executemany(
            "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", _first_rows(saved.objects.values())
        )
        db.execute("UPDATE compacted SET revision = ?", (saved.revision,))
        db.execute("COMMIT")


def _first_rows(rows: Iterable[Row]) -> Iterable[tuple[object, ...]]:
    """The rows without their past."""
    for row in sorted(rows):
        first = row._replace(previous=0)
        yield (*first, checksum(first))
