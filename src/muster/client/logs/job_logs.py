"""The logs that were chosen, read or followed to their end: of one replica, or of all at once.

The pods of a job come and go: a suspended job has none, a replica that failed or was evicted gets
a new pod, a job that is scaled up has more replicas. A followed replica continues with its next
pod, and with `follow_all` replicas that are added are followed too. All ends with the job.

Logs that were chosen are those of pods, or of attempts that the cluster keeps.
"""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from kubekit.errors import MusterError
from kubekit.objects.kinds import POD_LOGS, PODS
from kubekit.request_errors import Aborted, BadRequest, NotFound, ServerError, Unreachable
from muster.client import Notify, ignore
from muster.client.jobs import lookup
from muster.client.jobs.instances import POLL_SECONDS, WaitNotice
from muster.client.logs import attempts
from muster.client.logs.pod_log import RECONNECT_TIMEOUT, NotStarted, follow_log, read_once
from muster.jobs import names, parse
from muster.jobs.job_state import replica_index

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.core import Pod
    from kubekit.objects.meta import Key
    from muster.client.jobs.lookup import FoundJob
    from muster.client.logs.attempts import LogSource
    from muster.client.logs.log_choice import FoundLogs
    from muster.client.logs.pod_log import LogOptions


T = TypeVar("T")
_STARTED, _ENDED = object(), object()


def read_one(
    client: BlockingClient, logs: FoundLogs, options: LogOptions, notify: Notify = ignore
) -> Iterator[tuple[Key, bytes]]:
    """Chunks of the first log, each with its pod; a followed job is followed until it ends."""
    source, job = logs.sources[0], logs.job
    if job is None or not options.follow or not logs.can_grow:
        return ((source.pod, c) for c in read_source(client, source, options, notify))
    return follow_replica(client, logs, source.pod, options, notify)


def read_all(
    connect: Callable[[], BlockingClient],
    logs: FoundLogs,
    options: LogOptions,
    notify: Notify = ignore,
    warn: Notify = ignore,
) -> Iterator[tuple[Key, bytes]]:
    """Chunks of all logs, each with its pod; an empty chunk ends a log."""
    if logs.job is None or not options.follow or not logs.can_grow:
        return read_many(connect, logs.sources, options, notify, warn)
    return follow_all(connect, logs, options, notify, warn)


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


class Interleaved(Generic[T]):
    """The items of several streams as they come, until all have ended; each has its own thread.

    The iterable of streams is read by a thread too: a stream may be added while others are read.
    """

    def __init__(self) -> None:
        self.closed = threading.Event()
        """Set when the reader has left."""
        # Bounded, so that a slow reader slows the streams.
        self._messages: queue.Queue[Any] = queue.Queue(maxsize=256)

    def read(self, streams: Iterable[Iterator[T]]) -> Iterator[T]:
        threading.Thread(target=self._start_all, args=(streams,), daemon=True).start()
        running = 1  # the thread that starts the others
        try:
            while running:
                message = self._messages.get()
                if message is _STARTED:
                    running += 1
                elif message is _ENDED:
                    running -= 1
                else:
                    yield message
        finally:
            self.closed.set()

    def _start_all(self, streams: Iterable[Iterator[T]]) -> None:
        try:
            for stream in streams:
                if self.closed.is_set():
                    break
                self.send(_STARTED)
                threading.Thread(target=self._forward, args=(stream,), daemon=True).start()
        finally:
            self.send(_ENDED)

    def _forward(self, stream: Iterator[T]) -> None:
        try:
            for item in stream:
                self.send(item)
                if self.closed.is_set():
                    break
        finally:
            self.send(_ENDED)

    def send(self, message: T | object) -> None:
        """Add an item to those that are read; a stream may do so between its own."""
        while not self.closed.is_set():
            try:
                self._messages.put(message, timeout=0.2)
            except queue.Full:
                continue
            break


class JobDeleted(NotFound):
    """The job was deleted while its log was followed."""


class Replica(NamedTuple):
    role: str
    number: int


def replica_of(pod: Pod) -> Replica:
    return Replica(pod.metadata.labels.get(names.ROLE, ""), replica_index(pod))


def follow_replica(
    client: BlockingClient,
    followed: FoundLogs,
    pod: Key,
    options: LogOptions,
    notify: Notify = ignore,
) -> Iterator[tuple[Key, bytes]]:
    """Chunks of a replica's log, each with its pod, until the job or the replica ends.

    `pod` is the replica's present pod.
    """
    found = client.find(PODS, pod)
    replica = replica_of(found) if found is not None else None
    empty, former, read = True, "", ""
    while True:
        uid = ""
        log = follow_log(client, pod, options, notify, former=former)
        try:
            while True:
                chunk = next(log)
                empty = False
                yield pod, chunk
        except StopIteration as end:
            uid = end.value
        except NotFound:
            pass  # deleted before it started
        except BadRequest:
            _get_job(client, followed)  # the job may be gone, and its logs with it
            raise
        read = uid or read
        successor = _wait_for_successor(client, followed, pod.name, uid, replica, notify)
        if successor is None:
            break
        options, former = options._replace(tail=None, since=None), pod.name
        pod, replica = successor.metadata.key, replica_of(successor)
    for chunk in _unread_attempts(client, pod, options, notify, read="" if empty else read):
        yield pod, chunk


def _unread_attempts(
    client: BlockingClient, pod: Key, options: LogOptions, notify: Notify, *, read: str
) -> Iterator[bytes]:
    """The last attempt, if nothing was read; else those after the pod with the UID `read`.

    A pod may come, fail and be gone with the end of the job, between two looks at the job.
    """
    rows = attempts.attempts_of_pod(client, pod)
    if not read:
        if last := attempts.last_attempt(rows, pod, options.container):
            yield from read_attempt(client, last, options, notify)
        return
    for number, later in attempts.attempts_after(rows, pod, read, options.container):
        notify(attempts.announcement(pod.name, number))
        yield from read_attempt(client, later, options._replace(tail=None, since=None), notify)


def _wait_for_successor(
    client: BlockingClient,
    followed: FoundLogs,
    pod: str,
    uid: str,
    replica: Replica | None,
    notify: Notify,
) -> Pod | None:
    """The next pod of the replica; None once it succeeded, was removed, or the job has ended."""
    notice = WaitNotice(f"the next pod of {pod}", notify)
    while True:
        found = _get_job(client, followed, notify)
        if found is None:
            return None
        pods = found.pods(client)
        summary = found.summary(pods)
        own = [row for row in pods if row.metadata.name == pod or replica_of(row) == replica]
        ended = {row.status.phase for row in own if row.metadata.uid == uid}
        if summary.over or "Succeeded" in ended:
            return None
        successors = [
            row
            for row in own
            if row.metadata.uid != uid and row.metadata.deletion_timestamp is None
        ]
        if successors:
            return successors[-1]
        if replica is not None and not own and _is_removed(found, replica):
            notify(f"{pod} was removed: the job was scaled")
            return None
        notice.because(summary.reason)
        time.sleep(POLL_SECONDS)


def _get_job(
    client: BlockingClient, followed: FoundLogs, notify: Notify = ignore
) -> FoundJob | None:
    """The job as it is now; None if it was deleted some time after its end, as it asked for.

    An unreachable cluster is waited for.
    """
    job, deadline = followed.job, time.monotonic() + RECONNECT_TIMEOUT
    assert job is not None
    while True:
        try:
            found = lookup.get_job(client, job.key, job.trainer)
        except NotFound:
            break
        except (Unreachable, ServerError) as error:
            if time.monotonic() > deadline:
                raise
            notify(f"the cluster is unreachable: {error}; waiting for it")
            notify = ignore  # once is enough
            time.sleep(POLL_SECONDS)
        else:
            if found.uid == job.uid:
                return found
            break
    if followed.expires:
        return None
    raise JobDeleted(f"the job {job.name} was deleted")


def _is_removed(found: FoundJob, replica: Replica) -> bool:
    parsed = parse.parse_valid(found.raw)
    if parsed is None:
        return False
    counts = {spec.role.lower(): spec.count for spec in parsed.replica_specs}
    return replica.number >= counts.get(replica.role.lower(), 0)


def follow_all(
    connect: Callable[[], BlockingClient],
    followed: FoundLogs,
    options: LogOptions,
    notify: Notify = ignore,
    warn: Notify = ignore,
) -> Iterator[tuple[Key, bytes]]:
    """Chunks of the logs of all replicas as they come; an empty chunk ends the log of a pod."""
    deletions: list[JobDeleted] = []
    streams = Interleaved[tuple["Key", bytes] | str]()

    def follow(first: Key) -> Iterator[tuple[Key, bytes]]:
        pod = first
        try:
            with connect() as client:
                # Sentences are read in the order of the lines.
                for pod, chunk in follow_replica(client, followed, first, options, streams.send):
                    yield pod, chunk
            yield pod, b""
        except JobDeleted as error:
            deletions.append(error)
        except MusterError as error:
            warn(f"{pod.name}: {error}")

    replicas = _replicas(connect, followed, streams.closed)
    for item in streams.read(follow(pod) for pod in replicas):
        if isinstance(item, str):
            notify(item)
        else:
            yield item
    if deletions:
        raise deletions[0]


def _replicas(
    connect: Callable[[], BlockingClient], followed: FoundLogs, closed: threading.Event
) -> Iterator[Key]:
    """The first pod of each replica, added ones included, until the job ends."""
    known: set[Replica] = set()
    with connect() as client:
        while not closed.wait(POLL_SECONDS if known else 0):
            try:
                found = _get_job(client, followed)
            except (NotFound, Aborted):
                return  # each replica that is followed says so
            if found is None:
                return
            pods = found.pods(client)
            for pod in pods:
                if replica_of(pod) not in known and pod.metadata.deletion_timestamp is None:
                    known.add(replica_of(pod))
                    yield pod.metadata.key
            if found.summary(pods).over:
                return
