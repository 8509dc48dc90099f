"""How a job's conditions follow one another, and the counts of its replicas.

The rules, which a table in the tests checks:

1. Once Succeeded or Failed is True, no condition changes any more. They are never both True.
2. The same type, status and reason again changes nothing, not even the message.
3. A new status changes lastTransitionTime; a new reason alone does not.
4. A new condition replaces the older one of its type and goes to the end of the list, because the
   State column shows the last condition. Running and Restarting replace each other; when the job
   ends or is suspended, they turn to False and keep their place.

A manifest is invalid if it cannot be parsed, or the API server rejects its pods. If no pod of the
job runs, the job fails until the manifest is corrected: the only way out of Failed. If pods run,
they run on: a wrong edit does not stop the training. The job then carries the condition
InvalidSpec. It is the first in the list, so that the last condition is still the job's state.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubekit.objects.meta import timestamp
from muster.jobs import names
from muster.jobs.job_status import FINAL, INVALID_SPEC, JobCondition, JobStatus, ReplicaStatus
from muster.jobs.pod_status import any_running
from muster.operator.decision_types import EmitEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from kubekit.objects.core import Pod
    from muster.jobs.job import Job
    from muster.operator.decision_types import Observed

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


def keeps_running(status: JobStatus, pods: Iterable[Pod]) -> bool:
    """Whether a job with an invalid manifest runs on: it has started once, and still runs."""
    return status.has_started and any_running(pods)


def rejected(job: Job, pods: Iterable[Pod], now: datetime) -> JobStatus:
    """The status of a job that cannot be parsed."""
    if job.status.outcome and not job.status.is_rejected:
        return job.status  # The job ended before its manifest became invalid.
    if any_running(pods) and not job.status.is_rejected:
        return with_invalid_condition(job.status, job.generation, job.rejected, now)
    return failed_for_manifest(job, job.status, job.rejected, now)


def spec_event(before: JobStatus, message: str) -> list[EmitEvent]:
    """The event about an invalid manifest, unless the status says the same already."""
    known = (before.condition("Failed"), before.condition(INVALID_SPEC))
    if any(row is not None and row.message == message for row in known):
        return []
    return [EmitEvent(INVALID_SPEC, message, "Warning")]


def failed_for_manifest(job: Job, status: JobStatus, message: str, now: datetime) -> JobStatus:
    """The status of a job that fails because of its manifest; unchanged if it says so already."""
    row = status.condition("Failed")
    if status.is_rejected and row is not None and row.message == message:
        return status
    status = without_rejection(status)
    status = with_condition(status, "Failed", "True", INVALID_SPEC, message, now)
    status = replace(
        status, observed_generation=job.generation, completion_time=now.replace(microsecond=0)
    )
    if job.has_phases:
        reason = f"invalid job spec: {message}"
        return replace(status, phase="Failed", state="Failed", reason=reason)
    return status


def with_invalid_condition(
    status: JobStatus, generation: int, message: str, now: datetime
) -> JobStatus:
    """The status of a job that runs on although its manifest is invalid."""
    old, at = status.condition(INVALID_SPEC), timestamp(now)
    if old is not None and (old.message, old.observed_generation) == (message, generation):
        return status
    since = old.last_transition_time if old is not None else ""
    row = JobCondition(
        INVALID_SPEC, "True", INVALID_SPEC, message, at, since or at, observed_generation=generation
    )
    others = [condition for condition in status.conditions if condition.type != INVALID_SPEC]
    return replace(status, observed_generation=generation, conditions=(row, *others))


def rejection_of_pods(job: Job, status: JobStatus, observed: Observed) -> str:
    """Why the API server would reject new pods: known from the status, or met just now."""
    if job.from_pods:
        return job.invalid
    row = status.condition(INVALID_SPEC)
    if job.invalid or row is None or row.observed_generation != job.generation:
        return observed.template_rejection
    return row.message or observed.template_rejection


def without_rejection(status: JobStatus) -> JobStatus:
    """The status without conditions and fields about an invalid manifest."""
    rows = tuple(row for row in status.conditions if row.reason != INVALID_SPEC)
    if len(rows) == len(status.conditions):
        return status
    if status.is_rejected:
        status = replace(status, completion_time=None, phase="", state="", reason="")
    return replace(status, conditions=rows)


def current_status(job: Job) -> JobStatus:
    """The job's status, without the rejection of an earlier generation's manifest."""
    # A new generation gets another chance: the user may have corrected the manifest.
    is_older = (job.status.observed_generation or 0) < job.generation
    return without_rejection(job.status) if is_older else job.status
