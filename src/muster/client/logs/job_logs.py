"""The logs that were chosen, read or followed to their end: of one replica, or of all at once."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from muster.client import ignore
from muster.client.logs import followed_job, read_logs
from muster.client.logs.followed_job import FollowedJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.meta import Key
    from muster.client import Notify
    from muster.client.logs.choice import FoundLogs
    from muster.client.logs.pod_log import LogOptions


def read_one(
    client: BlockingClient, logs: FoundLogs, options: LogOptions, notify: Notify = ignore
) -> Iterator[tuple[Key, bytes]]:
    """Chunks of the first log, each with its pod; a followed job is followed until it ends."""
    source, job = logs.sources[0], logs.job
    if job is None or not options.follow or not logs.can_grow:
        return ((source.pod, c) for c in read_logs.read_source(client, source, options, notify))
    followed = FollowedJob(job, expires=logs.expires)
    return followed_job.follow_replica(client, followed, source.pod, options, notify)


def read_all(
    connect: Callable[[], BlockingClient],
    logs: FoundLogs,
    options: LogOptions,
    notify: Notify = ignore,
    warn: Notify = ignore,
) -> Iterator[tuple[Key, bytes]]:
    """Chunks of all logs, each with its pod; an empty chunk ends a log."""
    if logs.job is None or not options.follow or not logs.can_grow:
        return read_logs.read_many(connect, logs.sources, options, notify, warn)
    followed = FollowedJob(logs.job, expires=logs.expires)
    return followed_job.follow_all(connect, followed, options, notify, warn)


def whole_lines(chunks: Iterable[tuple[Key, bytes]]) -> Iterator[tuple[Key, list[bytes]]]:
    """Lines without their ends, as soon as they are whole; an empty chunk ends the pod's log."""
    rests: defaultdict[Key, bytes] = defaultdict(bytes)
    for pod, chunk in chunks:
        *lines, rests[pod] = (rests[pod] + chunk).split(b"\n")
        if not chunk and rests[pod]:  # the log has ended within a line
            lines, rests[pod] = [rests[pod]], b""
        if lines:
            yield pod, lines
    for pod, rest in rests.items():
        if rest:
            yield pod, [rest]
