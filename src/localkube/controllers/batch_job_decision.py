"""A batch job's next step, its end and its status: pure.

A job ends in two steps: the condition FailureTarget or SuccessCriteriaMet says how it will end;
when its last pod has ended and is counted, Failed or Complete says that it has. The first condition
is final: a job that is going to fail does not succeed because its last pod happens to. Whether a
job ends is checked in this order: its failure policy, its backoff limit, its deadline, its failed
indexes, its success policy, its completions.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from kubekit.objects import conditions
from kubekit.objects.events import EventText
from kubekit.objects.meta import MAX_SECONDS, Raw, read_timestamp, seconds_left, shifted, timestamp
from localkube.controllers import batch_job_pods, workloads
from localkube.controllers.workloads import BURST, Job, Pod, SuccessRule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from localkube.controllers.batch_job_pods import PodCounts


def met_success_rule(job: Job, completed: frozenset[int]) -> int | None:
    """The number of the first rule of the success policy that the completed indexes meet."""
    policy = job.spec.success_policy
    if policy is None or not completed:
        return None
    numbers = (
        number
        for number, rule in enumerate(policy.rules)
        if _is_met(rule, completed, job.spec.completions or 0)
    )
    return next(numbers, None)


def _is_met(rule: SuccessRule, completed: frozenset[int], completions: int) -> bool:
    if rule.succeeded_indexes is None:
        return len(completed) >= (rule.succeeded_count or 0)
    named = batch_job_pods.parse_ranges(rule.succeeded_indexes, completions)  # up to 2**31 indexes
    count = rule.succeeded_count
    required = sum(map(len, named)) if count is None else count
    ordered = sorted(completed)
    met = sum(bisect_left(ordered, r.stop) - bisect_left(ordered, r.start) for r in named)
    return met >= required


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
    if batch_job_pods.is_indexed(job):
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
    ended = [
        (at, pod.status.phase == "Succeeded")
        for pod in pods
        if (at := batch_job_pods.ended_at(pod))
    ]
    success = max((at for at, succeeded in ended if succeeded), default=None)
    failures = [at for at, good in ended if not good and (success is None or at > success)]
    if not failures:
        return 0.0
    return seconds_left(max(failures), batch_job_pods.backoff_delay(len(failures)), now)


def by_policy(job: Job, pods: Sequence[Pod]) -> tuple[JobEnd | None, frozenset[str]]:
    """The end of the job by a rule of its failure policy, and the UIDs of pods to ignore.

    Pods that were stopped with their node are always ignored.
    """
    ignored = {pod.metadata.uid for pod in pods if pod.stopped_with_node}
    for pod in pods:
        if pod.status.phase != "Failed" or pod.metadata.uid in ignored:
            continue
        match = batch_job_pods.matching_rule(job, pod)
        if match is not None and match.action == "FailJob":
            message = f"{match.why} matching FailJob rule at index {match.number}"
            return JobEnd(True, "PodFailurePolicy", message), frozenset(ignored)
        if match is not None and match.action == "Ignore":
            ignored.add(pod.metadata.uid)
    return None, frozenset(ignored)


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


def expires(job: Job) -> datetime | None:
    """When a job that has ended is deleted, if ever."""
    end = conditions.find(_conditions(job), end_of(job))
    if job.spec.ttl_seconds_after_finished is None or end is None:
        return None
    since = read_timestamp(end.get("lastTransitionTime"))
    return None if since is None else shifted(since, job.spec.ttl_seconds_after_finished)


def decide(job: Job, pods: Sequence[Pod], now: datetime) -> Plan:
    """The next step of a job that has not ended."""
    known = _conditions(job)
    by_rule, ignored = by_policy(job, pods)
    end = _decided_end(known)
    # The counts need the decided end, because the pods of a failed job all count as failed; the end
    # of a job that has none yet needs the counts.
    counts = batch_job_pods.count_pods(job, pods, ignored, all_fail=end is not None and end.failed)
    counts = replace(counts, failed_indexes=batch_job_pods.failed_indexes(job, pods))
    end = end or job_end(job, counts, pods, by_rule, now)
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
    replaced = batch_job_pods.last_failures(job, pods, counts.completed | counts.failed_indexes)
    create, waits = _due(job, pods, missing, replaced, now)
    due = deadline(job)
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
    if batch_job_pods.applies(job):
        delays = [
            batch_job_pods.delay(replaced.get(index), now) if index is not None else 0.0
            for index in missing
        ]
    else:
        # One backoff delays all missing pods, not only the replacements of failed pods.
        delays = [backoff(pods, now) if missing else 0.0] * len(missing)
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
    status = batch_job_pods.status_counts(counts)
    status["ready"] = sum(workloads.ready(pod) for pod in active)
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
    left = [pod for pod in pods if not pod.finished or batch_job_pods.tracked(pod)]
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
    indexed = batch_job_pods.is_indexed(job)
    surplus = _duplicates(job, counts, active) if indexed else []
    rest = [pod for pod in active if pod not in surplus]
    if len(rest) > desired:
        surplus += workloads.deletion_order(rest, rest)[: len(rest) - desired]
    # With this policy a terminating pod is replaced only when it has ended.
    waiting = _terminating(pods) if job.spec.pod_replacement_policy == "Failed" else 0
    missing = min(max(0, desired - len(rest) - waiting), BURST)
    if not indexed:
        return surplus, [None] * missing
    # As in Kubernetes, the lowest free indexes come first.
    taken = {batch_job_pods.completion_index(pod) for pod in rest}
    taken |= counts.completed | counts.failed_indexes
    free = (index for index in range(job.spec.completions or 0) if index not in taken)
    return surplus, list(islice(free, missing))


def _desired(job: Job, counts: PodCounts, active: int) -> int:
    """How many pods should be active."""
    # Without completions pods take from a queue of work: once one succeeds, the queue is empty.
    if job.spec.completions is None:
        return active if counts.all_succeeded else job.spec.parallelism
    indexed = batch_job_pods.is_indexed(job)
    done = len(counts.completed) if indexed else counts.all_succeeded
    return min(job.spec.completions - done, job.spec.parallelism)


def _duplicates(job: Job, counts: PodCounts, active: list[Pod]) -> list[Pod]:
    """Active pods whose index is completed, out of range, or has another pod."""
    used: set[int | None] = {None, *counts.completed}
    duplicates = []
    for pod in sorted(active, key=lambda pod: pod.metadata.name):
        index = batch_job_pods.completion_index(pod)
        if index in used or (index is not None and index >= (job.spec.completions or 0)):
            duplicates.append(pod)
        used.add(index)
    return duplicates
