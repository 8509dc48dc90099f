"""Reading logs of pods to their end: waiting for the start, and reconnecting after a break.

If a stream ends while the pod still runs, the connection or the cluster was lost. Then the log is
opened again, from a moment before its last line. `ResumableLog` drops the lines that come twice, so
that no line is repeated or lost.
"""

from __future__ import annotations

import itertools
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from muster.api.kinds import PODS
from muster.api.meta import find_condition
from muster.api.pod_logs import POD_LOGS
from muster.client import ignore
from muster.client.jobs import pod_logs
from muster.client.jobs.instances import POLL_SECONDS, WaitNotice
from muster.client.jobs.log_deduplication import ResumableLog
from muster.errors import BadRequest, MusterError, NotFound, ServerError, Unreachable
from muster.jobs.view.instance import instance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from muster.api.core import Pod
    from muster.api.meta import Key
    from muster.client import Notify
    from muster.client.jobs.pod_logs import LogSource
    from muster.kube.blocking_client import BlockingClient


T = TypeVar("T")

RECONNECT_TIMEOUT = 120.0
"""Seconds for which a cluster may be unreachable before a followed log ends with an error."""


class LogOptions(NamedTuple):
    """Which part of the log, and whether with timestamps."""

    follow: bool = False
    container: str = ""
    tail: int | None = None
    since: float | None = None
    timestamps: bool = False
    previous: bool = False


class NotStarted(MusterError):
    """No container of the pod has started."""


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
    empty = True
    try:
        for chunk in read_log(client, source.pod, options, notify):
            empty = False
            yield chunk
    except (NotFound, BadRequest, NotStarted) as error:
        attempts = pod_logs.attempts_of_pod(client, source.pod) if empty else []
        last = pod_logs.last_attempt(attempts, source.pod, options.container)
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
        return _follow(client, pod, options, notify)
    return _read_once(client, pod, options)


def _follow(
    client: BlockingClient, key: Key, options: LogOptions, notify: Notify
) -> Iterator[bytes]:
    log = ResumableLog(timestamps=options.timestamps)
    wait_for_start(client, key, notify)
    pod: Pod | None = client.get(PODS, key)
    while pod is not None:
        ended, uid = pod.finished, pod.metadata.uid
        try:
            # Always with timestamps: ResumableLog recognises repeated lines by them.
            for chunk in _stream(client, pod, key, options, timestamps=True):
                if data := log.feed(chunk):
                    yield data
            lost = False
        except (Unreachable, ServerError) as error:
            notify(f"the log of {key.name} broke off: {error}; waiting for the cluster")
            lost = True
        if ended:
            return
        try:
            pod = _wait_for_restart(client, key, uid, notify, lost=lost)
        except NotFound:
            yield from _unread_lines(client, key, uid, options, log)
            return
        log.reopened()
        options = _resumed(options, log)


def _resumed(options: LogOptions, log: ResumableLog) -> LogOptions:
    """The options that continue a log which was read so far."""
    since = log.since(datetime.now(UTC))
    return options if since is None else options._replace(since=since, tail=None)


def _unread_lines(
    client: BlockingClient, key: Key, uid: str, options: LogOptions, log: ResumableLog
) -> Iterator[bytes]:
    """The last lines of a pod that was deleted before they were read, if the cluster has them."""
    attempts = pod_logs.attempts_of_pod(client, key)
    for attempt in pod_logs.at_container(attempts, key.name, options.container):
        if attempt.pod_uid == uid:
            log.reopened()
            request = _resumed(options, log)._replace(follow=False, container="", timestamps=True)
            for chunk in client.log_of(POD_LOGS, attempt.metadata.key, **request._asdict()):
                if data := log.feed(chunk):
                    yield data


def _read_once(client: BlockingClient, key: Key, options: LogOptions) -> Iterator[bytes]:
    """The log up to now."""
    pod = client.get(PODS, key)
    try:
        yield from _stream(client, pod, key, options, timestamps=options.timestamps)
    except BadRequest as error:
        reason = instance(pod).reason
        if not reason or reason in str(error) or _has_log(pod):
            raise
        hint = f"`arena logs -f {key.name}` waits."
        raise NotStarted(f"{error}: {reason}", hint=hint) from error


def _stream(
    client: BlockingClient, pod: Pod, key: Key, options: LogOptions, *, timestamps: bool
) -> Iterator[bytes]:
    container = options.container or container_to_read(pod)
    request = options._replace(container=container, timestamps=timestamps)
    return client.logs(key, **request._asdict())


def container_to_read(pod: Pod) -> str:
    """The init container that runs or failed, if no container has started; else empty."""
    states = [status.state for status in pod.status.container_statuses]
    if any(state.running or state.terminated for state in states):
        return ""
    for status in pod.status.init_container_statuses:
        ended = status.state.terminated or status.last_state.terminated
        if status.state.running or (ended is not None and ended.exit_code != 0):
            return status.name
    return ""


def _wait_for_restart(
    client: BlockingClient, key: Key, uid: str, notify: Notify, *, lost: bool
) -> Pod | None:
    """The pod once a container runs again; None if the pod has ended or was replaced.

    A pod that ended while the stream was lost is returned too: the end of its log is unread. Raises
    NotFound if it was deleted. With `lost`, the user was told already that the cluster is
    unreachable; else it is reported once.
    """
    deadline = time.monotonic() + RECONNECT_TIMEOUT
    while True:
        try:
            pod = client.get(PODS, key)
        except NotFound:
            if lost:
                notify(f"{key.name} was deleted while the cluster was unreachable")
            raise
        except (Unreachable, ServerError) as error:
            if time.monotonic() > deadline:
                raise
            if not lost:
                notify(f"the cluster is unreachable: {error}; waiting for it")
            lost = True
        else:
            if _has_ended(pod, uid, notify):
                return pod if lost and pod.metadata.uid == uid else None
            statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
            if any(status.state.running for status in statuses):
                return pod
            # The cluster answers: the time limit is for a cluster that does not.
            deadline = time.monotonic() + RECONNECT_TIMEOUT
        time.sleep(POLL_SECONDS)


def _has_ended(pod: Pod, uid: str, notify: Notify) -> bool:
    """Whether the pod of that UID has ended; an end from outside is reported."""
    name = pod.metadata.name
    if pod.metadata.uid != uid:
        notify(f"{name} was replaced; `arena logs -f` follows the new one")
        return True
    disruption = find_condition(pod.status.conditions, "DisruptionTarget")
    if pod.finished and disruption is not None and disruption.status == "True":
        notify(f"{name} was stopped from outside: {disruption.message or disruption.reason}")
    return pod.finished


def wait_for_start(client: BlockingClient, key: Key, notify: Notify = ignore) -> None:
    """Return when a container has started; an unreachable cluster is waited for."""
    notice, watching, deadline = WaitNotice(f"{key.name} to start", notify), False, float("inf")
    while True:
        try:
            if _started(client, key, notice, watching=watching):
                return
            watching, deadline = True, float("inf")
        except (Unreachable, ServerError):
            deadline = min(deadline, time.monotonic() + RECONNECT_TIMEOUT)
            # At the first look an unreachable cluster is an error: the address may be wrong.
            if not watching or time.monotonic() > deadline:
                raise
            time.sleep(POLL_SECONDS)


def _started(client: BlockingClient, key: Key, notice: WaitNotice, *, watching: bool) -> bool:
    """Whether the pod has started; with `watching`, wait for that until the watch ends."""
    fields = f"metadata.name={key.name}"
    listing = client.list(PODS, key.namespace, fields=fields)
    if not listing.items:
        raise NotFound(f"the pod {key.name} was deleted")
    if _has_log(listing.items[0]):
        return True
    notice.because(instance(listing.items[0]).reason)
    if not watching:
        return False
    since = listing.resource_version
    for event in client.watch(PODS, key.namespace, since=since, fields=fields):
        if event.type == "DELETED":
            return False
        if event.type != "BOOKMARK":
            if _has_log(event.object):
                return True
            notice.because(instance(event.object).reason)
    return False


def _has_log(pod: Pod) -> bool:
    """Whether a log exists: of a container, or of an init container that failed."""
    states = [status.state for status in pod.status.container_statuses]
    if pod.finished or any(state.running or state.terminated for state in states):
        return True
    ends = [status.state.terminated for status in pod.status.init_container_statuses]
    return any(end is not None and end.exit_code != 0 for end in ends)


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
