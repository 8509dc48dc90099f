"""Choosing the logs that `arena logs` reads: of pods that exist, of pods that are gone, of earlier
attempts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kubekit.errors import MusterError, UsageError
from kubekit.objects.core import Pod, PodLog
from kubekit.objects.meta import Key
from kubekit.request_errors import NotFound
from muster.client import Notify, ignore
from muster.client.jobs import instances, lookup
from muster.client.logs.attempts import (
    LogSource,
    at_container,
    attempt_that_failed,
    attempts_of_job,
    attempts_of_pod,
    pods_that_are_gone,
)
from muster.jobs import parse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kubekit.client.blocking_client import BlockingClient
    from muster.client.jobs.lookup import FoundJob
    from muster.client.logs.pod_log import LogOptions
    from muster.jobs.view.summary import JobSummary


class WantedLogs(NamedTuple):
    """Which logs of a job or a pod the user asks for."""

    options: LogOptions
    instance: str = ""
    everyone: bool = False
    attempt: int | None = None
    """The number of an attempt; 1 is the first."""

    @property
    def earlier(self) -> bool:
        """Whether an attempt is asked for that may not be the last one."""
        return self.options.previous or self.attempt is not None


class FoundLogs(NamedTuple):
    sources: list[LogSource]
    job: JobSummary | None = None
    expires: bool = False
    """Whether the job is deleted by itself some time after its end."""

    @property
    def can_grow(self) -> bool:
        """Whether the job goes on, so that there may be more to follow."""
        ended = any(source.attempt is not None for source in self.sources)
        return self.job is not None and not self.job.over and not ended


def find_logs(
    client: BlockingClient, key: Key, type_: str, wanted: WantedLogs, notify: Notify = ignore
) -> FoundLogs:
    """The logs of the job of that name, else of the pod, which may be gone."""
    try:
        job_or_pod = lookup.get_job_or_pod(client, key, type_)
    except NotFound:
        parsed = lookup.parse_name(key.name, type_)
        pod = Key(key.namespace, parsed.name)
        attempts = [] if parsed.must_be == "job" else attempts_of_pod(client, pod)
        if not attempts:
            raise
        return FoundLogs([_source(pod, "", attempts, wanted)])
    if isinstance(job_or_pod, Pod):
        pod = job_or_pod.metadata.key
        attempts = attempts_of_pod(client, pod) if wanted.earlier else []
        return FoundLogs([_source(pod, job_or_pod.metadata.uid, attempts, wanted)])
    return _of_job(client, job_or_pod, wanted, notify)


def _of_job(
    client: BlockingClient, found: FoundJob, wanted: WantedLogs, notify: Notify
) -> FoundLogs:
    pods = found.pods(client)
    existing = {pod.metadata.name: pod for pod in pods}
    job, attempts = found.summary(pods), []
    if _needs_attempts(job, wanted):
        attempts = attempts_of_job(client, found.key, found.uid)
    if job.over or not wanted.options.follow:
        gone = pods_that_are_gone(attempts, existing)
        job = found.summary([*pods, *gone])
    try:
        pod_names = _instances(client, job, wanted, notify)
    except MusterError:
        if job.over or not wanted.options.follow:
            raise
        # The job may have ended while it was waited for, and its pods may be gone.
        found = lookup.get_job(client, found.key, found.kind.kind)
        if not found.summary([]).over or not attempts_of_job(client, found.key, found.uid):
            raise
        return _of_job(client, found, wanted, notify)
    if wanted.options.follow and not job.over:
        # Its pods may have been created while they were waited for.
        existing = {pod.metadata.name: pod for pod in found.pods(client)}
    sources = _sources_of_job(job, pod_names, existing, attempts, wanted, notify)
    parsed = parse.parse_valid(found.raw)
    expires = parsed is not None and parsed.policy.ttl_seconds is not None
    return FoundLogs(sources, job, expires)


def _sources_of_job(
    job: JobSummary,
    pod_names: Sequence[str],
    existing: Mapping[str, Pod],
    attempts: Sequence[PodLog],
    wanted: WantedLogs,
    notify: Notify,
) -> list[LogSource]:
    sources = []
    for name in pod_names:
        try:
            sources.append(_source_of_job(job, name, existing.get(name), attempts, wanted))
        except NoSuchAttempt as error:
            if not wanted.everyone:
                raise
            notify(str(error))
    if not sources:
        raise MusterError(f"no replica of {job.name} has such an attempt")
    return sources


def _source_of_job(
    job: JobSummary, name: str, pod: Pod | None, attempts: Sequence[PodLog], wanted: WantedLogs
) -> LogSource:
    """The log to read of one replica.

    Of the replica whose failure ended the job, it is the attempt that failed: the node may have
    started another one, which the end of the job killed.
    """
    failed, container = job.failed_attempt, wanted.options.container
    key, uid = Key(job.namespace, name), pod.metadata.uid if pod is not None else ""
    restarts = next((row.restarts for row in job.instances if row.name == name), 0)
    if failed is None or failed.pod_name != name or container not in ("", failed.container):
        return _source(key, uid, attempts, wanted, restarts)
    source = None if wanted.earlier else attempt_that_failed(attempts, failed)
    if source is not None and source.number < source.attempts:
        return source
    if source is None and pod is not None and not wanted.earlier and uid == failed.pod_uid:
        # Other clusters keep no attempts but the last two.
        rows = pod.status.all_container_statuses
        counts = [row.restart_count for row in rows if row.name == failed.container]
        return LogSource(key, previous=failed.attempt + 1 in counts)
    return _source(key, uid, attempts, wanted, restarts)


def _needs_attempts(job: JobSummary, wanted: WantedLogs) -> bool:
    """Whether logs of deleted pods or of earlier attempts are needed."""
    if wanted.everyone or wanted.earlier or job.failed_attempt is not None:
        return True
    if wanted.instance:
        return instances.find_instance(job, wanted.instance) is None
    return job.chief is None


def _instances(
    client: BlockingClient, job: JobSummary, wanted: WantedLogs, notify: Notify
) -> list[str]:
    """The names of the pods to read: all, the named pod, or the pod whose log is the job's."""
    follow = wanted.options.follow
    if not (wanted.everyone or wanted.instance):
        return [instances.instance_to_read(client, job, follow=follow, notify=notify).name]
    job = instances.wait_for_instances(client, job, follow=follow, notify=notify)
    if wanted.instance:
        return [instances.named_instance(job, wanted.instance).name]
    return [row.name for row in job.instances]


class NoSuchAttempt(UsageError):
    """The pod has no attempt of that number, or none before the last one."""


def _source(
    pod: Key, uid: str, attempts: Sequence[PodLog], wanted: WantedLogs, restarts: int = 0
) -> LogSource:
    """The log to read of the pod; `uid` is empty if it does not exist."""
    rows = at_container(attempts, pod.name, wanted.options.container)
    count = len(rows)
    if not wanted.earlier:
        return LogSource(pod) if uid or not rows else LogSource(pod, rows[-1], count, count)
    if wanted.attempt is not None:
        number = wanted.attempt
    elif not rows:
        return LogSource(pod)  # the cluster keeps no attempts: it may have the previous one
    else:
        # A pod that waits to start again has no attempt yet.
        number = count if uid and rows[-1].pod_uid != uid else count - 1
    if not 1 <= number <= count:
        # A replica that is stopped before its container starts leaves no log.
        previous = "has no log from before its restart" if restarts else "was not restarted"
        problem = f"has no attempt {number}" if wanted.attempt else previous
        logs = f"The cluster has the logs of {count} attempt{'' if count == 1 else 's'}."
        raise NoSuchAttempt(f"{pod.name} {problem}", hint=logs if count else "")
    return LogSource(pod, rows[number - 1], number, count)
