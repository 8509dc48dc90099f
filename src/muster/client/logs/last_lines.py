"""The last lines that a crashed container wrote, read from its log.

A pod's status has them only if the container asks for that (`terminationMessagePolicy:
FallbackToLogsOnError`), as the containers of submitted jobs do.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubekit.errors import MusterError
from kubekit.objects.kinds import POD_LOGS, PODS
from kubekit.objects.meta import Key
from muster.client.logs.attempts import at_container, attempt_that_failed, attempts_of_pod
from muster.jobs import error_lines

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.core import ContainerState, ContainerStatus, Pod
    from muster.client.jobs.lookup import FoundJob
    from muster.jobs.view.summary import JobSummary

MAX_LOGS = 3
"""Replicas whose logs are read: a view of a job must not cost a request per replica."""


def summary_with_last_lines(
    client: BlockingClient, found: FoundJob, pods: Sequence[Pod], now: datetime | None = None
) -> JobSummary:
    """The job, with the last log lines of the failure, or of replicas that crashed before."""
    job = found.summary(pods, now)
    if job.over:
        return with_lines_of_failure(client, job)
    silent = (
        (row.name, row.crash.container)
        for row in job.instances
        if row.crash is not None and not row.crash.last_line
    )
    containers = dict(islice(silent, MAX_LOGS))
    if not containers:
        return _with_line_before_recreation(client, job)
    return found.summary([_with_last_line(client, pod, containers) for pod in pods], now)


def with_lines_of_failure(client: BlockingClient, job: JobSummary) -> JobSummary:
    """A failed job with the last lines of the attempt that failed, if the cluster keeps its log."""
    lines = lines_of_failure(client, job)
    if not lines or (job.ending is not None and lines == job.ending.last_lines):
        return job
    reason = f"{job.short_reason}: {error_lines.telling_line(lines)}"
    return replace(job, last_lines=lines, reason=reason)


def lines_of_failure(client: BlockingClient, job: JobSummary) -> tuple[str, ...]:
    """The last lines of the attempt that failed: from the job's status, or from its log."""
    failed = job.failed_attempt
    if job.ending is not None and job.ending.last_lines:
        return job.ending.last_lines
    if failed is None:
        return ()
    log, key = b"", Key(job.namespace, failed.pod_name)
    with suppress(MusterError):
        source = attempt_that_failed(attempts_of_pod(client, key), failed)
        tail = error_lines.LINES_TO_READ
        if source is not None and source.attempt is not None:
            log = b"".join(client.log_of(POD_LOGS, source.attempt.metadata.key, tail=tail))
        elif (pod := client.find(PODS, key)) is not None and pod.metadata.uid == failed.pod_uid:
            # Other clusters keep the logs of the last two attempts, as long as the pod exists.
            rows = pod.status.all_container_statuses
            restarts = sum(row.restart_count for row in rows if row.name == failed.container)
            if restarts - failed.attempt in (0, 1):
                previous = restarts > failed.attempt
                chunks = client.logs(key, container=failed.container, previous=previous, tail=tail)
                log = b"".join(chunks)
    return tuple(error_lines.last_lines(log.decode(errors="replace")))


def _with_line_before_recreation(client: BlockingClient, job: JobSummary) -> JobSummary:
    """A job whose reason is a replica that failed and is recreated: with its last log line.

    The log of the deleted pod is read, if the cluster keeps it and the pod's message did not have
    the line: an attempt that was killed since, with the rest of its gang, has another last line.
    """
    ending = job.ending
    if ending is None or ending.last_lines:
        return job
    pod_name = ending.pod
    text = ""
    with suppress(MusterError):
        attempts = attempts_of_pod(client, Key(job.namespace, pod_name))
        failed = [row for row in at_container(attempts, pod_name) if row.exit_code]
        if failed:
            log = client.log_of(POD_LOGS, failed[-1].metadata.key, tail=error_lines.LINES_TO_READ)
            text = error_lines.last_line(b"".join(log).decode(errors="replace"))
    if not text:
        return job
    return replace(job, reason=f"{job.reason}: {text}")


def _with_last_line(client: BlockingClient, pod: Pod, containers: dict[str, str]) -> Pod:
    """The pod as if its container had asked for the message."""
    name = containers.get(pod.metadata.name)
    if name is None:
        return pod

    def filled(rows: Sequence[ContainerStatus]) -> tuple[ContainerStatus, ...]:
        key = pod.metadata.key
        return tuple(_filled(client, key, row) if row.name == name else row for row in rows)

    status = replace(
        pod.status,
        container_statuses=filled(pod.status.container_statuses),
        init_container_statuses=filled(pod.status.init_container_statuses),
    )
    return replace(pod, status=status)


def _filled(client: BlockingClient, pod: Key, row: ContainerStatus) -> ContainerStatus:
    previous = row.state.terminated is None  # else the attempt that crashed is still the last one
    log = b""
    # Without the right to read logs, or without a log, the rest is still true.
    with suppress(MusterError):
        tail = error_lines.LINES_TO_READ
        log = b"".join(client.logs(pod, container=row.name, previous=previous, tail=tail))
    text = log.decode(errors="replace")
    if previous:
        return replace(row, last_state=_with_message(row.last_state, text))
    return replace(row, state=_with_message(row.state, text))


def _with_message(state: ContainerState, text: str) -> ContainerState:
    ended = state.terminated
    return state if ended is None else replace(state, terminated=replace(ended, message=text))
