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
from kubekit.objects.kinds import PODS
from kubekit.objects.meta import Key
from kubekit.objects.pod_logs import POD_LOGS
from muster.client.logs.attempts import at_container, attempt_that_failed, attempts_of_pod
from muster.jobs import log_tail, names, pod_status
from muster.jobs.job_status import decode_status

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
        return _with_line_before_recreation(client, found, job)
    return found.summary([_with_last_line(client, pod, containers) for pod in pods], now)


def with_lines_of_failure(client: BlockingClient, job: JobSummary) -> JobSummary:
    """A failed job with the last lines of the attempt that failed, if the cluster keeps its log."""
    if job.failed_attempt is None or job.last_lines:
        return job
    lines = lines_of_failure(client, job)
    reason, error = job.reason.removesuffix("."), log_tail.telling_line(lines)
    if not lines or reason.endswith(f": {error}"):
        return job
    return replace(job, last_lines=lines, reason=f"{reason}: {error}")


def lines_of_failure(client: BlockingClient, job: JobSummary) -> tuple[str, ...]:
    """The last lines of the attempt that failed: from the job's status, or from its log."""
    failed = job.failed_attempt
    if job.last_lines or failed is None:
        return job.last_lines
    log, key = b"", Key(job.namespace, failed.pod_name)
    with suppress(MusterError):
        source = attempt_that_failed(attempts_of_pod(client, key), failed)
        tail = log_tail.LINES_TO_READ
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
    return tuple(log_tail.last_lines(log.decode(errors="replace"), pod_status.MAX_LINES))


def exit_code_of_failure(client: BlockingClient, job: JobSummary) -> int | None:
    """The exit code of the container whose failure ended the job; None if none is known."""
    failed = job.failed_attempt
    pod_name = failed.pod_name if failed is not None else job.failed_pod
    if not pod_name:
        return None
    key = Key(job.namespace, pod_name)
    with suppress(MusterError):
        if failed is not None:
            source = attempt_that_failed(attempts_of_pod(client, key), failed)
            if source is not None and source.attempt is not None:
                return source.attempt.exit_code
        pod = client.find(PODS, key)
        wanted = failed.container if failed is not None else ""
        for row in pod.status.all_container_statuses if pod is not None else ():
            end = row.state.terminated or row.last_state.terminated
            if end is not None and end.exit_code and wanted in ("", row.name):
                return end.exit_code
    return None


def _with_line_before_recreation(
    client: BlockingClient, found: FoundJob, job: JobSummary
) -> JobSummary:
    """A job whose reason is a replica that failed and is recreated: with its last log line.

    The log of the deleted pod is read, if the cluster keeps it and the pod's message did not have
    the line: an attempt that was killed since, with the rest of its gang, has another last line.
    """
    failures = decode_status(found.raw.get("status")).failures
    blamed = [name for name, row in failures.items() if row.ending]
    last = max(blamed, key=lambda name: (failures[name].at, name), default="")
    ending = failures[last].ending if last else ""
    if not ending or ": " in ending or not job.reason.endswith(ending):
        return job
    role, _, index = last.rpartition("-")
    pod_name = names.replica(job.name, role, int(index))
    text = ""
    with suppress(MusterError):
        attempts = attempts_of_pod(client, Key(job.namespace, pod_name))
        failed = [row for row in at_container(attempts, pod_name) if row.exit_code]
        if failed:
            log = client.log_of(POD_LOGS, failed[-1].metadata.key, tail=log_tail.LINES_TO_READ)
            text = log_tail.last_line(b"".join(log).decode(errors="replace"))
    if not text or job.reason.endswith(f": {text}"):
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
        tail = log_tail.LINES_TO_READ
        log = b"".join(client.logs(pod, container=row.name, previous=previous, tail=tail))
    text = log.decode(errors="replace")
    if previous:
        return replace(row, last_state=_with_message(row.last_state, text))
    return replace(row, state=_with_message(row.state, text))


def _with_message(state: ContainerState, text: str) -> ContainerState:
    ended = state.terminated
    return state if ended is None else replace(state, terminated=replace(ended, message=text))
