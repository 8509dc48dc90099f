"""A job whose manifest makes no sense: what is said of it, and how it comes back.

Pure. Called by `reconcile` for a manifest that cannot be read or whose pods the API server refuses,
and by `decide`. A job of which nothing runs fails, until it is mended. One that runs goes on: to
say Failed of it would be untrue, and to end it would punish a slip of the pen. It then carries a
condition that says what is wrong, in front of the others so that the last one is still its state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.api.meta import timestamp
from muster.operator.actions import Action, EmitEvent, PatchStatus
from muster.operator.decide import conditions

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from muster.api.core import Pod
    from muster.api.meta import Raw
    from muster.errors import InvalidJob
    from muster.jobs.job import Job

INVALID = "InvalidSpec"
"""The reason of such a failure, and the type of the condition of a job that goes on."""


def describe(error: InvalidJob) -> str:
    """What is wrong and what to write instead."""
    return f"{error}; {error.hint}" if error.hint else str(error)


def any_running(pods: Iterable[Pod]) -> bool:
    """Whether one of these has a node and has not ended."""
    return any(
        pod.spec.node_name or pod.status.phase == "Running"
        for pod in pods
        if not pod.finished and pod.metadata.deletion_timestamp is None
    )


def keeps_running(before: Raw, pods: Iterable[Pod]) -> bool:
    """Whether a job whose manifest is refused still works: it was whole once, and runs."""
    return bool(before.get("formed")) and any_running(pods)


def reject(raw: Raw, error: InvalidJob, now: datetime, *, runs: bool = False) -> list[Action]:
    """What to do about a job that cannot be understood: say so, once per generation."""
    meta, before = raw.get("metadata") or {}, raw.get("status") or {}
    if conditions.outcome(before) and not is_rejected(before):
        return []  # It ended before it was made senseless.
    generation, message = int(meta.get("generation") or 0), describe(error)
    if runs and not is_rejected(before):
        after = with_invalid_condition(before, generation, message, now)
    else:
        spec = raw.get("spec")
        first = isinstance(spec, dict) and "replicaSpecs" in spec
        after = failed_status(before, generation, message, now, phases=first)
    return write_status(before, after, message)


def fail(job: Job, current: Raw, message: str, now: datetime) -> list[Action]:
    """A job whose pods are refused and which is no longer, or was never, at work fails."""
    after = failed_status(current, job.generation, message, now, phases=job.has_phases)
    return write_status(job.status, after, message)


def write_status(before: Raw, after: Raw, message: str) -> list[Action]:
    """The write that makes `after` of `before`; an event only if these are new words."""
    change = conditions.merge_patch(before, after)
    if not change:
        return []
    known = (_row(before, "Failed"), _row(before, INVALID))
    new = all(row.get("message") != message for row in known)
    return [PatchStatus(change), *([EmitEvent(INVALID, message, "Warning")] if new else [])]


def failed_status(
    before: Raw, generation: int, message: str, now: datetime, *, phases: bool
) -> Raw:
    """The status of a job that fails for what is written in it; the same again changes nothing."""
    if is_rejected(before) and _row(before, "Failed").get("message") == message:
        return before
    rest = without_rejection(before)
    after = conditions.with_condition(rest, "Failed", "True", INVALID, message, now)
    after = {**after, "observedGeneration": generation, "completionTime": timestamp(now)}
    if phases:
        after |= {"phase": "Failed", "state": "Failed", "reason": f"invalid job spec: {message}"}
    return after


def is_rejected(before: Raw) -> bool:
    """Whether the job failed for what is written in it, and not for what its pods did."""
    return _row(before, "Failed").get("reason") == INVALID


def with_invalid_condition(before: Raw, generation: int, message: str, now: datetime) -> Raw:
    """The status of a job that goes on although this is wrong with its manifest."""
    old, at = _row(before, INVALID), timestamp(now)
    if (old.get("message"), old.get("observedGeneration")) == (message, generation):
        return before
    row = {
        "type": INVALID,
        "status": "True",
        "reason": INVALID,
        "message": message,
        "observedGeneration": generation,
        "lastUpdateTime": at,
        "lastTransitionTime": old.get("lastTransitionTime", at),
    }
    others = [one for one in before.get("conditions") or () if one.get("type") != INVALID]
    return {**before, "observedGeneration": generation, "conditions": [row, *others]}


def refusal_of_pods(before: Raw, job: Job) -> str:
    """Why the API server does not take the pods of this very generation; empty if it does."""
    row = _row(before, INVALID)
    current = not job.invalid and row.get("observedGeneration") == job.generation
    return str(row.get("message", "")) if current else ""


def without_rejection(before: Raw) -> Raw:
    """The status without anything that was said of a manifest that made no sense."""
    rows = before.get("conditions") or ()
    kept = [row for row in rows if row.get("reason") != INVALID]
    if len(kept) == len(rows):
        return before
    dropped = ("completionTime", "phase", "state", "reason") if is_rejected(before) else ()
    rest = {name: value for name, value in before.items() if name not in dropped}
    return {**rest, "conditions": kept}


def current_status(job: Job) -> Raw:
    """The job's status; what was said of an earlier generation counts no longer."""
    older = int(job.status.get("observedGeneration") or 0) < job.generation
    return without_rejection(job.status) if older else job.status


def _row(before: Raw, type_: str) -> Raw:
    return conditions.condition(before, type_) or {}
