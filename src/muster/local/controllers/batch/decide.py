"""A job: what to do next, and what to report. Pure.

Called by `batch/jobs.py`. A job ends in two steps: its condition FailureTarget or
SuccessCriteriaMet says how it will end, and when its last pod has gone and is counted, Failed or
Complete says that it has. Nothing is decided about a job that has ended, except when it goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from muster.api.events import EventText
from muster.api.meta import timestamp
from muster.local.controllers import conditions, pod_readiness
from muster.local.controllers.batch import job_end, pod_tracking
from muster.local.controllers.batch import pod_tracking as ledger
from muster.local.controllers.batch.job_end import JobEnd
from muster.local.controllers.kinds import BURST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.api.meta import Raw
    from muster.local.controllers.batch.pod_tracking import PodCounts
    from muster.local.controllers.kinds import Job, Pod

_TARGETS = {"FailureTarget": True, "SuccessCriteriaMet": False}


@dataclass(frozen=True)
class Plan:
    """What one look at a job leads to, in this order."""

    status: Raw
    release: tuple[Pod, ...] = ()
    """Pods that are counted: their finalizer goes."""
    stop: tuple[Pod, ...] = ()
    """Pods to delete, counted as failed."""
    drop: tuple[Pod, ...] = ()
    """Pods to delete that are too many, or were switched off: they do not count."""
    create: tuple[int | None, ...] = ()
    """One pod each, of this index if the job has any."""
    again: float | None = None
    news: tuple[EventText, ...] = ()


def ended(job: Job) -> bool:
    rows = job.status.get("conditions") or []
    return conditions.is_true(rows, "Complete") or conditions.is_true(rows, "Failed")


def expires(job: Job) -> datetime | None:
    """When a job that has ended goes by itself."""
    if job.spec.ttl_seconds_after_finished is None or not ended(job):
        return None
    rows = job.status.get("conditions") or []
    row = conditions.find(rows, "Complete") or conditions.find(rows, "Failed")
    assert row is not None
    since = datetime.fromisoformat(row["lastTransitionTime"])
    return since + timedelta(seconds=job.spec.ttl_seconds_after_finished)


def decide(job: Job, pods: Sequence[Pod], now: datetime) -> Plan:
    """The next step of a job that has not ended."""
    rows: list[Raw] = list(job.status.get("conditions") or [])
    broken, ignored = job_end.by_policy(job, pods)
    end = _target(rows)
    book = ledger.count_pods(job, pods, ignored, all_fail=end is not None and end.failed)
    end = end or job_end.job_end(job, book, pods, broken, now)
    base = _status(job, pods, book, now)
    if end is not None:
        return _finish(pods, book, end, base, rows, now)
    rows, news = _suspension(job, rows, now)
    base |= {"conditions": rows} if rows else {}
    active = [pod for pod in pods if pod.active]
    off = [pod for pod in pods if pod.switched_off and not pod.leaving]
    if job.spec.suspend:
        return Plan(base, book.release, drop=(*active, *off), news=news)
    drop, create = _population(job, book, pods, active)
    wait = _wait(job, pods, now) if create else None
    later = [] if wait is None else [wait]
    due = job_end.deadline(job)
    later += [] if due is None else [(due - now).total_seconds()]
    return Plan(
        base,
        book.release,
        drop=(*drop, *off),
        create=() if wait is not None else tuple(create),
        again=min(later, default=None),
        news=news,
    )


def _target(rows: Sequence[Raw]) -> JobEnd | None:
    """How the job will end, if that was said before."""
    for type_, failed in _TARGETS.items():
        row = conditions.find(rows, type_)
        if row is not None and row["status"] == "True":
            return JobEnd(failed, row.get("reason", ""), row.get("message", ""))
    return None


def _status(job: Job, pods: Sequence[Pod], book: PodCounts, now: datetime) -> Raw:
    """The counts and times."""
    active = [pod for pod in pods if pod.active]
    found = ledger.status_counts(book)
    found["ready"] = sum(pod_readiness.ready(pod) for pod in active)
    found["terminating"] = sum(pod.leaving and not pod.finished for pod in pods)
    if active:
        found["active"] = len(active)
    if not job.spec.suspend:
        found["startTime"] = job.status.get("startTime") or timestamp(now)
    return found


def _row(type_: str, status: str, reason: str, message: str, now: datetime) -> Raw:
    row = conditions.new_condition(type_, status, reason, message, now)
    return row | {"lastProbeTime": row["lastTransitionTime"]}


def _finish(
    pods: Sequence[Pod],
    book: PodCounts,
    end: JobEnd,
    base: Raw,
    rows: list[Raw],
    now: datetime,
) -> Plan:
    target = "FailureTarget" if end.failed else "SuccessCriteriaMet"
    if conditions.find(rows, target) is None:
        rows = [*rows, _row(target, "True", end.reason, end.message, now)]
    left = [pod for pod in pods if not pod.finished or ledger.tracked(pod)]
    news: tuple[EventText, ...] = ()
    if not left and book.settled:
        rows = [*rows, _row(_last(end), "True", end.reason, end.message, now)]
        base.pop("active", None)
        if end.failed:
            news = (EventText(end.reason, end.message, "Warning"),)
        else:
            base["completionTime"] = timestamp(now)
            news = (EventText("Completed", "Job completed"),)
    going = tuple(pod for pod in pods if pod.active)
    return Plan(
        base | {"conditions": rows},
        book.release,
        stop=going if end.failed else (),
        drop=() if end.failed else going,
        news=news,
    )


def _last(end: JobEnd) -> str:
    return "Failed" if end.failed else "Complete"


def _suspension(
    job: Job, rows: list[Raw], now: datetime
) -> tuple[list[Raw], tuple[EventText, ...]]:
    known = conditions.find(rows, "Suspended")
    if job.spec.suspend and not conditions.is_true(rows, "Suspended"):
        row = _row("Suspended", "True", "JobSuspended", "Job suspended", now)
        return conditions.with_condition(rows, row), (EventText("Suspended", "Job suspended"),)
    if not job.spec.suspend and known is not None and known["status"] == "True":
        row = _row("Suspended", "False", "JobResumed", "Job resumed", now)
        return conditions.with_condition(rows, row), (EventText("Resumed", "Job resumed"),)
    return rows, ()


def _population(
    job: Job, book: PodCounts, pods: Sequence[Pod], active: list[Pod]
) -> tuple[list[Pod], list[int | None]]:
    """Which pods are too many, and which to make."""
    wanted = _wanted(job, book, len(active))
    extra = _doubles(job, book, active) if ledger.is_indexed(job) else []
    rest = [pod for pod in active if pod not in extra]
    if len(rest) > wanted:
        extra += pod_readiness.deletion_order(rest, rest)[: len(rest) - wanted]
    occupied = len(rest)
    if job.spec.pod_replacement_policy == "Failed":
        occupied += sum(pod.leaving and not pod.finished for pod in pods)
    missing = min(max(0, wanted - occupied), BURST)
    if not ledger.is_indexed(job):
        return extra, [None] * missing
    taken = {pod_tracking.completion_index(pod) for pod in rest} | book.completed
    free = (index for index in range(job.spec.completions or 0) if index not in taken)
    return extra, [index for index, _ in zip(free, range(missing), strict=False)]


def _wanted(job: Job, book: PodCounts, active: int) -> int:
    """How many pods should be active."""
    if job.spec.completions is None:
        return active if book.all_succeeded else job.spec.parallelism
    done = len(book.completed) if ledger.is_indexed(job) else book.all_succeeded
    return min(job.spec.completions - done, job.spec.parallelism)


def _doubles(job: Job, book: PodCounts, active: list[Pod]) -> list[Pod]:
    """Active pods of an index that is done, out of range, or another's."""
    known: set[int | None] = {None, *book.completed}
    extra = []
    for pod in sorted(active, key=lambda one: one.metadata.name):
        index = pod_tracking.completion_index(pod)
        if index in known or (index is not None and index >= (job.spec.completions or 0)):
            extra.append(pod)
        known.add(index)
    return extra


def _wait(job: Job, pods: Sequence[Pod], now: datetime) -> float | None:
    """Seconds until pods may be made again after failures; None if they may be now."""
    at = job_end.not_before(job, pods)
    left = 0.0 if at is None else (at - now).total_seconds()
    return left if left > 0 else None
