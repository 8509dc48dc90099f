"""The logs of a job, followed until the job ends.

The pods of a job come and go: a suspended job has none, a replica that failed or was evicted gets
a new pod, a job that is scaled up has more replicas. A followed replica continues with its next
pod, and with `follow_all` replicas that are added are followed too.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from kubekit.errors import (
    Aborted,
    BadRequest,
    InvalidJob,
    MusterError,
    NotFound,
    ServerError,
    Unreachable,
)
from kubekit.objects.kinds import PODS
from muster.client import ignore
from muster.client.jobs import lookup
from muster.client.jobs.instances import POLL_SECONDS, WaitNotice
from muster.client.logs import attempts
from muster.client.logs.followed_log import RECONNECT_TIMEOUT, follow_log
from muster.client.logs.interleaved import Interleaved
from muster.client.logs.read_logs import read_attempt
from muster.jobs import names, parse
from muster.jobs.job_state import replica_index

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.core import Pod
    from kubekit.objects.meta import Key
    from muster.client import Notify
    from muster.client.jobs.lookup import FoundJob
    from muster.client.logs.pod_log import LogOptions
    from muster.jobs.view.summary import JobSummary


class JobDeleted(NotFound):
    """The job was deleted while its log was followed."""


class FollowedJob(NamedTuple):
    job: JobSummary
    """As it was when the following began."""
    expires: bool = False
    """Whether it is deleted by itself some time after its end."""


class Replica(NamedTuple):
    role: str
    number: int


def replica_of(pod: Pod) -> Replica:
    return Replica(pod.metadata.labels.get(names.ROLE, ""), replica_index(pod))


def follow_replica(
    client: BlockingClient,
    followed: FollowedJob,
    pod: Key,
    options: LogOptions,
    notify: Notify = ignore,
) -> Iterator[tuple[Key, bytes]]:
    """Chunks of a replica's log, each with its pod, until the job or the replica ends.

    `pod` is the replica's present pod.
    """
    found = client.find(PODS, pod)
    replica = replica_of(found) if found is not None else None
    empty, former = True, ""
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
        successor = _wait_for_successor(client, followed, pod.name, uid, replica, notify)
        if successor is None:
            break
        options, former = options._replace(tail=None, since=None), pod.name
        pod, replica = successor.metadata.key, replica_of(successor)
    if empty:
        rows = attempts.attempts_of_pod(client, pod)
        if last := attempts.last_attempt(rows, pod, options.container):
            for chunk in read_attempt(client, last, options, notify):
                yield pod, chunk


def _wait_for_successor(
    client: BlockingClient,
    followed: FollowedJob,
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
        if summary.over or any(_succeeded(row, uid) for row in own):
            return None
        successors = [row for row in own if row.metadata.uid != uid and not is_deleting(row)]
        if successors:
            return successors[-1]
        if replica is not None and not own and _is_removed(found, replica):
            notify(f"{pod} was removed: the job was scaled")
            return None
        notice.because(summary.reason)
        time.sleep(POLL_SECONDS)


def is_deleting(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def _succeeded(pod: Pod, uid: str) -> bool:
    return pod.metadata.uid == uid and pod.status.phase == "Succeeded"


def _get_job(
    client: BlockingClient, followed: FollowedJob, notify: Notify = ignore
) -> FoundJob | None:
    """The job as it is now; None if it was deleted some time after its end, as it asked for.

    An unreachable cluster is waited for.
    """
    job, deadline = followed.job, time.monotonic() + RECONNECT_TIMEOUT
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
    raise JobDeleted(f"the job {job.name} was deleted meanwhile")


def _is_removed(found: FoundJob, replica: Replica) -> bool:
    try:
        specs = parse.parse_job(found.raw).replica_specs
    except InvalidJob:
        return False
    count = sum(spec.count for spec in specs if spec.role.lower() == replica.role.lower())
    return replica.number >= count


def follow_all(
    connect: Callable[[], BlockingClient],
    followed: FollowedJob,
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
    connect: Callable[[], BlockingClient], followed: FollowedJob, closed: threading.Event
) -> Iterator[Key]:
    """The first pod of each replica, also of replicas that are added, until the job ends."""
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
                if replica_of(pod) not in known and not is_deleting(pod):
                    known.add(replica_of(pod))
                    yield pod.metadata.key
            if found.summary(pods).over:
                return
