"""A job whose manifest is invalid: its status, and how the job recovers.

The manifest cannot be parsed, or the API server rejects its pods. If no pod of the job runs, the
job fails until the manifest is corrected. If pods run, they run on: a wrong edit does not stop the
training. The job then carries the condition InvalidSpec. It is the first in the list, so that the
last condition is still the job's state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubekit.objects.meta import timestamp
from muster.jobs.job_status import INVALID_SPEC, JobCondition, JobStatus
from muster.jobs.pod_status import any_running
from muster.operator.action_types import EmitEvent
from muster.operator.decide import job_conditions

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from kubekit.objects.core import Pod
    from muster.jobs.job import Job
    from muster.operator.observed_job import Observed


def keeps_running(status: JobStatus, pods: Iterable[Pod]) -> bool:
    """Whether a job with an invalid manifest runs on: it has started once, and still runs."""
    return status.has_started and any_running(pods)


def rejected(job: Job, pods: Iterable[Pod], now: datetime) -> JobStatus:
    """The status of a job that cannot be parsed."""
    if job.status.outcome and not job.status.is_rejected:
        return job.status  # The job ended before its manifest became invalid.
    if any_running(pods) and not job.status.is_rejected:
        return with_invalid_condition(job.status, job.generation, job.rejected, now)
    return failed(job, job.status, job.rejected, now)


def event(before: JobStatus, message: str) -> list[EmitEvent]:
    """The event about an invalid manifest, unless the status says the same already."""
    known = (before.condition("Failed"), before.condition(INVALID_SPEC))
    if any(row is not None and row.message == message for row in known):
        return []
    return [EmitEvent(INVALID_SPEC, message, "Warning")]


def failed(job: Job, status: JobStatus, message: str, now: datetime) -> JobStatus:
    """The status of a job that fails because of its manifest; unchanged if it says so already."""
    row = status.condition("Failed")
    if status.is_rejected and row is not None and row.message == message:
        return status
    status = without_rejection(status)
    status = job_conditions.with_condition(status, "Failed", "True", INVALID_SPEC, message, now)
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
