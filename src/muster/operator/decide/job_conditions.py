"""How a job's conditions follow one another, and the counts of its replicas.

The rules, which a table in the tests checks:

1. Once Succeeded or Failed is True, no condition changes any more. They are never both True.
2. The same type, status and reason again changes nothing, not even the message.
3. A new status changes lastTransitionTime; a new reason alone does not.
4. A new condition replaces the older one of its type and goes to the end of the list, because the
   State column shows the last condition. Running and Restarting replace each other; when the job
   ends or is suspended, they turn to False and keep their place.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubekit.objects.meta import timestamp
from muster.jobs import names
from muster.jobs.job_status import FINAL, JobCondition, JobStatus, ReplicaStatus

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from kubekit.objects.core import Pod
    from muster.jobs.job import Job

_EXCLUSIVE = {"Running": "Restarting", "Restarting": "Running"}


def with_condition(
    status: JobStatus, type_: str, value: str, reason: str, message: str, now: datetime
) -> JobStatus:
    # Rule 1.
    if status.outcome is not None:
        return status
    old = status.condition(type_)
    # Rule 2.
    if old is not None and (old.status, old.reason) == (value, reason):
        return status
    at = timestamp(now)
    # Rule 3.
    since = old.last_transition_time if old is not None and old.status == value else ""
    new = JobCondition(type_, value, reason, message, at, since or at)
    # Rule 4.
    dropped = {type_, _EXCLUSIVE.get(type_)}
    others = [row for row in status.conditions if row.type not in dropped]
    if type_ in FINAL:
        others = [replace(row, status="False") if row.type in _EXCLUSIVE else row for row in others]
    return replace(status, conditions=(*others, new))


def suspended(job: Job, status: JobStatus, now: datetime) -> JobStatus:
    """The status of a job that is being suspended."""
    reason, message = f"{job.kind}Suspended", f"{job.kind} {job.name} is suspended."
    turned_false = {
        "status": "False",
        "reason": reason,
        "message": message,
        "last_transition_time": timestamp(now),
    }
    rows = tuple(
        replace(row, **turned_false) if row.type in _EXCLUSIVE and row.status == "True" else row
        for row in status.conditions
    )
    status = replace(status, conditions=rows)
    if status.counts:
        idle = {role: replace(row, active=0) for role, row in status.counts.items()}
        status = replace(status, replica_statuses=idle)
    return with_condition(status, "Suspended", "True", reason, message, now)


def resumed(job: Job, status: JobStatus, now: datetime) -> JobStatus:
    """The status of a job that is being resumed; the time for its deadline starts again."""
    message = f"{job.kind} {job.name} is resumed."
    condition = status.condition("Suspended")
    suspended_at = condition.transitioned_at if condition is not None else None
    seconds = status.earlier_seconds
    if suspended_at is not None and status.start_time is not None:
        seconds += max(0, int((suspended_at - status.start_time).total_seconds()))
    status = replace(status, start_time=now.replace(microsecond=0), earlier_seconds=seconds)
    return with_condition(status, "Suspended", "False", f"{job.kind}Resumed", message, now)


def finished(job: Job, status: JobStatus, type_: str, message: str, now: datetime) -> JobStatus:
    """The status of a job that ends now."""
    status = with_condition(status, type_, "True", f"{job.kind}{type_}", message, now)
    return replace(status.without_transient(), completion_time=now.replace(microsecond=0))


def replica_counts(job: Job, pods_by_role: dict[str, list[Pod]]) -> dict[str, ReplicaStatus]:
    """replicaStatuses: Running pods are active; pods being deleted count only if they succeeded."""
    counts: dict[str, ReplicaStatus] = {}
    for role in (replica_spec.role for replica_spec in job.replica_specs):
        pods = pods_by_role.get(role, [])
        phases = Counter(pod.status.phase for pod in not_terminating(pods))
        counts[role] = ReplicaStatus(
            active=phases["Running"],
            # A pod that succeeded still counts while it is cleaned up.
            succeeded=sum(pod.status.phase == "Succeeded" for pod in pods),
            failed=phases["Failed"],
            selector=names.selector_text(job.job_kind.operator, job.name, role)
            if job.job_kind.has_scale
            else "",
        )
    return counts


def not_terminating(pods: Sequence[Pod]) -> list[Pod]:
    return [pod for pod in pods if pod.metadata.deletion_timestamp is None]


def with_phases(status: JobStatus) -> JobStatus:
    """The status with `phase` and `state`, for clients of v1alpha1."""
    if status.outcome:
        return replace(status, phase="Done", state=status.outcome)
    if status.is_true("Running") or status.is_true("Restarting"):
        return replace(status, phase="Running", state="Running")
    return replace(status, phase="Creating", state="Unknown")
