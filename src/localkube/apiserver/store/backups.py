"""Backups of the database: consistent copies that SQLite makes while the server writes.

A backup is verified before it counts, so damage of the database never replaces a good backup. The
newest few are kept, in `backups` beside the database.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kubekit.errors import MusterError
from localkube.apiserver.store import damage
from localkube.apiserver.store.database import COLUMNS, OddRow, connect_read_only, read_row, wal_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BACKUP_EVERY = 900.0
KEPT = 3
_SPARE = 64 * 1024 * 1024
"""Bytes that stay free on the disk."""


def folder_of(database: Path) -> Path:
    return database.parent / "backups"


def all_backups(database: Path) -> list[Path]:
    """The backups of a database, the oldest first."""
    # Named by their time, so their order by name is their order in time.
    return sorted(folder_of(database).glob(f"{database.stem}-*{database.suffix}"))


def write(database: Path, now: datetime | None = None) -> Path:
    """Make a backup and remove the oldest ones; MusterError if none can be made."""
    folder = folder_of(database)
    folder.mkdir(mode=0o700, exist_ok=True)
    disk = os.statvfs(folder)
    size = sum(file.stat().st_size for file in (database, wal_of(database)) if file.exists())
    # Twice: the copy is packed into a second one.
    if disk.f_bavail * disk.f_frsize < 2 * size + _SPARE:
        raise MusterError("no backup of the database: the disk has too little free space")
    stamp = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
    target = folder / f"{database.stem}-{stamp}{database.suffix}"
    draft = folder / f"{database.stem}.part"  # one name: a killed daemon's draft is replaced
    try:
        _copy(database, draft)
        draft.rename(target)
    except sqlite3.Error as error:
        raise MusterError(f"no backup of the database: {error}") from error
    finally:
        draft.unlink(missing_ok=True)
    for old in all_backups(database)[:-KEPT]:
        with suppress(FileNotFoundError):
            old.unlink()
    return target


@contextmanager
def copied(database: Path, draft: Path) -> Iterator[sqlite3.Connection]:
    """A copy of a database, in one file that only its owner can read."""
    draft.unlink(missing_ok=True)
    os.close(os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    with (
        closing(connect_read_only(database)) as source,
        closing(sqlite3.connect(draft, isolation_level=None)) as copy,
    ):
        # In one step: a snapshot that writers neither wait for nor change.
        source.backup(copy)
        copy.text_factory = source.text_factory
        copy.execute("PRAGMA journal_mode=DELETE")  # without a write-ahead log
        yield copy


def _copy(database: Path, draft: Path) -> None:
    with copied(database, draft) as copy:
        copy.execute("VACUUM")  # without the free pages
        problems, _ = damage.structure_problems(copy)
        rows = map(read_row, copy.execute(f"SELECT {COLUMNS} FROM log"))
        if problems or any(isinstance(row, OddRow) for row in rows):
            raise MusterError("no backup of the database: it is damaged; run `arena check`")
