"""Failures by index, for jobs with `backoffLimitPerIndex`: pure.

Every index has a backoff and a limit of its own. The number of its failures is in an annotation of
its newest pod: a replacement has one more than the pod that it replaces. So the pod that failed
last keeps its finalizer until its replacement exists, or until its index needs none: nobody can
delete the number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.objects.annotation_values import read_integer
from kubekit.objects.meta import seconds_left
from localkube.controllers.batch_jobs import failure_policy
from localkube.controllers.batch_jobs.job_end import backoff_delay, ended_at
from localkube.controllers.batch_jobs.pod_tracking import (
    completion_index,
    has_failed,
    parse_indexes,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from localkube.controllers.workloads import Job, Pod

FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"


def applies(job: Job) -> bool:
    return job.spec.backoff_limit_per_index is not None


def failed_indexes(job: Job, pods: Iterable[Pod]) -> frozenset[int]:
    """The indexes that get no further pod; an index that failed once stays failed."""
    if not applies(job):
        return frozenset()
    completions = job.spec.completions or 0
    failed = parse_indexes(job.status.get("failedIndexes") or "", completions)
    for pod in pods:
        index = completion_index(pod)
        if index is None or index >= completions or pod.stopped_with_node:
            continue
        if has_failed(job, pod) and _is_last_failure(job, pod):
            failed.add(index)
    return frozenset(failed)


def _is_last_failure(job: Job, pod: Pod) -> bool:
    action = failure_policy.action(job, pod)
    if action == "FailIndex":
        return True
    limit = job.spec.backoff_limit_per_index or 0
    return action != "Ignore" and _count(pod, FAILURES) >= limit


def last_failures(job: Job, pods: Sequence[Pod], settled: frozenset[int]) -> dict[int, Pod]:
    """The newest failed pod of each index that waits for a replacement.

    Indexes that are `settled`, completed or failed, wait for none.
    """
    if not applies(job):
        return {}
    done = settled | {completion_index(pod) for pod in pods if pod.active}
    last: dict[int, Pod] = {}
    for pod in pods:
        index = completion_index(pod)
        if index is None or index in done or not has_failed(job, pod):
            continue
        if index not in last or _age(last[index]) <= _age(pod):
            last[index] = pod
    return last


def _age(pod: Pod) -> tuple[int, float]:
    at = ended_at(pod)
    return _all_failures(pod), at.timestamp() if at else 0.0


def delay(last: Pod | None, now: datetime) -> float:
    """Seconds until the replacement of an index's last failed pod may be created."""
    at = ended_at(last) if last is not None else None
    if last is None or at is None:
        return 0.0
    return seconds_left(at, backoff_delay(_all_failures(last) + 1), now)


def failure_annotations(job: Job, replaced: Pod | None) -> dict[str, str]:
    """The counts of a new pod, which may replace a failed one."""
    if not applies(job):
        return {}
    if replaced is None:
        return {FAILURES: "0"}
    counted, ignored = _count(replaced, FAILURES), _count(replaced, IGNORED)
    if replaced.stopped_with_node or failure_policy.action(job, replaced) == "Ignore":
        ignored += 1
    else:
        counted += 1
    return {FAILURES: str(counted)} | ({IGNORED: str(ignored)} if ignored else {})


def _all_failures(pod: Pod) -> int:
    return _count(pod, FAILURES) + _count(pod, IGNORED)


def _count(pod: Pod, annotation: str) -> int:
    return read_integer(pod.metadata.annotations.get(annotation, "")) or 0
