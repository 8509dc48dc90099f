"""A job's next step and its status: pure.

A job ends in two steps: the condition FailureTarget or SuccessCriteriaMet says how it will end;
when its last pod has ended and is counted, Failed or Complete says that it has. The first condition
is final: a job that is going to fail does not succeed because its last pod happens to.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from kubekit.objects import conditions
from kubekit.objects.events import EventText
from kubekit.objects.meta import read_timestamp, shifted, timestamp
from localkube.controllers import pod_readiness
from localkube.controllers.batch_jobs import index_failures, job_end, pod_tracking
from localkube.controllers.batch_jobs.job_end import JobEnd
from localkube.controllers.workloads import BURST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from kubekit.objects.meta import Raw
    from localkube.controllers.batch_jobs.pod_tracking import PodCounts
    from localkube.controllers.workloads import Job, Pod

_TARGETS = {"FailureTarget": True, "SuccessCriteriaMet": False}


@dataclass(frozen=True)
class Plan:
    """The writes of one visit to a job, in this order."""

    status: Raw
    counted: tuple[Pod, ...] = ()
    """Pods that are counted: their finalizer is removed."""
    stop: tuple[Pod, ...] = ()
    """Pods to delete, counted as failed."""
    drop: tuple[Pod, ...] = ()
    """Pods to delete that do not count: surplus, or stopped with their node."""
    create: tuple[int | None, ...] = ()
    """The indexes of pods to create; None for a job without indexes."""
    replaced: Mapping[int, Pod] = field(default_factory=dict)
    """The failed pod that the new pod of an index replaces, if each index has its own limit."""
    again: float | None = None
    """Seconds until the next visit."""
    events: tuple[EventText, ...] = ()


def end_of(job: Job) -> str:
    """`Complete` or `Failed`; empty while the job runs."""
    known = _conditions(job)
    return next((end for end in ("Complete", "Failed") if conditions.is_true(known, end)), "")


def ended(job: Job) -> bool:
    return bool(end_of(job))


def expires(job: Job) -> datetime | None:
    """When a job that has ended is deleted, if ever."""
    if job.spec.ttl_seconds_after_finished is None or not ended(job):
        return None
    known = _conditions(job)
    end = conditions.find(known, "Complete") or conditions.find(known, "Failed")
    assert end is not None
    since = read_timestamp(end.get("lastTransitionTime"))
    return None if since is None else shifted(since, job.spec.ttl_seconds_after_finished)


def decide(job: Job, pods: Sequence[Pod], now: datetime) -> Plan:
    """The next step of a job that has not ended."""
    known = _conditions(job)
    by_rule, ignored = job_end.by_policy(job, pods)
    end = _decided_end(known)
    # The counts need the decided end, because the pods of a failed job all count as failed; the end
    # of a job that has none yet needs the counts.
    counts = pod_tracking.count_pods(job, pods, ignored, all_fail=end is not None and end.failed)
    counts = replace(counts, failed_indexes=index_failures.failed_indexes(job, pods))
    end = end or job_end.job_end(job, counts, pods, by_rule, now)
    status = _status(job, pods, counts, now)
    if end is not None:
        return _finish(pods, counts, end, status, known, now)
    known, events = _suspension(job, known, now)
    status |= {"conditions": known} if known else {}
    active = [pod for pod in pods if pod.active]
    # Pods that only stopped with their node are deleted, and new pods replace them uncounted.
    stopped = [pod for pod in pods if pod.stopped_with_node and not pod.terminating]
    if job.spec.suspend:
        return Plan(status, counts.recorded, drop=(*active, *stopped), events=events)
    surplus, missing = _difference(job, counts, pods, active)
    replaced = index_failures.last_failures(job, pods, counts.completed | counts.failed_indexes)
    create, waits = _due(job, pods, missing, replaced, now)
    due = job_end.deadline(job)
    waits += [] if due is None else [(due - now).total_seconds()]
    held = {pod.metadata.uid for pod in replaced.values()}
    return Plan(
        status,
        tuple(pod for pod in counts.recorded if pod.metadata.uid not in held),
        drop=(*surplus, *(pod for pod in stopped if pod.metadata.uid not in held)),
        create=create,
        replaced=replaced,
        again=min(waits, default=None),
        events=events,
    )


def _due(
    job: Job,
    pods: Sequence[Pod],
    missing: list[int | None],
    replaced: Mapping[int, Pod],
    now: datetime,
) -> tuple[tuple[int | None, ...], list[float]]:
    """The missing pods whose backoff is over, and the seconds until that of the others is."""
    if index_failures.applies(job):
        delays = [
            index_failures.delay(replaced.get(index), now) if index is not None else 0.0
            for index in missing
        ]
    else:
        # One backoff delays all missing pods, not only the replacements of failed pods.
        delays = [job_end.backoff(pods, now) if missing else 0.0] * len(missing)
    waiting = [delay for delay in delays if delay > 0]
    create = [index for index, delay in zip(missing, delays, strict=True) if delay <= 0]
    return tuple(create), waiting


def _conditions(job: Job) -> list[Raw]:
    return list(job.status.get("conditions") or [])


def _decided_end(known: Sequence[Raw]) -> JobEnd | None:
    """How the job will end, if that is in its conditions already."""
    for type_, failed in _TARGETS.items():
        condition = conditions.find(known, type_)
        if condition is not None and condition["status"] == "True":
            return JobEnd(failed, condition.get("reason", ""), condition.get("message", ""))
    return None


def _status(job: Job, pods: Sequence[Pod], counts: PodCounts, now: datetime) -> Raw:
    """The status without conditions."""
    active = [pod for pod in pods if pod.active]
    status = pod_tracking.status_counts(counts)
    status["ready"] = sum(pod_readiness.ready(pod) for pod in active)
    status["terminating"] = _terminating(pods)
    if active:
        status["active"] = len(active)
    if not job.spec.suspend:
        status["startTime"] = job.status.get("startTime") or timestamp(now)
    return status


def _terminating(pods: Sequence[Pod]) -> int:
    return sum(pod.terminating and not pod.finished for pod in pods)


def _condition(type_: str, status: str, reason: str, message: str, now: datetime) -> Raw:
    """A condition of a job, which has a probe time besides the transition time."""
    condition = conditions.new_condition(type_, status, reason, message, now)
    return condition | {"lastProbeTime": condition["lastTransitionTime"]}


def _finish(
    pods: Sequence[Pod],
    counts: PodCounts,
    end: JobEnd,
    status: Raw,
    known: list[Raw],
    now: datetime,
) -> Plan:
    target, last = ("FailureTarget", "Failed") if end.failed else ("SuccessCriteriaMet", "Complete")
    if conditions.find(known, target) is None:
        known = [*known, _condition(target, "True", end.reason, end.message, now)]
    left = [pod for pod in pods if not pod.finished or pod_tracking.tracked(pod)]
    events: tuple[EventText, ...] = ()
    if not left and counts.complete:
        known = [*known, _condition(last, "True", end.reason, end.message, now)]
        status.pop("active", None)
        if end.failed:
            events = (EventText(end.reason, end.message, "Warning"),)
        else:
            status["completionTime"] = timestamp(now)
            events = (EventText("Completed", "Job completed"),)
    active = tuple(pod for pod in pods if pod.active)
    return Plan(
        status | {"conditions": known},
        counts.recorded,
        # Pods that a failed job stops are failures; surplus pods of a complete job are not.
        stop=active if end.failed else (),
        drop=() if end.failed else active,
        events=events,
    )


def _suspension(
    job: Job, known: list[Raw], now: datetime
) -> tuple[list[Raw], tuple[EventText, ...]]:
    """The conditions after a change of `spec.suspend`, and its event."""
    if job.spec.suspend == conditions.is_true(known, "Suspended"):
        return known, ()
    status, reason = ("True", "Suspended") if job.spec.suspend else ("False", "Resumed")
    message = f"Job {reason.lower()}"
    condition = _condition("Suspended", status, f"Job{reason}", message, now)
    return conditions.with_condition(known, condition), (EventText(reason, message),)


def _difference(
    job: Job, counts: PodCounts, pods: Sequence[Pod], active: list[Pod]
) -> tuple[list[Pod], list[int | None]]:
    """The surplus pods, and the indexes of missing pods."""
    desired = _desired(job, counts, len(active))
    indexed = pod_tracking.is_indexed(job)
    surplus = _duplicates(job, counts, active) if indexed else []
    rest = [pod for pod in active if pod not in surplus]
    if len(rest) > desired:
        surplus += pod_readiness.deletion_order(rest, rest)[: len(rest) - desired]
    # With this policy a terminating pod is replaced only when it has ended.
    waiting = _terminating(pods) if job.spec.pod_replacement_policy == "Failed" else 0
    missing = min(max(0, desired - len(rest) - waiting), BURST)
    if not indexed:
        return surplus, [None] * missing
    # As in Kubernetes, the lowest free indexes come first.
    taken = {pod_tracking.completion_index(pod) for pod in rest}
    taken |= counts.completed | counts.failed_indexes
    free = (index for index in range(job.spec.completions or 0) if index not in taken)
    return surplus, list(islice(free, missing))


def _desired(job: Job, counts: PodCounts, active: int) -> int:
    """How many pods should be active."""
    # Without completions pods take from a queue of work: once one succeeds, the queue is empty.
    if job.spec.completions is None:
        return active if counts.all_succeeded else job.spec.parallelism
    indexed = pod_tracking.is_indexed(job)
    done = len(counts.completed) if indexed else counts.all_succeeded
    return min(job.spec.completions - done, job.spec.parallelism)


def _duplicates(job: Job, counts: PodCounts, active: list[Pod]) -> list[Pod]:
    """Active pods whose index is completed, out of range, or has another pod."""
    used: set[int | None] = {None, *counts.completed}
    duplicates = []
    for pod in sorted(active, key=lambda pod: pod.metadata.name):
        index = pod_tracking.completion_index(pod)
        if index in used or (index is not None and index >= (job.spec.completions or 0)):
            duplicates.append(pod)
        used.add(index)
    return duplicates
