"""Reading the logs that were chosen: of pods or of attempts that the cluster keeps, one or many."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from kubekit.errors import BadRequest, MusterError, NotFound
from kubekit.objects.pod_logs import POD_LOGS
from muster.client import ignore
from muster.client.logs import attempts
from muster.client.logs.followed_log import follow_log
from muster.client.logs.interleaved import Interleaved
from muster.client.logs.pod_log import NotStarted, read_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.meta import Key
    from muster.client import Notify
    from muster.client.logs.attempts import LogSource
    from muster.client.logs.pod_log import LogOptions


def read_source(
    client: BlockingClient, source: LogSource, options: LogOptions, notify: Notify = ignore
) -> Iterator[bytes]:
    """The log of a pod, or of an attempt that the cluster keeps, in chunks.

    If the pod is deleted before its log is read, or was recreated and has not started, its last
    attempt is read.
    """
    if source.attempt is not None:
        yield from read_attempt(client, source, options, notify)
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
        yield from read_attempt(client, last, options, notify)


def read_attempt(
    client: BlockingClient, source: LogSource, options: LogOptions, notify: Notify
) -> Iterator[bytes]:
    """The log of an attempt that the cluster keeps, in chunks."""
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
    if options.follow:
        yield from Interleaved[tuple["Key", bytes]]().read(streams)
    else:
        yield from itertools.chain(*streams)
    if sources and len(failures) == len(sources):
        raise failures[-1]
