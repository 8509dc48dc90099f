"""The one table on disk: every write of every object, appended in order.

The row number is the resourceVersion. `previous` is the row that the writer had read, and the
unique index on (key, previous) makes two writers of the same past impossible: that is the
compare-and-swap. `append` returns when the rows are on the disk. Row numbers are never used twice:
compaction stores how far it went, so the next number is known even when no row is left.

One thread writes, and commits everything that waits as one group (`GroupCommit`).

Kept apart because this half of the store blocks and runs in a thread; with `store` it would have
more than 600 lines.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import sqlite3
import threading
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kubekit.errors import MusterError
from kubekit.request_errors import ServerError
from localkube.apiserver.store import backups, damage
from localkube.apiserver.store.collection import Change, Entry
from localkube.apiserver.store.damage import LOST, AcknowledgedFile, DamagedStore
from localkube.apiserver.store.database import COLUMNS, OddRow, Row, checksum, prepare, read_row
from localkube.apiserver.store.disk_reserve import DiskReserve, Purpose, left_by, size_on_disk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from localkube.apiserver.store.store import Store


log = logging.getLogger(__name__)
_STEP = 5000
"""Rows in one transaction of a compaction; writers wait no longer than it takes."""


class WriteLog:
    """The table. All methods block; one thread calls those that write.

    `horizon` is the revision up to which superseded rows may be gone.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        findings = damage.inspect(path)
        if findings.problems:
            raise damaged(path, findings.problems)
        self._db = sqlite3.connect(":memory:")
        try:
            self._db = self._connect()
            prepare(self._db, path, index_damaged=findings.index_damaged)
        except sqlite3.Error as error:
            self._db.close()
            raise failure(path, error) from error
        self.reserve = DiskReserve(path, self._db)
        self.acknowledged = AcknowledgedFile(path)
        self.record_lost = findings.record_lost
        if findings.record_lost:
            log.warning("%s", LOST)
        self._compacted = self.horizon = damage.compacted_revision(self._db)
        self.odd_revisions: list[int] = []

    def _connect(self) -> sqlite3.Connection:
        # No implicit transactions; the writer thread uses a connection that another one opened.
        db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        # With a write-ahead log, reading the past never blocks the writer.
        db.execute("PRAGMA journal_mode=WAL")
        # Every commit is synced: an answered write survives a power failure.
        db.execute("PRAGMA synchronous=FULL")
        # Some systems build SQLite with it on: freed pages would be written once more.
        db.execute("PRAGMA secure_delete = 0")
        return db

    def rows(self) -> Iterator[Row | OddRow]:
        """All rows, oldest first."""
        query = f"SELECT {COLUMNS} FROM log NOT INDEXED ORDER BY revision"
        for columns in self._db.execute(query):
            row = read_row(columns)
            if isinstance(row, OddRow):
                self.odd_revisions.append(row.revision)
            yield row

    def record(self, revision: int) -> None:
        """Record the newest revision of a store that was just opened."""
        self.acknowledged.write(revision)
        self.acknowledged.mark(self._db, self.path)

    def append(self, rows: Sequence[Row]) -> None:
        """Write all of `rows` or none; returns when they are durable."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            columns = [(*row, checksum(row)) for row in rows]
            self._db.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", columns)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise write_failure(self.path, error) from error
        self.acknowledged.write(rows[-1].revision)
        self._reserve(partial(self.reserve.count, sum(len(row.value) for row in rows)))

    def _reserve(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (sqlite3.Error, OSError) as error:
            log.warning("cannot reserve space for a full disk: %s", error)

    def append_within_reserve(self, row: Row, growth: int, purpose: Purpose) -> None:
        """Write a row on a disk that is nearly full; ServerError if the reserve would suffer."""
        if row.deleted:
            row = row._replace(value=b"")  # watchers get the row before it instead
        left = left_by(purpose, growth)
        space = size_on_disk(len(row.value)) + left
        if self.reserve.free_pages() < space:
            self._compact_all()
            self._reserve(self.reserve.take)
            if left and self.reserve.free_pages() < space:
                raise DiskFull(
                    "the disk of the local cluster is full: the change needs space that is kept"
                    " for deletions; free some space or delete objects",
                    status=500,
                )
        try:
            self.append([row])
        except DiskFull:
            self._compact_all()
            self._begin_log_anew()
            self.append([row])

    def _compact_all(self) -> None:
        newest = damage.newest_revision(self._db)
        while self._compacted < newest:
            try:
                self.compact_step(newest)
            except DiskFull:
                self._begin_log_anew()
                self.compact_step(newest)

    def _begin_log_anew(self) -> None:
        """Let the next write begin at the start of the write-ahead log."""
        try:
            # Waits for connections that still read the log.
            self._db.execute("PRAGMA wal_checkpoint(RESTART)")
        except sqlite3.Error as error:
            raise write_failure(self.path, error) from error

    def between(self, after: int, upto: int, prefix: str) -> list[Change]:
        """The writes under `prefix` with after < revision <= upto, and the object each replaced."""
        query = """
            SELECT log.revision, CAST(log.key AS BLOB), log.previous, log.deleted, log.value,
                   log.checksum, CASE old.deleted WHEN 0 THEN old.value END
            FROM log LEFT JOIN log AS old ON old.revision = log.previous
            WHERE log.revision > ? AND log.revision <= ? AND log.key >= ? AND log.key < ?
            ORDER BY log.revision"""
        with closing(self._connect()) as db:
            found = db.execute(query, (after, upto, prefix, _end(prefix)))
            rows = [(read_row(tuple(row)), before) for *row, before in found]
        return [_change(row, before) for row, before in rows if isinstance(row, Row)]

    def at(self, revision: int, prefix: str) -> list[Row]:
        """The objects under `prefix` at `revision`, in the order of keys."""
        query = f"""
            SELECT {COLUMNS} FROM (
                SELECT MAX(revision) AS revision, key, previous, deleted, value, checksum
                FROM log -- columns of that row
                WHERE revision <= ? AND key >= ? AND key < ? GROUP BY key
            ) ORDER BY key"""
        with closing(self._connect()) as db:
            rows = [*map(read_row, db.execute(query, (revision, prefix, _end(prefix))))]
        return [row for row in rows if isinstance(row, Row) and not row.deleted]

    def compact_step(self, upto: int) -> int:
        """Delete rows that the next rows up to `upto` superseded; returns the revision reached.

        A row stays as long as a row beyond the step names it as its previous one, so every write
        after the compaction point still knows the object it replaced.
        """
        after = self._compacted
        if after >= upto:
            return after
        reached = min(after + _STEP, upto)
        # Before rows are deleted: a watch that starts in between gets Gone instead of a gap.
        self.horizon = max(self.horizon, reached)
        try:
            self._drop(after, reached)
        except sqlite3.Error as error:
            raise write_failure(self.path, error) from error
        self._compacted = reached
        return reached

    def _drop(self, after: int, reached: int) -> None:
        odd = ", ".join(map(str, self.odd_revisions))
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("UPDATE compacted SET revision = MAX(revision, ?)", (reached,))
            # Superseded rows.
            self._db.execute(
                "DELETE FROM log WHERE revision IN"
                " (SELECT previous FROM log WHERE revision > ? AND revision <= ?"
                f" AND revision NOT IN ({odd}))",  # their `previous` may name any row
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
        """Close the files."""
        self._db.close()
        self.acknowledged.close()


def _change(row: Row, before: bytes | None) -> Change:
    """A row as a change; a deleted object has its last state even if its row has none."""
    if row.deleted and not row.value and before:
        old, new = (b'"resourceVersion":"%d"' % number for number in (row.previous, row.revision))
        row = row._replace(value=before.replace(old, new, 1))
    replaced = None if before is None else Entry(row.key, row.previous, before)
    return Change(row.entry, replaced, row.deleted)


def _end(prefix: str) -> str:
    """The first key after all keys that start with `prefix`."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


# -- group commit ----------------------------------------------------------------------------------


T = TypeVar("T")


class Write(NamedTuple):
    row: Row
    done: asyncio.Future[Entry]
    purpose: Purpose


class GroupCommit:
    """The thread that owns the log's connection; it ends with `close`.

    While one group is synced to disk, the next one gathers: groups grow with the load. The event
    loop hands writes over once per turn, so that the requests which one turn serves make one group.
    The thread would otherwise commit the first of them alone, and compete for the interpreter with
    the loop that prepares the others. Results come back on the event loop, in the order of writes.
    """

    def __init__(self, log: WriteLog, loop: asyncio.AbstractEventLoop, store: Store) -> None:
        self._log, self._loop, self._store = log, loop, store
        self._work: queue.SimpleQueue[Write | Callable[[], None] | None] = queue.SimpleQueue()
        self._gathered: list[Write] = []
        self._thread = threading.Thread(target=self._run, name="store", daemon=True)
        self._thread.start()

    def submit(self, write: Write) -> None:
        """Commit a write with the next group."""
        self._gathered.append(write)
        if len(self._gathered) == 1:
            self._loop.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        gathered, self._gathered = self._gathered, []
        for write in gathered:
            self._work.put(write)

    async def between_groups(self, work: Callable[[], T]) -> T:
        """Run `work` in the thread, between two groups of writes."""
        done: asyncio.Future[T] = self._loop.create_future()

        def run() -> None:
            try:
                result = work()
            except Exception as error:  # noqa: BLE001 - see _commit
                self._loop.call_soon_threadsafe(fail, done, _answerable(error))
            else:
                self._loop.call_soon_threadsafe(resolve, done, result)

        self._hand_over()
        self._work.put(run)
        return await done

    async def close(self) -> None:
        """Finish the writes in flight."""
        self._hand_over()
        self._work.put(None)
        await asyncio.to_thread(self._thread.join)
        # One turn of the loop: writes that the thread committed last are still announced.
        await asyncio.sleep(0)

    # -- in the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            group: list[Write] = []
            item = self._work.get()
            while isinstance(item, Write):
                group.append(item)
                try:
                    item = self._work.get_nowait()
                except queue.Empty:
                    break
            if group and self._log.reserve.is_tight():
                for write in group:  # one by one, since a large write would fail the others
                    self._commit([write], within_reserve=True)
            elif group:
                self._commit(group)
            if item is None:
                return
            if not isinstance(item, Write):
                item()

    def _commit(self, group: list[Write], *, within_reserve: bool = False) -> None:
        try:
            if within_reserve:
                self._append_within_reserve(*group)
            else:
                self._log.append([write.row for write in group])
        except Exception as error:  # noqa: BLE001 - without this thread no write would be answered
            self._loop.call_soon_threadsafe(self._store.failed, group, _answerable(error))
        else:
            self._loop.call_soon_threadsafe(self._store.publish, group)

    def _append_within_reserve(self, write: Write) -> None:
        # At most one write per key is in flight: the object in memory is the one before.
        growth = len(write.row.value) - self._store.stored_size(write.row.key)
        self._log.append_within_reserve(write.row, growth, write.purpose)


def _answerable(error: Exception) -> MusterError:
    """The error as an answer to the writers."""
    if isinstance(error, MusterError):
        return error
    return ServerError(f"the store failed: {error!r}", status=500)


def resolve(future: asyncio.Future[T], result: T) -> None:
    if not future.done():  # the caller may have been cancelled
        future.set_result(result)


def fail(future: asyncio.Future[T], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


# -- errors ----------------------------------------------------------------------------------------


_FULL = 64 * 1024
"""Free bytes; SQLite enlarges the index of its write-ahead log by half of it."""


class DiskFull(ServerError):
    """A write does not fit on the disk."""


def damaged(path: Path, problems: Sequence[str]) -> DamagedStore:
    """The error about a damaged database, with the next steps."""
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return DamagedStore(f"the database {path} is damaged: {problems[0]}{more}", hint=advice(path))


def advice(path: Path) -> str:
    """What to do about a damaged database."""
    check = f"arena check --data-dir {path.parent}"
    if saved := backups.all_backups(path):
        newest = saved[-1]
        return f"`{check}` says what is damaged; with --restore it returns to the backup {newest}."
    return (
        f"`{check}` says what is damaged. There is no backup; `arena up --data-dir DIR` starts"
        " an empty cluster in another directory."
    )


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
    if _code(error) == sqlite3.SQLITE_IOERR:
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
    if _code(error) == sqlite3.SQLITE_IOERR:
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
    return _code(error) == sqlite3.SQLITE_IOERR and disk.f_bavail * disk.f_frsize < _FULL


def _named(error: sqlite3.Error) -> str:
    return f"{error} ({getattr(error, 'sqlite_errorname', 'SQLITE_IOERR')})"


def _is_damage(error: sqlite3.Error) -> bool:
    # Two rows of one past: the index cannot be built, because the key of a row is damaged.
    codes = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT)
    return _code(error) in codes


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
