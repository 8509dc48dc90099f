"""Group commit: one thread writes to the log, and commits everything that waits as one group.

While one group is synced to disk, the next one gathers: groups grow with the load. The event loop
hands writes over once per turn, so that the requests which one turn serves make one group. The
thread would otherwise commit the first of them alone, and compete for the interpreter with the
loop that prepares the others. Results come back on the event loop, in the order of the writes.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kubekit.errors import MusterError, ServerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from localkube.apiserver.store.changes import Entry
    from localkube.apiserver.store.database import Row
    from localkube.apiserver.store.disk_reserve import Purpose
    from localkube.apiserver.store.write_log import WriteLog

T = TypeVar("T")


class Write(NamedTuple):
    row: Row
    done: asyncio.Future[Entry]
    purpose: Purpose


class Callbacks(NamedTuple):
    """The store's part of a commit."""

    published: Callable[[list[Write]], None]
    """The group is on disk; called on the event loop."""
    failed: Callable[[list[Write], MusterError], None]
    """Nothing of the group is on disk; called on the event loop."""
    stored_size: Callable[[str], int]
    """The bytes of the object with this key, as of its last durable write; called in the thread."""


class GroupCommit:
    """The thread that owns the log's connection; it ends with `close`."""

    def __init__(self, log: WriteLog, loop: asyncio.AbstractEventLoop, store: Callbacks) -> None:
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
                    self._commit([write], self._append_within_reserve)
            elif group:
                self._commit(group, self._append)
            if item is None:
                return
            if not isinstance(item, Write):
                item()

    def _commit(self, group: list[Write], append: Callable[[list[Write]], None]) -> None:
        try:
            append(group)
        except Exception as error:  # noqa: BLE001 - without this thread no write would be answered
            self._loop.call_soon_threadsafe(self._store.failed, group, _answerable(error))
        else:
            self._loop.call_soon_threadsafe(self._store.published, group)

    def _append(self, group: list[Write]) -> None:
        self._log.append([write.row for write in group])

    def _append_within_reserve(self, group: list[Write]) -> None:
        for row, _, purpose in group:
            # At most one write per key is in flight: the object in memory is the one before.
            growth = len(row.value) - self._store.stored_size(row.key)
            self._log.append_within_reserve(row, growth, purpose)


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
