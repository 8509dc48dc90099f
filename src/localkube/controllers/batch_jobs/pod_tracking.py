"""Counting every pod of a job exactly once: pure.

A pod has a finalizer until it is counted, so none can vanish uncounted. Counting takes three steps,
and a crash between them loses nothing: the UID is written to `status.uncountedTerminatedPods`, the
finalizer is removed, and when the pod is seen without it the UID is replaced by a higher count.
Indexed successes need no UIDs: an index completes once. Completed indexes are written as ranges,
such as `0-3,5,7-8`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING

from kubekit.objects.annotation_values import read_integer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kubekit.objects.meta import Raw
    from localkube.controllers.workloads import Job, Pod


FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
_MOST_INDEXES = 1_000_000


def parse_ranges(text: str, below: int) -> list[range]:
    """The ranges in a text, in order and apart; indexes beyond the job's completions do not
    count."""
    ranges: list[range] = []
    parts = (part.partition("-") for part in text.split(","))
    numbers = ((read_integer(first), read_integer(last or first)) for first, _, last in parts)
    for first, last in sorted(
        (first, min(last, below - 1))
        for first, last in numbers
        if first is not None and last is not None
    ):
        begin = max(first, ranges[-1].stop) if ranges else first
        if begin <= last:
            ranges.append(range(begin, last + 1))
    return ranges


def parse_indexes(text: str, below: int) -> set[int]:
    """The indexes in a text of ranges; the first million, which no local job reaches."""
    return set(islice(chain.from_iterable(parse_ranges(text, below)), _MOST_INDEXES))


def format_indexes(indexes: Iterable[int]) -> str:
    """The inverse; three consecutive indexes or more become a range."""
    parts: list[str] = []
    for _, group in groupby(enumerate(sorted(indexes)), key=lambda pair: pair[1] - pair[0]):
        run = [index for _, index in group]
        parts += [f"{run[0]}-{run[-1]}"] if len(run) > 2 else map(str, run)
    return ",".join(parts)


def completion_index(pod: Pod) -> int | None:
    """The pod's index, if it has one."""
    return read_integer(pod.metadata.annotations.get(INDEX, ""))


@dataclass(frozen=True)
class PodCounts:
    """The counts, and the UIDs of pods that have ended but are not yet in the counts."""

    succeeded: int
    failed: int
    uncounted_succeeded: tuple[str, ...]
    uncounted_failed: tuple[str, ...]
    completed: frozenset[int]
    recorded: tuple[Pod, ...]
    """Pods whose end is in the stored status: their finalizer can be removed."""
    failed_indexes: frozenset[int] = frozenset()
    """Indexes that get no further pod, because each has a limit of its own."""

    @property
    def all_succeeded(self) -> int:
        return self.succeeded + len(self.uncounted_succeeded)

    @property
    def all_failed(self) -> int:
        return self.failed + len(self.uncounted_failed)

    @property
    def complete(self) -> bool:
        """Whether every ended pod is in the counts."""
        return not self.uncounted_succeeded and not self.uncounted_failed


def is_indexed(job: Job) -> bool:
    return job.spec.completion_mode == "Indexed"


def tracked(pod: Pod) -> bool:
    return FINALIZER in pod.metadata.finalizers


def has_failed(job: Job, pod: Pod) -> bool:
    """Whether the pod counts as failed: when terminating too, unless replacements must wait."""
    if pod.status.phase == "Failed":
        return True
    if job.spec.pod_replacement_policy == "Failed":
        return False
    return pod.terminating and pod.status.phase != "Succeeded"


def count_pods(
    job: Job, pods: Sequence[Pod], ignored: frozenset[str], *, all_fail: bool
) -> PodCounts:
    """The next counts.

    Failures of the `ignored` pods do not count. With `all_fail` the job has failed, and with it
    every pod that has not ended.
    """
    uncounted = job.status.get("uncountedTerminatedPods") or {}
    old_succeeded = set(uncounted.get("succeeded") or ())
    old_failed = set(uncounted.get("failed") or ())
    waiting = [pod for pod in pods if tracked(pod)]
    uids = {pod.metadata.uid for pod in waiting}
    old_completed = _completed(job)
    succeeded, failed, recorded, completed = [], [], [], set(old_completed)
    for pod in waiting:
        uid = pod.metadata.uid
        # A pod that was recorded as failed, because it was being deleted, stays a failure.
        if pod.status.phase == "Succeeded" and uid not in old_failed:
            if is_indexed(job):
                index = _own_index(job, pod)
                completed |= index
                is_recorded = index <= old_completed
            else:
                succeeded.append(uid)
                is_recorded = uid in old_succeeded
        elif has_failed(job, pod) or all_fail:
            failed += [uid] if uid not in ignored else []
            is_recorded = uid in old_failed or uid in ignored
        else:
            continue
        recorded += [pod] if is_recorded else []
    # A recorded UID whose pod has lost its finalizer, or is gone, moves into the count.
    counted = int(job.status.get("succeeded") or 0) + len(old_succeeded - uids)
    return PodCounts(
        succeeded=len(completed) if is_indexed(job) else counted,
        failed=int(job.status.get("failed") or 0) + len(old_failed - uids),
        uncounted_succeeded=tuple(succeeded),
        uncounted_failed=tuple(failed),
        completed=frozenset(completed),
        recorded=tuple(recorded),
    )


def _own_index(job: Job, pod: Pod) -> set[int]:
    """The index that a pod completes; none if it is out of range."""
    index = completion_index(pod)
    return {index} if index is not None and index < (job.spec.completions or 0) else set()


def _completed(job: Job) -> frozenset[int]:
    """The indexes that the stored status counts as completed."""
    text = job.status.get("completedIndexes") or ""
    return frozenset(parse_indexes(text, job.spec.completions or 0))


def status_counts(counts: PodCounts) -> Raw:
    """The counts as fields of the job's status."""
    uncounted = {
        "succeeded": list(counts.uncounted_succeeded),
        "failed": list(counts.uncounted_failed),
    }
    status = {
        "succeeded": counts.succeeded,
        "failed": counts.failed,
        "completedIndexes": format_indexes(counts.completed),
        "failedIndexes": format_indexes(counts.failed_indexes),
    }
    # Empty fields are left out, as the server stores them: statuses are compared to see a change.
    return {"uncountedTerminatedPods": _not_empty(uncounted), **_not_empty(status)}


def _not_empty(fields: Raw) -> Raw:
    return {name: value for name, value in fields.items() if value}
