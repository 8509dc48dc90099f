"""The logs of a job, read by threads with the functions of `arena logs`, for the event loop.

`muster.client.logs` waits, follows and reconnects with a blocking client. A `LogReader` runs it in
a thread, hands its chunks over with back pressure, and ends it when the reader leaves: every
connection is aborted, so that a silent log keeps no thread.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING, NamedTuple

from kubekit.errors import MusterError, UsageError
from kubekit.request_errors import TooManyRequests
from muster.client.logs import job_logs
from muster.client.logs.log_choice import WantedLogs, find_logs
from muster.client.logs.pod_log import LogOptions

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.meta import Key
    from muster.client import Notify

log = logging.getLogger(__name__)

MAX_REPLICAS = 64
"""Replicas whose logs are read at once: each one needs a thread and a connection."""
MAX_READERS = 100
_QUEUE = 64
_open_readers: set[LogReader] = set()


class LogChoice(NamedTuple):
    """Which logs of a job."""

    job: Key
    kind: str
    replica: str = ""
    """The name of a pod; empty for all replicas."""
    attempt: int = 0
    """1 is the first; 0 is the last one, -1 the one before it."""
    follow: bool = False
    lines: int | None = None
    """Only the last lines, divided among the replicas; None for all."""


class LogChunk(NamedTuple):
    pod: str
    """Empty for a sentence about the log."""
    data: bytes


class LogReader:
    """One reading of logs: `async for chunks in LogReader(connect, choice).batches()`."""

    def __init__(self, connect: Callable[[], BlockingClient], choice: LogChoice) -> None:
        self._connect, self._choice = connect, choice
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[LogChunk | MusterError | None] = asyncio.Queue(_QUEUE)
        self._clients: list[BlockingClient] = []
        self._closed = False

    async def batches(self, interval: float = 0.0) -> AsyncGenerator[list[LogChunk], None]:
        """The chunks that arrive within an interval, together."""
        if len(_open_readers) >= MAX_READERS:
            raise TooManyRequests("Too many logs are being read at once.", status=429)
        _open_readers.add(self)
        threading.Thread(target=self._run, name="log reader", daemon=True).start()
        try:
            ended = False
            while not ended:
                items = [await self._queue.get()]
                await asyncio.sleep(interval)
                while not self._queue.empty():
                    items.append(self._queue.get_nowait())
                ended = not isinstance(items[-1], LogChunk)
                if chunks := [item for item in items if isinstance(item, LogChunk)]:
                    yield chunks
                if isinstance(items[-1], MusterError):
                    raise items[-1]
        finally:
            _open_readers.discard(self)
            self._close()

    def _close(self) -> None:
        self._closed = True
        for client in self._clients:
            client.abort()
        while not self._queue.empty():  # a thread may wait for room
            self._queue.get_nowait()

    # In the thread

    def _run(self) -> None:
        try:
            with self._client() as client:
                for pod, data in read_chosen(client, self._client, self._choice, self._notify):
                    if self._closed:
                        break
                    self._put(LogChunk(pod.name, data))
            self._put(None)
        except MusterError as error:
            self._put(error)
        except Exception:
            log.exception("dashboard: the log of %s", self._choice.job)
            self._put(MusterError("The log could not be read."))

    def _put(self, item: LogChunk | MusterError | None) -> None:
        if not self._closed:
            asyncio.run_coroutine_threadsafe(self._queue.put(item), self._loop).result()

    def _client(self) -> BlockingClient:
        client = self._connect()
        self._clients.append(client)
        if self._closed:
            client.abort()
        return client

    def _notify(self, sentence: str) -> None:
        self._put(LogChunk("", sentence.encode()))


def read_chosen(
    client: BlockingClient,
    connect: Callable[[], BlockingClient],
    choice: LogChoice,
    notify: Notify,
) -> Iterator[tuple[Key, bytes]]:
    """Chunks of the chosen logs, each with its pod; an empty chunk may end the log of a pod."""
    everyone, earlier = not choice.replica, choice.attempt
    options = LogOptions(
        follow=choice.follow and not earlier, tail=choice.lines, previous=earlier < 0
    )
    attempt = earlier if earlier > 0 else None
    wanted = WantedLogs(options, choice.replica, everyone=everyone, attempt=attempt)
    logs = find_logs(client, choice.job, choice.kind.lower(), wanted, notify)
    count = len(logs.sources)
    if count > MAX_REPLICAS and choice.follow:
        raise UsageError(f"The job has {count} replicas: choose one of them.")
    if options.tail and everyone:
        options = options._replace(tail=max(20, options.tail // max(1, count)))
    options = options._replace(follow=options.follow and logs.can_grow)
    if options.follow and not everyone:
        return job_logs.read_one(client, logs, options, notify)
    return job_logs.read_all(connect, logs, options, notify, notify)
