"""Whether a job ends now, and why: pure.

Checked in this order: its failure policy, its backoff limit, its deadline, its failed indexes, its
success policy, its completions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubekit.objects.meta import MAX_SECONDS, read_timestamp, seconds_left, shifted
from localkube.controllers.batch_jobs.failure_policy import matching_rule, met_success_rule
from localkube.controllers.batch_jobs.pod_tracking import is_indexed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from localkube.controllers.batch_jobs.pod_tracking import PodCounts
    from localkube.controllers.workloads import Job, Pod

FIRST_DELAY, MAX_DELAY = 10.0, 600.0  # seconds, as in Kubernetes


@dataclass(frozen=True)
class JobEnd:
    failed: bool
    reason: str
    message: str


REACHED = JobEnd(False, "CompletionsReached", "Reached expected number of succeeded pods")
_BACKOFF_LIMIT = JobEnd(True, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
_TOO_MANY_INDEXES = JobEnd(
    True,
    "MaxFailedIndexesExceeded",
    "Job has exceeded the specified maximal number of failed indexes",
)
_FAILED_INDEXES = JobEnd(True, "FailedIndexes", "Job has failed indexes")
_DEADLINE = JobEnd(True, "DeadlineExceeded", "Job was active longer than specified deadline")


def job_end(
    job: Job, counts: PodCounts, pods: Sequence[Pod], by_rule: JobEnd | None, now: datetime
) -> JobEnd | None:
    """How the job ends, if it ends now; `by_rule` is the result of its failure policy."""
    if by_rule is not None:
        return by_rule
    if counts.all_failed > job.spec.backoff_limit or _restarted_too_often(job, pods):
        return _BACKOFF_LIMIT
    due = deadline(job)
    if due is not None and now >= due:
        return _DEADLINE
    return (
        _by_failed_indexes(job, counts)
        or _by_success_policy(job, counts)
        or (REACHED if _complete(job, counts, pods) else None)
    )


def _by_failed_indexes(job: Job, counts: PodCounts) -> JobEnd | None:
    failed, most = len(counts.failed_indexes), job.spec.max_failed_indexes
    if most is not None and failed > most:
        return _TOO_MANY_INDEXES
    ended = failed + len(counts.completed)
    return _FAILED_INDEXES if failed and ended >= (job.spec.completions or 0) else None


def _by_success_policy(job: Job, counts: PodCounts) -> JobEnd | None:
    number = met_success_rule(job, counts.completed)
    if number is None:
        return None
    return JobEnd(False, "SuccessPolicy", f"Matched rules at index {number}")


def _complete(job: Job, counts: PodCounts, pods: Sequence[Pod]) -> bool:
    if job.spec.completions is None:
        return counts.all_succeeded > 0 and not any(pod.active for pod in pods)
    if is_indexed(job):
        return len(counts.completed) >= job.spec.completions
    return counts.all_succeeded >= job.spec.completions


def _restarted_too_often(job: Job, pods: Sequence[Pod]) -> bool:
    """With restartPolicy OnFailure, restarts of containers count as failures.

    Pods that have ended are left out: they are counted as pods.
    """
    if (job.spec.template.get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(
        container.restart_count
        for pod in pods
        if pod.status.phase in ("Running", "Pending")
        for container in (*pod.status.container_statuses, *pod.status.init_container_statuses)
    )
    limit = job.spec.backoff_limit
    return restarts > 0 if limit == 0 else restarts >= limit


def deadline(job: Job) -> datetime | None:
    """When the job's activeDeadlineSeconds are over."""
    started, allowed = job.status.get("startTime"), job.spec.active_deadline_seconds
    if allowed is None or not started or job.spec.suspend:
        return None
    since = read_timestamp(started)
    return None if since is None else shifted(since, min(allowed, MAX_SECONDS))


def backoff(pods: Sequence[Pod], now: datetime) -> float:
    """Seconds until the next pod may be created; 0 or less: now.

    The delay doubles with every failure since a success.
    """
    ended = [(at, pod.status.phase == "Succeeded") for pod in pods if (at := ended_at(pod))]
    success = max((at for at, succeeded in ended if succeeded), default=None)
    failures = [at for at, good in ended if not good and (success is None or at > success)]
    if not failures:
        return 0.0
    return seconds_left(max(failures), backoff_delay(len(failures)), now)


def backoff_delay(failures: int) -> float:
    """Seconds between the last of so many failures and the next pod."""
    # The exponent is bounded only to keep the number small.
    return min(FIRST_DELAY * float(2 ** min(failures - 1, 10)), MAX_DELAY)


def ended_at(pod: Pod) -> datetime | None:
    """When the pod ended by itself; None if it did not."""
    if not pod.finished or pod.stopped_with_node:
        return None
    ends = [container.state.terminated for container in pod.status.container_statuses]
    times = [end.finished_at for end in ends if end is not None and end.finished_at is not None]
    return max(times, default=None) or pod.metadata.creation_timestamp


def by_policy(job: Job, pods: Sequence[Pod]) -> tuple[JobEnd | None, frozenset[str]]:
    """The end of the job by a rule of its failure policy, and the UIDs of pods to ignore.

    Pods that were stopped with their node are always ignored.
    """
    ignored = {pod.metadata.uid for pod in pods if pod.stopped_with_node}
    for pod in pods:
        if pod.status.phase != "Failed" or pod.metadata.uid in ignored:
            continue
        match = matching_rule(job, pod)
        if match is not None and match.action == "FailJob":
            message = f"{match.why} matching FailJob rule at index {match.number}"
            return JobEnd(True, "PodFailurePolicy", message), frozenset(ignored)
        if match is not None and match.action == "Ignore":
            ignored.add(pod.metadata.uid)
    return None, frozenset(ignored)
