"""Reading the logs that were chosen: of pods or of attempts that the cluster keeps, one or many."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, TypeVar

from muster.api.pod_logs import POD_LOGS
from muster.client import ignore
from muster.client.logs import attempts
from muster.client.logs.followed_log import follow_log
from muster.client.logs.pod_log import NotStarted, read_once
from muster.errors import BadRequest, MusterError, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from muster.api.meta import Key
    from muster.client import Notify
    from muster.client.logs.attempts import LogSource
    from muster.client.logs.pod_log import LogOptions
    from muster.kube.blocking_client import BlockingClient

T = TypeVar("T")


def read_source(
    client: BlockingClient, source: LogSource, options: LogOptions, notify: Notify = ignore
) -> Iterator[bytes]:
    """The log of a pod, or of an attempt that the cluster keeps, in chunks.

    If the pod is deleted before its log is read, or was recreated and has not started, its last
    attempt is read.
    """
    if source.attempt is not None:
        yield from _read_attempt(client, source, options, notify)
        return
    options = options._replace(previous=options.previous or source.previous)
    empty = True
    try:
        for chunk in read_log(client, source.pod, options, notify):
            empty = False
            yield chunk
    except (NotFound, BadRequest, NotStarted) as error:
        rows = attempts.attempts_of_pod(client, source.pod) if empty else []
        last = attempts.last_attempt(rows, source.pod, options.container)
        if last is None or options.previous:
            raise
        notify(f"{error}; this is the log of its last attempt")
        yield from _read_attempt(client, last, options, notify)


def _read_attempt(
    client: BlockingClient, source: LogSource, options: LogOptions, notify: Notify
) -> Iterator[bytes]:
    assert source.attempt is not None
    if source.header:
        notify(source.header)
    request = options._replace(follow=False, previous=False, container="")
    return client.log_of(POD_LOGS, source.attempt.metadata.key, **request._asdict())


def read_log(
    client: BlockingClient, pod: Key, options: LogOptions, notify: Notify = ignore
) -> Iterator[bytes]:
    """The pod's log in chunks; with `follow`, until the pod has ended."""
    if options.follow:
        return follow_log(client, pod, options, notify)
    return read_once(client, pod, options)


def read_many(
    connect: Callable[[], BlockingClient],
    sources: Sequence[LogSource],
    options: LogOptions,
    notify: Notify = ignore,
    warn: Notify = ignore,
) -> Iterator[tuple[Key, bytes]]:
    """Chunks of several logs, each with its pod; an empty chunk ends a log.

    With `follow` all are read at once, each over its own connection; else one after the other. A
    log that cannot be read does not end the others: `warn` receives a sentence. It is an error if
    no log can be read.
    """
    failures: list[MusterError] = []

    def read(source: LogSource) -> Iterator[tuple[Key, bytes]]:
        try:
            with connect() as client:
                for chunk in read_source(client, source, options, notify):
                    yield source.pod, chunk
            yield source.pod, b""
        except MusterError as error:
            warn(f"{source.pod.name}: {error}")
            failures.append(error)

    streams = [read(source) for source in sources]
    yield from _interleaved(streams) if options.follow else itertools.chain(*streams)
    if sources and len(failures) == len(sources):
        raise failures[-1]


def _interleaved(streams: Sequence[Iterator[T]]) -> Iterator[T]:
    """The items of all streams as they come; each stream is read by its own thread."""
    import queue
    import threading

    # Bounded, so that a slow reader slows the streams. After the reader has left, each thread puts
    # at most one more item and its end: there is always room, and no thread blocks for ever.
    items: queue.Queue[T | None] = queue.Queue(maxsize=2 * len(streams) + 64)
    closed = threading.Event()

    def read(stream: Iterator[T]) -> None:
        try:
            for item in stream:
                items.put(item)
                if closed.is_set():
                    break
        finally:
            items.put(None)

    for stream in streams:
        threading.Thread(target=read, args=(stream,), daemon=True).start()
    running = len(streams)
    try:
        while running:
            item = items.get()
            if item is None:
                running -= 1
            else:
                yield item
    finally:
        closed.set()
        while not items.empty():
            items.get_nowait()
