"""The store: all objects in memory as encoded bytes, every write on disk before it is answered.

Keys are `resource/namespace/name`; the first part is the collection.

All methods run on the event loop. A write is checked against the newest write of its key (durable
or in flight), gets the next revision and goes to the writer thread (`group_commit`). Readers,
watchers and the caller see it when it is on disk: nobody ever acts on a revision that a crash could
take back. So `_latest` may run ahead of what `get` returns. A writer that lost to a write in flight
gets its Conflict when that write is durable, so that its next `get` sees the winner.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial
from typing import IO, TYPE_CHECKING

from kubekit.request_errors import AlreadyExists, Conflict, Gone, NotFound, ServerError
from localkube.apiserver.store import backups
from localkube.apiserver.store.collection import Change, Collection, Entry
from localkube.apiserver.store.database import OddRow, Row, take_lock
from localkube.apiserver.store.disk_reserve import Purpose
from localkube.apiserver.store.write_log import GroupCommit, Write, WriteLog, fail, resolve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kubekit.errors import MusterError

Listener = Callable[[Change], None]
MAX_CHANGES, MAX_BYTES = 50_000, 64 * 1024 * 1024
"""The changes that may wait for one watcher."""


class Store:
    """All objects of the cluster. `await Store.open(path)`; `await close()` when done."""

    def __init__(self, log: WriteLog, loop: asyncio.AbstractEventLoop, lock: IO[bytes]) -> None:
        self._log = log
        self._loop = loop
        self._lock = lock
        self._collections: defaultdict[str, Collection] = defaultdict(Collection)
        self._latest: dict[str, int] = {}  # newest revision of a key, deletions included
        # At most one write per key: a second writer waits for the outcome of the first.
        self._in_flight: dict[str, Write] = {}
        self._watches: defaultdict[str, list[Watch]] = defaultdict(list)
        self._listeners: defaultdict[str, list[Listener]] = defaultdict(list)
        self.odd_rows: list[OddRow] = []
        """Damaged rows that were set aside: their objects are missing here."""
        self.record_lost = log.record_lost
        self.revision = log.horizon
        self._load()
        log.record(self.revision)
        self._next = self.revision + 1
        self._writer = GroupCommit(log, loop, self)

    @classmethod
    async def open(cls, path: Path) -> Store:
        """Lock the file and load its objects."""
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = take_lock(path)
        try:
            log = await asyncio.to_thread(WriteLog, path)
            return cls(log, asyncio.get_running_loop(), lock)
        except BaseException:
            lock.close()
            raise

    async def close(self) -> None:
        """Finish the writes in flight and release the file."""
        await self._writer.close()
        self._log.close()
        self._lock.close()

    # -- reading ---------------------------------------------------------------------------------

    @property
    def compacted(self) -> int:
        """The revision up to which superseded writes were forgotten."""
        return self._log.horizon

    def get(self, key: str) -> Entry | None:
        """The object as of the last durable write."""
        return self._collections[_collection(key)].entries.get(key)

    def scan(self, prefix: str, after: str = "") -> Iterator[Entry]:
        """Objects whose key starts with `prefix`, in the order of keys, after the key `after`."""
        return self._collections[_collection(prefix)].under(prefix, after)

    def scan_newest(self, prefix: str) -> Iterator[Entry]:
        """As `scan`, and the objects of writes in flight: for values that two objects must not
        share. An object that is being changed comes twice."""
        yield from self.scan(prefix)
        for key, write in self._in_flight.items():
            if key.startswith(prefix) and not write.row.deleted:
                yield write.row.entry

    def collections(self) -> list[str]:
        """The names of all collections that were ever written or read."""
        return list(self._collections)

    async def scan_at(self, prefix: str, revision: int) -> list[Entry]:
        """The objects under `prefix` at an earlier revision; Gone if that was compacted."""
        if revision < self.compacted:
            raise _gone(revision, self.compacted)
        rows = await asyncio.to_thread(self._log.at, revision, prefix)
        if revision < self.compacted:  # compacted since then, so rows may be missing
            raise _gone(revision, self.compacted)
        return [row.entry for row in rows]

    def has_room(self) -> bool:
        """Whether the disk has room for new objects."""
        return self._log.reserve.has_room()

    # -- writing ---------------------------------------------------------------------------------

    async def create(self, key: str, encode: Callable[[int], bytes]) -> Entry:
        """Write a new object; AlreadyExists if the name is taken."""
        # Changes and deletions use the reserve: they are how users free space.
        if not self.has_room():
            raise ServerError(
                "the disk of the local cluster is full: nothing can be created until it has room",
                status=500,
            )
        if self.get(key) is not None or key in self._in_flight:
            # The write in flight may be the deletion that frees the name.
            await self._wait_until_written(key)
            if self.get(key) is not None:
                raise AlreadyExists(f"{key} already exists", status=409, reason="AlreadyExists")
        return await self._submit(key, encode, Purpose.CHANGE)

    async def update(
        self,
        key: str,
        encode: Callable[[int], bytes],
        expected: int,
        purpose: Purpose = Purpose.CHANGE,
    ) -> Entry:
        """Replace the object read at revision `expected`; Conflict if it has changed since."""
        await self._check(key, expected)
        return await self._submit(key, encode, purpose)

    async def delete(self, key: str, encode: Callable[[int], bytes], expected: int) -> Entry:
        """Remove the object read at revision `expected`; `encode` gives its last state."""
        await self._check(key, expected)
        return await self._submit(key, encode, Purpose.DELETION, deleted=True)

    async def _check(self, key: str, expected: int) -> None:
        if self._latest.get(key) == expected:
            return
        await self._wait_until_written(key)
        if self.get(key) is None:
            raise NotFound(f"{key} not found", status=404, reason="NotFound")
        if self._latest[key] != expected:
            raise Conflict(f"{key} has changed", status=409, reason="Conflict")

    async def _wait_until_written(self, key: str) -> None:
        """Wait until no write of the key is in flight, whether it succeeds or fails."""
        while (write := self._in_flight.get(key)) is not None:
            await asyncio.wait([write.done])

    async def _submit(
        self, key: str, encode: Callable[[int], bytes], purpose: Purpose, *, deleted: bool = False
    ) -> Entry:
        previous = self._latest.get(key, 0)
        revision = self._next
        # Nothing is registered before `encode` has succeeded: an error must leave no trace.
        row = Row(revision, key, previous, deleted, encode(revision))
        self._next += 1
        self._latest[key] = revision
        done: asyncio.Future[Entry] = self._loop.create_future()
        self._in_flight[key] = write = Write(row, done, purpose)
        self._writer.submit(write)
        # A cancelled caller does not cancel its write, which may be on disk already.
        return await asyncio.shield(done)

    # -- watching --------------------------------------------------------------------------------

    def subscribe(self, listener: Listener, *collections: str) -> None:
        """Call `listener` for every object of these collections, then for every change in order.

        An object that exists already comes as a change without `before`, like a new one. Without
        collections, the listener gets the changes of all of them, and no object first.
        """
        for collection in collections:
            for entry in self.scan(f"{collection}/"):
                listener(Change(entry, None, deleted=False))
        for collection in collections or ("",):
            self._listeners[collection].append(listener)

    async def watch(self, prefix: str, since: int) -> Watch:
        """Changes under `prefix` after revision `since`; Gone if they were compacted."""
        if since < self.compacted:
            raise _gone(since, self.compacted)
        watch = Watch(prefix, since, self._forget)
        # Registered before the past is read: changes after `upto` are pushed already, and
        # `replay` puts the past in front of them.
        upto = self.revision
        self._watches[_collection(prefix)].append(watch)
        if since >= upto:
            return watch
        try:
            past = await asyncio.to_thread(self._log.between, since, upto, prefix)
            if since < self.compacted:  # compacted since then, so rows may be missing
                raise _gone(since, self.compacted)
        except BaseException:
            watch.close()
            raise
        watch.replay(past)
        return watch

    def end_watches(self) -> None:
        """End all watches: the server stops."""
        for watches in self._watches.values():
            for watch in watches:
                watch.end()

    def _forget(self, watch: Watch) -> None:
        watches = self._watches[_collection(watch.prefix)]
        if watch in watches:
            watches.remove(watch)

    # -- compaction ------------------------------------------------------------------------------

    async def compact(self, revision: int) -> None:
        """Forget superseded writes up to `revision`; watches from before it get Gone."""
        revision = min(revision, self.revision)
        while (
            await self._writer.between_groups(partial(self._log.compact_step, revision)) < revision
        ):
            pass
        # No row of these deleted keys is left, so a new object can begin with `previous` 0 again.
        deleted = [k for k, at in self._latest.items() if at <= revision and self.get(k) is None]
        for key in deleted:
            if key not in self._in_flight:
                del self._latest[key]

    async def take_reserve(self) -> None:
        """Reserve space for a full disk, if there is none yet."""
        await self._writer.between_groups(self._log.reserve.take)

    async def back_up(self) -> Path:
        """Make a backup; writes go on while it is made."""
        return await asyncio.to_thread(backups.write, self._log.path)

    # -- after a commit --------------------------------------------------------------------------

    def publish(self, group: list[Write]) -> None:
        """Show a group of writes that is on disk to readers, watchers and writers."""
        for row, done, _ in group:
            collection = self._collections[_collection(row.key)]
            before = collection.entries.get(row.key)
            entry = row.entry
            if row.deleted:
                collection.drop(row.key)
            else:
                collection.put(entry)
            self.revision = row.revision
            # Listeners first: roles, CRDs and quotas are up to date when the writer goes on.
            change, name = Change(entry, before, row.deleted), _collection(row.key)
            for listener in (*self._listeners[""], *self._listeners[name]):
                listener(change)
            for watch in self._watches[name]:
                watch.push(change)
            del self._in_flight[row.key]
            resolve(done, entry)

    def failed(self, group: list[Write], error: MusterError) -> None:
        """Nothing of a group is on disk."""
        for row, done, _ in group:
            if row.previous:
                self._latest[row.key] = row.previous
            else:
                del self._latest[row.key]
            del self._in_flight[row.key]
            fail(done, error)

    def stored_size(self, key: str) -> int:
        """The bytes of an object as of its last durable write; called in the writer's thread."""
        collection = self._collections.get(_collection(key))  # not [], which would create it
        entry = collection.entries.get(key) if collection else None
        return len(entry.value) if entry else 0

    def _load(self) -> None:
        newest: dict[str, Row | OddRow] = {}
        for row in self._log.rows():
            newest[row.key] = row
            self.revision = max(self.revision, row.revision)
        for key in sorted(newest):  # not the items: tuples take twice as long to compare
            row = newest[key]
            self._latest[key] = row.revision
            if isinstance(row, OddRow):
                self.odd_rows.append(row)
            elif not row.deleted:
                # Sorted already: `put` would search for the place of every key.
                collection = self._collections[_collection(key)]
                collection.keys.append(key)
                collection.entries[key] = row.entry


class Watch:
    """Changes under a prefix after a revision, in order and without gaps. Close it.

    A watcher that falls too far behind is ended: a few large objects that change often must not
    fill the memory. When it reconnects, it resumes from the table.
    """

    def __init__(self, prefix: str, since: int, forget: Callable[[Watch], None]) -> None:
        """`forget` ends the calls of `push`."""
        self._since, self._forget, self._ready = since, forget, asyncio.Event()
        self._waiting: deque[Change] = deque()
        self._size = 0
        self.prefix = prefix
        self.ended = False

    def push(self, change: Change) -> None:
        """Add a change of the collection, if it is new to this watcher and under its prefix."""
        entry = change.entry
        if self.ended or entry.revision <= self._since or not entry.key.startswith(self.prefix):
            return
        if len(self._waiting) >= MAX_CHANGES or self._size >= MAX_BYTES:
            # Without the rest of the changes these would be a gap.
            self._waiting.clear()
            self.end()
            return
        self._waiting.append(change)
        self._size += change.size
        self._ready.set()

    def replay(self, changes: list[Change]) -> None:
        """Put past changes before the changes that have arrived since."""
        self._waiting.extendleft(reversed(changes))
        self._size += sum(change.size for change in changes)
        if changes:
            self._ready.set()

    def end(self) -> None:
        """Let the watcher read the waiting changes and stop."""
        self.ended = True
        self._ready.set()

    @property
    def idle(self) -> bool:
        """Whether everything has been read."""
        return not self._waiting

    async def next(self) -> list[Change]:
        """All changes that are waiting, at least one; none when the watch has ended."""
        await self._ready.wait()
        changes = list(self._waiting)
        self._waiting.clear()
        self._size = 0
        if not self.ended:  # an ended watch stays ready, so that no reader waits forever
            self._ready.clear()
        return changes

    def close(self) -> None:
        """Stop receiving."""
        self._forget(self)


def _collection(key: str) -> str:
    return key.partition("/")[0]


def _gone(requested: int, compacted: int) -> Gone:
    return Gone(
        f"too old resource version: {requested} ({compacted})", status=410, reason="Expired"
    )
