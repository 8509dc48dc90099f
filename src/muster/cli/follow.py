"""Reading one pod's log to its end: waiting for its start, and going on after a break.

Used by `logs` and `chorus`. A stream that ends while the pod still runs means that the cluster went
away, or the connection did: then it is opened again, and nothing is printed twice or left out.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from muster.api.kinds import PODS
from muster.api.meta import condition
from muster.cli import find
from muster.cli.output import note
from muster.cli.tail import Tail
from muster.errors import BadRequest, MusterError, NotFound, ServerError, Unreachable
from muster.jobs.view import instance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from muster.api.core import Pod
    from muster.api.meta import Key
    from muster.jobs.view import View
    from muster.kube.blocking import BlockingClient

LOOK_AGAIN = 0.3
PATIENCE = 120.0
"""How long a cluster may be away before a follower gives up, in seconds."""


class Wanted(NamedTuple):
    """Which part of the log, and how."""

    follow: bool = False
    container: str = ""
    tail: int | None = None
    since: float | None = None
    timestamps: bool = False
    previous: bool = False


def one(client: BlockingClient, pod: Key, wanted: Wanted, write: Callable[[bytes], object]) -> None:
    """Write the pod's log; with `follow`, until the pod has ended."""
    if not wanted.follow:
        _once(client, pod, wanted, write)
        return
    tail = Tail(timestamps=wanted.timestamps)
    wait_started(client, pod)
    seen: Pod | None = client.get(PODS, pod)
    while seen is not None:
        try:
            for chunk in _stream(client, pod, _speaking(seen, wanted), timestamps=True):
                if data := tail.feed(chunk):
                    write(data)
            away = False
        except (Unreachable, ServerError) as error:
            note(f"the log of {pod.name} broke off: {error}; waiting for the cluster")
            away = True
        seen = _goes_on(client, pod, seen.metadata.uid, away=away)
        tail.again()
        since = tail.since(datetime.now(UTC))
        if since is not None:
            wanted = wanted._replace(since=since, tail=None)


def _once(
    client: BlockingClient, key: Key, wanted: Wanted, write: Callable[[bytes], object]
) -> None:
    """The log as it is now."""
    pod = client.get(PODS, key)
    try:
        for chunk in _stream(client, key, _speaking(pod, wanted), timestamps=wanted.timestamps):
            write(chunk)
    except BadRequest as error:
        why = instance(pod).reason
        if not why or why in str(error) or _started(pod):
            raise
        raise MusterError(f"{error}: {why}", hint=f"`arena logs -f {key.name}` waits.") from error


def _speaking(pod: Pod, wanted: Wanted) -> Wanted:
    return wanted if wanted.container else wanted._replace(container=speaking(pod))


def _stream(
    client: BlockingClient, pod: Key, wanted: Wanted, *, timestamps: bool
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


def speaking(pod: Pod) -> str:
    """The init container that works, or that failed, as long as the others wait; else none."""
    states = [status.state for status in pod.status.container_statuses]
    if any(state.running or state.terminated for state in states):
        return ""
    for status in pod.status.init_container_statuses:
        ended = status.state.terminated or status.last_state.terminated
        if status.state.running or (ended is not None and ended.exit_code != 0):
            return status.name
    return ""


def _goes_on(client: BlockingClient, key: Key, uid: str, *, away: bool) -> Pod | None:
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
            if _over(pod, uid):
                return None
            rows = (*pod.status.init_container_statuses, *pod.status.container_statuses)
            if any(row.state.running for row in rows):
                return pod
            end = time.monotonic() + PATIENCE
        time.sleep(LOOK_AGAIN)


def _over(pod: Pod, uid: str) -> bool:
    """Whether that pod has ended; an end that was not its own is told."""
    name = pod.metadata.name
    if pod.metadata.uid != uid:
        note(f"{name} was replaced; `arena logs -f` follows the new one")
        return True
    taken = condition(pod.status.conditions, "DisruptionTarget")
    if pod.finished and taken is not None and taken.status == "True":
        note(f"{name} was ended from outside: {taken.message or taken.reason}")
    return pod.finished


class _Waiting:
    """Says what is waited for and why, and again only when there is another reason."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._why: str | None = None

    def because(self, why: str) -> None:
        if self._why is None or (why and why != self._why):
            note(f"waiting for {self._what}: {why}" if why else f"waiting for {self._what} …")
            self._why = why


def with_instances(client: BlockingClient, job: View, *, follow: bool) -> View:
    """The job once it has pods; an error if it never will, or if nobody wants to wait."""
    waiting = _Waiting(f"the pods of {job.name}")
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
        job = find.one(client, job.key, job.trainer)
    return job


def with_chief(client: BlockingClient, job: View, *, follow: bool) -> View:
    """The job once it has the instance whose log is its own; as it is if that never comes."""
    waiting = _Waiting(f"the {job.lead} of {job.name}")
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
        job = find.one(client, job.key, job.trainer)
    return job


def wait_started(client: BlockingClient, key: Key) -> None:
    """Return when a container runs or ran; a cluster that is away is waited for."""
    waiting, watching, end = _Waiting(f"{key.name} to start"), False, float("inf")
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


def _seen_started(client: BlockingClient, key: Key, waiting: _Waiting, *, watching: bool) -> bool:
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
