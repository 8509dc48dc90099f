"""Reading one pod's log to its end: waiting for its start, and going on after a break.

Used by `logs` and `chorus`. A stream that ends while the pod still runs means that the cluster went
away, or the connection did: then it is opened again, and nothing is printed twice or left out.

One followed log, exactly once: what to print of a stream that may break and begin again.

Pure bytes in, bytes out; `logs` feeds it. The server is always asked for timestamps, since only
they tell, after a reconnect, which lines were printed before; they are taken off again unless the
reader wants them.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from muster.api.kinds import PODS
from muster.api.meta import find_condition
from muster.cli.show.messages import note
from muster.client.jobs import lookup
from muster.errors import BadRequest, MusterError, NotFound, ServerError, Unreachable
from muster.jobs.summary import instance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from muster.api.core import Pod
    from muster.api.meta import Key
    from muster.jobs.summary import JobSummary
    from muster.kube.blocking_client import BlockingClient


_LONGEST_STAMP = 64


class ResumableLog:
    """Feed it chunks; call `again` when the stream is opened anew."""

    def __init__(self, *, timestamps: bool = False) -> None:
        self._timestamps = timestamps
        self._last = b""
        self._same = 0
        """Lines printed that carry the last timestamp."""
        self._skip = 0
        """Lines with the last timestamp that come again after a reconnect."""
        self._head: bytes | None = b""
        """The beginning of a line whose timestamp is not complete; None within a line."""
        self._silent = False

    def feed(self, chunk: bytes) -> bytes:
        """What of this chunk is to be printed."""
        return b"".join(self._pieces(chunk))

    def again(self) -> None:
        """The stream begins anew: lines that were printed may come once more."""
        self._skip, self._head, self._silent = self._same, b"", False

    def since(self, now: datetime) -> float | None:
        """How many seconds back a new stream must begin; None for the beginning."""
        if not self._last:
            return None
        return max(1.0, (now - _moment(self._last)).total_seconds() + 2)

    def _pieces(self, chunk: bytes) -> Iterator[bytes]:
        for piece in _lines(chunk):
            if self._head is None:
                if not self._silent:
                    yield piece
            else:
                yield self._begin(self._head + piece)
            if piece.endswith(b"\n"):
                self._head = b""

    def _begin(self, line: bytes) -> bytes:
        """The start of a line: hold it until its timestamp is there, then decide."""
        stamp, space, rest = line.partition(b" ")
        if not space and not line.endswith(b"\n") and len(line) < _LONGEST_STAMP:
            self._head = line
            return b""
        self._head = None
        if not space or not stamp[:1].isdigit():
            self._silent = False
            return line  # not a line of a log: an error of the server, say
        self._silent = self._seen(stamp)
        if self._silent:
            return b""
        return line if self._timestamps else rest

    def _seen(self, stamp: bytes) -> bool:
        if stamp < self._last:
            return True
        if stamp > self._last:
            self._last, self._same, self._skip = stamp, 1, 0
            return False
        if self._skip:
            self._skip -= 1
            return True
        self._same += 1
        return False


def _lines(chunk: bytes) -> list[bytes]:
    """Split at line feeds alone: a carriage return belongs to a progress bar."""
    parts = chunk.split(b"\n")
    lines = [part + b"\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def _moment(stamp: bytes) -> datetime:
    """A timestamp with up to nanoseconds, of which Python keeps microseconds."""
    text = stamp.decode(errors="replace")
    return datetime.fromisoformat(text[:19]).replace(tzinfo=UTC)


LOOK_AGAIN = 0.3
PATIENCE = 120.0
"""How long a cluster may be away before a follower gives up, in seconds."""


class LogOptions(NamedTuple):
    """Which part of the log, and how."""

    follow: bool = False
    container: str = ""
    tail: int | None = None
    since: float | None = None
    timestamps: bool = False
    previous: bool = False


def read_log(
    client: BlockingClient, pod: Key, wanted: LogOptions, write: Callable[[bytes], object]
) -> None:
    """Write the pod's log; with `follow`, until the pod has ended."""
    if not wanted.follow:
        _once(client, pod, wanted, write)
        return
    tail = ResumableLog(timestamps=wanted.timestamps)
    wait_for_start(client, pod)
    seen: Pod | None = client.get(PODS, pod)
    while seen is not None:
        try:
            for chunk in _stream(client, pod, _with_container(seen, wanted), timestamps=True):
                if data := tail.feed(chunk):
                    write(data)
            away = False
        except (Unreachable, ServerError) as error:
            note(f"the log of {pod.name} broke off: {error}; waiting for the cluster")
            away = True
        seen = _wait_for_restart(client, pod, seen.metadata.uid, away=away)
        tail.again()
        since = tail.since(datetime.now(UTC))
        if since is not None:
            wanted = wanted._replace(since=since, tail=None)


def _once(
    client: BlockingClient, key: Key, wanted: LogOptions, write: Callable[[bytes], object]
) -> None:
    """The log as it is now."""
    pod = client.get(PODS, key)
    try:
        for chunk in _stream(
            client, key, _with_container(pod, wanted), timestamps=wanted.timestamps
        ):
            write(chunk)
    except BadRequest as error:
        why = instance(pod).reason
        if not why or why in str(error) or _started(pod):
            raise
        raise MusterError(f"{error}: {why}", hint=f"`arena logs -f {key.name}` waits.") from error


def _with_container(pod: Pod, wanted: LogOptions) -> LogOptions:
    return wanted if wanted.container else wanted._replace(container=container_to_read(pod))


def _stream(
    client: BlockingClient, pod: Key, wanted: LogOptions, *, timestamps: bool
) -> Iterator[bytes]:
    return client.logs(
        pod,
        container=wanted.container,
        follow=wanted.follow,
        tail=wanted.tail,
        since=wanted.since,
        timestamps=timestamps,
        previous=wanted.previous,
    )


def container_to_read(pod: Pod) -> str:
    """The init container that works, or that failed, as long as the others wait; else none."""
    states = [status.state for status in pod.status.container_statuses]
    if any(state.running or state.terminated for state in states):
        return ""
    for status in pod.status.init_container_statuses:
        ended = status.state.terminated or status.last_state.terminated
        if status.state.running or (ended is not None and ended.exit_code != 0):
            return status.name
    return ""


def _wait_for_restart(client: BlockingClient, key: Key, uid: str, *, away: bool) -> Pod | None:
    """The pod once it runs again, None if it has ended or is another.

    Waits while the cluster is away, and while the pod is between two runs. An end that was not the
    program's own is told.
    """
    end = time.monotonic() + PATIENCE
    while True:
        try:
            pod = client.get(PODS, key)
        except NotFound:
            if away:
                note(f"the cluster was away, and {key.name} is gone since")
            return None
        except (Unreachable, ServerError) as error:
            if time.monotonic() > end:
                raise
            if not away:
                note(f"the cluster went away: {error}; waiting for it")
            away = True
        else:
            if _has_ended(pod, uid):
                return None
            rows = (*pod.status.init_container_statuses, *pod.status.container_statuses)
            if any(row.state.running for row in rows):
                return pod
            end = time.monotonic() + PATIENCE
        time.sleep(LOOK_AGAIN)


def _has_ended(pod: Pod, uid: str) -> bool:
    """Whether that pod has ended; an end that was not its own is told."""
    name = pod.metadata.name
    if pod.metadata.uid != uid:
        note(f"{name} was replaced; `arena logs -f` follows the new one")
        return True
    taken = find_condition(pod.status.conditions, "DisruptionTarget")
    if pod.finished and taken is not None and taken.status == "True":
        note(f"{name} was ended from outside: {taken.message or taken.reason}")
    return pod.finished


class _WaitNotice:
    """Says what is waited for and why, and again only when there is another reason."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._why: str | None = None

    def because(self, why: str) -> None:
        if self._why is None or (why and why != self._why):
            note(f"waiting for {self._what}: {why}" if why else f"waiting for {self._what} …")
            self._why = why


def wait_for_instances(client: BlockingClient, job: JobSummary, *, follow: bool) -> JobSummary:
    """The job once it has pods; an error if it never will, or if nobody wants to wait."""
    waiting = _WaitNotice(f"the pods of {job.name}")
    while not job.instances:
        if job.over:
            ended = f"the job {job.name} has {job.status.lower()} and has no pods"
            raise MusterError(
                f"{ended}{job.because}",
                hint="`arena submit … --clean-task-policy=None` keeps a job's pods and their logs.",
            )
        if not follow:
            raise MusterError(
                f"the job {job.name} has no instances yet{job.because}",
                hint=f"`arena logs -f {job.name}` waits.",
            )
        waiting.because(job.reason)
        time.sleep(LOOK_AGAIN)
        job = lookup.get_view(client, job.key, job.trainer)
    return job


def wait_for_chief(client: BlockingClient, job: JobSummary, *, follow: bool) -> JobSummary:
    """The job once it has the instance whose log is its own; as it is if that never comes."""
    waiting = _WaitNotice(f"the {job.lead} of {job.name}")
    while job.lead and job.chief is None and not job.over:
        if not follow:
            others = ", ".join(row.name for row in job.instances)
            raise MusterError(
                f"the {job.lead} of {job.name} is not there yet{job.because}",
                hint=f"`arena logs -f {job.name}` waits for it; "
                f"-i reads another instance: {others}",
            )
        waiting.because(job.reason)
        time.sleep(LOOK_AGAIN)
        job = lookup.get_view(client, job.key, job.trainer)
    return job


def wait_for_start(client: BlockingClient, key: Key) -> None:
    """Return when a container runs or ran; a cluster that is away is waited for."""
    waiting, watching, end = _WaitNotice(f"{key.name} to start"), False, float("inf")
    while True:
        try:
            if _seen_started(client, key, waiting, watching=watching):
                return
            watching, end = True, float("inf")
        except (Unreachable, ServerError):
            end = min(end, time.monotonic() + PATIENCE)
            if not watching or time.monotonic() > end:
                raise
            time.sleep(LOOK_AGAIN)


def _seen_started(
    client: BlockingClient, key: Key, waiting: _WaitNotice, *, watching: bool
) -> bool:
    """Whether it has started; with `watching`, look on until the server ends the watch."""
    fields = f"metadata.name={key.name}"
    listing = client.list(PODS, key.namespace, fields=fields)
    if not listing.items:
        raise NotFound(f"the pod {key.name} is gone", status=404)
    if _started(listing.items[0]):
        return True
    waiting.because(instance(listing.items[0]).reason)
    if not watching:
        return False
    since = listing.resource_version
    for event in client.watch(PODS, key.namespace, since=since, fields=fields):
        if event.type == "DELETED":
            return False
        if event.type != "BOOKMARK":
            if _started(event.object):
                return True
            waiting.because(instance(event.object).reason)
    return False


def _started(pod: Pod) -> bool:
    """Whether there is a log to read: of the containers, or of an init container that failed."""
    states = [status.state for status in pod.status.container_statuses]
    if pod.finished or any(state.running or state.terminated for state in states):
        return True
    ends = [status.state.terminated for status in pod.status.init_container_statuses]
    return any(end is not None and end.exit_code != 0 for end in ends)
