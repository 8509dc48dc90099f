"""The log of one pod: up to now, or followed to its end.

A followed log waits for the start of the pod, and reconnects after a break: if a stream ends while
the pod still runs, the connection or the cluster was lost. Then the log is opened again, from a
moment before its last line. `ResumableLog` drops the lines that come twice, so that no line is
repeated or lost. The stream always carries timestamps, by which it knows the lines that were
returned before: all lines with an earlier timestamp than the last one, and as many lines with the
last timestamp as were returned with it. The first line that is new ends this: later lines are
returned whatever their timestamp, since the clock of a node may be set back.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from kubekit.errors import MusterError
from kubekit.objects.kinds import POD_LOGS, PODS
from kubekit.objects.meta import Key, find_condition
from kubekit.request_errors import BadRequest, NotFound, ServerError, Unreachable
from muster.client import Notify, ignore
from muster.client.jobs.instances import POLL_SECONDS, WaitNotice
from muster.client.logs.attempts import announcement, at_container, attempts_of_pod
from muster.jobs.view.instance import instance

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.core import Pod


RECONNECT_TIMEOUT = 120.0
"""Seconds for which a cluster may be unreachable before a followed log ends with an error."""
LONGEST_PAUSE = 5.0
"""Seconds between two attempts to open a log that gives no line."""
_LONGEST_STAMP = 64


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


def read_once(client: BlockingClient, key: Key, options: LogOptions) -> Iterator[bytes]:
    """The log up to now."""
    pod = client.get(PODS, key)
    try:
        yield from open_stream(client, pod, key, options, timestamps=options.timestamps)
    except BadRequest as error:
        reason = instance(pod).reason
        if not reason or reason in str(error) or has_log(pod):
            raise
        hint = f"`arena logs -f {key.name}` waits."
        raise NotStarted(f"{error}: {reason}", hint=hint) from error


def open_stream(
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


def has_log(pod: Pod) -> bool:
    """Whether a log exists: of a container, or of an init container that failed."""
    states = [status.state for status in pod.status.container_statuses]
    if pod.finished or any(state.running or state.terminated for state in states):
        return True
    ends = [status.state.terminated for status in pod.status.init_container_statuses]
    return any(end is not None and end.exit_code != 0 for end in ends)


class Breaks:
    """Streams of one log that gave no line, in a row.

    The API server may answer while the node of the pod does not. Each error is then reported once,
    and the log is opened again after pauses that grow.
    """

    def __init__(self, name: str, notify: Notify) -> None:
        self._name, self._notify = name, notify
        self._empty = 0
        self._reported = ""

    def line_came(self) -> None:
        """The log can be read."""
        self._empty, self._reported = -1, ""

    def report(self, error: MusterError) -> None:
        """Tell the user that the stream broke off, unless they know."""
        if str(error) != self._reported:
            self._notify(f"the log of {self._name} broke off: {error}; waiting for the cluster")
        self._reported = str(error)

    def pause(self) -> None:
        """Wait before the log is opened again: not at all after a stream that gave lines."""
        self._empty += 1
        if self._empty:
            time.sleep(min(LONGEST_PAUSE, POLL_SECONDS * 2.0 ** min(self._empty - 1, 10)))


def follow_log(
    client: BlockingClient, key: Key, options: LogOptions, notify: Notify, *, former: str = ""
) -> Generator[bytes, None, str]:
    """Chunks of the log until the pod has ended; returns the UID of the pod.

    A new attempt at the container is announced. `former` is the name of the replica's former pod,
    if that was followed: then the first attempt in this pod is new as well.
    """
    log, breaks = ResumableLog(timestamps=options.timestamps), Breaks(key.name, notify)
    wait_for_start(client, key, notify)
    pod: Pod | None = client.get(PODS, key)
    uid, restarts = "", -1 if former else _restarts(pod, options.container)
    again = False
    while pod is not None:
        before, restarts = restarts, _restarts(pod, options.container)
        if restarts > before:
            notify(_announcement(client, pod, options.container, former))
        ended, uid = pod.finished, pod.metadata.uid
        try:
            lost = yield from _stream(client, pod, options, log, breaks)
        except NotFound:
            if not again:
                raise
            ended = lost = False  # it was deleted just now, as the next look finds
        if ended:
            break
        breaks.pause()
        try:
            pod = _wait_for_restart(client, pod, options.container, notify, lost=lost)
        except NotFound:
            for attempt, data in _unread_lines(client, key, uid, options, log):
                if attempt > restarts:
                    notify(announcement(key.name, attempt + 1))
                    restarts = attempt
                yield data
            break
        log.reopened()
        options, again = _resumed(options, log), True
    return uid


def _stream(
    client: BlockingClient, pod: Pod, options: LogOptions, log: ResumableLog, breaks: Breaks
) -> Generator[bytes, None, bool]:
    """Chunks of the log until the server ends the stream; returns whether it broke off."""
    try:
        # Always with timestamps: ResumableLog recognises repeated lines by them.
        for chunk in open_stream(client, pod, pod.metadata.key, options, timestamps=True):
            if data := log.feed(chunk):
                breaks.line_came()
                yield data
    except (Unreachable, ServerError) as error:
        breaks.report(error)
        return True
    return False


def _restarts(pod: Pod | None, container: str) -> int:
    """Restarts of the container, by default of the first one."""
    if pod is None:
        return 0
    wanted = container or next((row.name for row in pod.spec.containers), "")
    rows = pod.status.container_statuses
    return sum(row.restart_count for row in rows if row.name == wanted)


def _announcement(client: BlockingClient, pod: Pod, container: str, former: str) -> str:
    """The line between two attempts, with the number that `--attempt` has for it.

    A cluster that keeps no attempts has only the restarts. A launcher is recreated with another
    name.
    """
    name = pod.metadata.name
    rows = at_container(attempts_of_pod(client, pod.metadata.key), name, container)
    attempt = max(len(rows), 1 + _restarts(pod, container))
    if former not in ("", name) and attempt == 1:
        return f"-- {name} follows {former} --"
    return announcement(name, attempt)


def _resumed(options: LogOptions, log: ResumableLog) -> LogOptions:
    """The options that continue a log which was read so far."""
    since = log.since(datetime.now(UTC))
    return options if since is None else options._replace(since=since, tail=None)


def _unread_lines(
    client: BlockingClient, key: Key, uid: str, options: LogOptions, log: ResumableLog
) -> Iterator[tuple[int, bytes]]:
    """The last lines of a pod that was deleted before they were read, if the cluster has them.

    Each chunk has the number of earlier attempts in the pod.
    """
    attempts = attempts_of_pod(client, key)
    for attempt in at_container(attempts, key.name, options.container):
        if attempt.pod_uid == uid:
            log.reopened()
            request = _resumed(options, log)._replace(follow=False, container="", timestamps=True)
            for chunk in client.log_of(POD_LOGS, attempt.metadata.key, **request._asdict()):
                if data := log.feed(chunk):
                    yield attempt.attempt, data


def _wait_for_restart(
    client: BlockingClient, followed: Pod, container: str, notify: Notify, *, lost: bool
) -> Pod | None:
    """The pod once a container runs or ran again; None if the pod was replaced.

    A pod that has ended is returned too: lines that it wrote after the end of the stream are
    unread. Raises NotFound if it was deleted. With `lost`, the user was told already that the
    cluster is unreachable; else it is reported once.
    """
    key, uid = followed.metadata.key, followed.metadata.uid
    restarts = _restarts(followed, container)
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
            restarted = _restarts(pod, container) > restarts
            if _has_ended(pod, uid, notify):
                return pod if pod.metadata.uid == uid else None
            statuses = pod.status.all_container_statuses
            # A short attempt may have ended already.
            if restarted or any(status.state.running for status in statuses):
                return pod
            # The cluster answers: the time limit is for a cluster that does not.
            deadline = time.monotonic() + RECONNECT_TIMEOUT
        time.sleep(POLL_SECONDS)


def _has_ended(pod: Pod, uid: str, notify: Notify) -> bool:
    """Whether the pod of that UID has ended; an end from outside is reported."""
    name = pod.metadata.name
    if pod.metadata.uid != uid:
        notify(f"{name} was replaced by a new pod")
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
    if has_log(listing.items[0]):
        return True
    notice.because(instance(listing.items[0]).reason)
    if not watching:
        return False
    since = listing.resource_version
    for event in client.watch(PODS, key.namespace, since=since, fields=fields):
        if event.type == "DELETED":
            return False
        if event.type != "BOOKMARK":
            if has_log(event.object):
                return True
            notice.because(instance(event.object).reason)
    return False


class ResumableLog:
    """Drops repeated lines: `feed` takes chunks, `reopened` says that a new stream begins.

    Timestamps are removed unless the reader wants them.
    """

    def __init__(self, *, timestamps: bool = False) -> None:
        self._timestamps = timestamps
        self._last = b""
        self._resuming = False
        """No new line was seen since the reconnect."""
        self._same = 0
        """Lines returned that carry the last timestamp."""
        self._skip = 0
        """Lines with the last timestamp that come again after a reconnect."""
        self._head: bytes | None = b""
        """The beginning of a line whose timestamp is not complete; None within a line."""
        self._skipping = False

    def feed(self, chunk: bytes) -> bytes:
        """The part of this chunk that was not returned before."""
        return b"".join(self._pieces(chunk))

    def reopened(self) -> None:
        """A new stream begins: lines that were returned may come once more."""
        self._skip, self._head, self._skipping = self._same, b"", False
        self._resuming = True

    def since(self, now: datetime) -> float | None:
        """Seconds before now at which a new stream must begin; None for the beginning."""
        if not self._last:
            return None
        text = self._last.decode(errors="replace")
        last = datetime.fromisoformat(text[:19]).replace(tzinfo=UTC)  # whole seconds are enough
        # Two seconds more than needed: rounding and clocks must not lose a line, and repeated
        # lines are dropped.
        return max(1.0, (now - last).total_seconds() + 2)

    def _pieces(self, chunk: bytes) -> Iterator[bytes]:
        for piece in _lines(chunk):
            if self._head is None:
                if not self._skipping:
                    yield piece
            else:
                yield self._begin(self._head + piece)
            if piece.endswith(b"\n"):
                self._head = b""

    def _begin(self, line: bytes) -> bytes:
        """The start of a line, held back until its timestamp is complete."""
        stamp, space, rest = line.partition(b" ")
        if not space and not line.endswith(b"\n") and len(line) < _LONGEST_STAMP:
            self._head = line
            return b""
        self._head = None
        if not space or not stamp[:1].isdigit():
            self._skipping = False
            return line  # not a log line but, for example, an error message of the server
        self._skipping = self._is_repeated(stamp)
        if self._skipping:
            return b""
        return line if self._timestamps else rest

    def _is_repeated(self, stamp: bytes) -> bool:
        if self._resuming:
            if stamp < self._last:
                return True
            if stamp == self._last and self._skip:
                self._skip -= 1
                return True
            self._resuming = False
        self._same = self._same + 1 if stamp == self._last else 1
        self._last = stamp
        return False


def _lines(chunk: bytes) -> list[bytes]:
    """Split at line feeds alone: a carriage return belongs to a progress bar."""
    parts = chunk.split(b"\n")
    lines = [part + b"\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines
