"""The limits of a job: backoffLimit, the active deadline and the starting deadline.

`status.restarts` counts all restarts: pods that were recreated because the training failed, and
containers that nodes restarted in place or restart after a back-off. `status.restarted` records per
pod how many restarts in place are included, so that each restart counts once and still counts when
its pod is gone. `status.earlierRestarts` counts, for people, the restarts of each replica that its
present pod does not show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from muster.jobs import names
from muster.operator.build.labels import index_of, replica_spec_of, role_of
from muster.operator.build.restart_policy import restarts_left

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from kubekit.objects.core import Pod
    from muster.jobs.job import Job
    from muster.jobs.job_status import JobStatus

_MAX_DIGITS = 10
"""Longer numbers in the annotation are ignored: no deadline is centuries away."""


def count_in_place(job: Job, status: JobStatus, pods: Iterable[Pod]) -> tuple[JobStatus, list[Pod]]:
    """The status with the restarts of these living pods, and the pods with new restarts."""
    counts = {pod.metadata.name: (pod, n) for pod in pods if (n := _counted_restarts(job, pod))}
    new = {name: n - status.in_place_restarts.get(name, 0) for name, (_, n) in counts.items()}
    restarted = [pod for name, (pod, _) in counts.items() if new[name] > 0]
    # Only living pods are remembered, so that the status does not grow with every replacement.
    status = replace(status, in_place_restarts={name: n for name, (_, n) in counts.items()})
    return add_restarts(status, sum(new[pod.metadata.name] for pod in restarted)), restarted


def add_restarts(status: JobStatus, count: int) -> JobStatus:
    return replace(status, restarts=status.restarts + count) if count else status


def count_earlier(job: Job, status: JobStatus, replaced: Iterable[Pod]) -> JobStatus:
    """The status with the restarts of these replicas that their next pods do not show."""
    counts = dict(status.earlier_restarts)
    for pod in replaced:
        name = f"{role_of(job, pod).lower()}-{index_of(pod)}"
        counts[name] = counts.get(name, 0) + 1 + restarts_of_pod(pod)
    return replace(status, earlier_restarts=counts)


def restarts_of_pod(pod: Pod) -> int:
    """How often the node restarted the pod's containers, with those that wait for a restart."""
    rows = pod.status.all_container_statuses
    # The next restart counts before the node starts it, so that no attempt beyond the limit starts.
    return sum(row.restart_count + row.waits_for_restart for row in rows)


def waits_for_restart(pod: Pod) -> bool:
    """Whether the node waits before it restarts a container of this pod."""
    return any(row.waits_for_restart for row in pod.status.all_container_statuses)


def backoff_limit_reached(job: Job, status: JobStatus) -> bool:
    """Whether the restarts, in place and by replacement, use up what the job allows."""
    left = restarts_left(job, status)
    return left is not None and left <= 0


def limit_in_words(job: Job, status: JobStatus) -> str:
    """That the limit is reached, in training-operator's words, with the numbers."""
    failures = f"{status.restarts} failure{'' if status.restarts == 1 else 's'}"
    numbers = f"(backoffLimit {job.policy.backoff_limit}, {failures})"
    return f"it has reached the specified backoff limit {numbers}"


def seconds_to_deadline(job: Job, status: JobStatus, now: datetime) -> float | None:
    """Seconds that the job may still be active; None if it has no deadline."""
    if job.policy.active_deadline is None or status.start_time is None:
        return None
    return job.policy.active_deadline - (now - status.start_time).total_seconds()


def seconds_to_start(job: Job, status: JobStatus, now: datetime) -> float | None:
    """Seconds in which the job must start to run; None if it runs already or has no deadline."""
    limit = job.annotations.get(names.STARTING_DEADLINE, "")
    start = status.start_time
    # An annotation is free text: anything but a number is ignored.
    if start is None or not limit.isdecimal() or len(limit) > _MAX_DIGITS:
        return None
    running = status.condition("Running")
    since = running.transitioned_at if running else None
    if since is not None and since >= start:  # An older time is from before a suspension.
        return None
    return int(limit) - (now - start).total_seconds()


def seconds_to_deadlines(job: Job, status: JobStatus, now: datetime) -> list[float]:
    """Seconds to each deadline that the job has."""
    both = (seconds_to_deadline(job, status, now), seconds_to_start(job, status, now))
    return [left for left in both if left is not None]


def ended_by_limit(job: Job, status: JobStatus) -> bool:
    """Whether a limit ended a finished job, by its status alone: no record of the cause exists."""
    if not status.is_true("Failed"):
        return False
    if backoff_limit_reached(job, status):
        return True
    end = status.completion_time
    return end is not None and any(left <= 0 for left in seconds_to_deadlines(job, status, end))


def _counted_restarts(job: Job, pod: Pod) -> int:
    replica_spec = replica_spec_of(job, pod)
    if replica_spec is None or replica_spec.restart == "Never":
        return 0
    return restarts_of_pod(pod)
