"""Counting every pod of a job once, however it goes: pure.

A pod carries a finalizer until it is counted, so none can vanish uncounted. Counting takes three
steps, each of which survives a crash after it: its UID is noted in the status, the finalizer is
taken off, and when the pod is seen without it the UID becomes a number. Indexed successes need no
UIDs: an index completes once.

Sets of completion indexes, as `status.completedIndexes` writes them: `0-3,5,7-8`. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from muster.api.meta import Raw
    from muster.local.controllers.kinds import Job, Pod


INDEX = "batch.kubernetes.io/job-completion-index"


def parse_indexes(text: str, below: int) -> set[int]:
    """The indexes that a text names; those beyond the job's completions no longer count."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            found.update(range(int(first), min(int(last or first), below - 1) + 1))
    return found


def format_indexes(indexes: Iterable[int]) -> str:
    """The inverse: runs of three and more as a range, as of two."""
    runs: list[str] = []
    for _, group in groupby(enumerate(sorted(indexes)), key=lambda pair: pair[1] - pair[0]):
        run = [index for _, index in group]
        runs.append(str(run[0]) if len(run) == 1 else f"{run[0]}{_joint(run)}{run[-1]}")
    return ",".join(runs)


def _joint(run: list[int]) -> str:
    return "," if len(run) == 2 else "-"


def completion_index(pod: Pod) -> int | None:
    """The pod's own index, if it has one."""
    text = pod.metadata.annotations.get(INDEX, "")
    return int(text) if text.isdigit() else None


FINALIZER = "batch.kubernetes.io/job-tracking"


@dataclass(frozen=True)
class PodCounts:
    """The counts, with the pods that are known to have ended but not yet counted."""

    succeeded: int
    failed: int
    noted_succeeded: tuple[str, ...]
    noted_failed: tuple[str, ...]
    completed: frozenset[int]
    release: tuple[Pod, ...]
    """Pods whose end is in the stored status: their finalizer can go."""

    @property
    def all_succeeded(self) -> int:
        return self.succeeded + len(self.noted_succeeded)

    @property
    def all_failed(self) -> int:
        return self.failed + len(self.noted_failed)

    @property
    def settled(self) -> bool:
        """Whether every end is a number by now."""
        return not self.noted_succeeded and not self.noted_failed


def is_indexed(job: Job) -> bool:
    return job.spec.completion_mode == "Indexed"


def tracked(pod: Pod) -> bool:
    return FINALIZER in pod.metadata.finalizers


def has_failed(job: Job, pod: Pod) -> bool:
    """Whether it counts as failed: also when it is only going, unless replacements must wait."""
    if pod.status.phase == "Failed":
        return True
    if job.spec.pod_replacement_policy == "Failed":
        return False
    return pod.leaving and pod.status.phase != "Succeeded"


def count_pods(
    job: Job, pods: Sequence[Pod], ignored: frozenset[str], *, all_fail: bool
) -> PodCounts:
    """Bring the counts on.

    `ignored` are pods whose failure does not count; `all_fail` if the job has failed, and with it
    every pod that has not ended.
    """
    noted = job.status.get("uncountedTerminatedPods") or {}
    before_good, before_bad = set(noted.get("succeeded") or ()), set(noted.get("failed") or ())
    held = [pod for pod in pods if tracked(pod)]
    uids = {pod.metadata.uid for pod in held}
    completed = _completed(job)
    good, bad, release, done = [], [], [], set(completed)
    for pod in held:
        uid = pod.metadata.uid
        if pod.status.phase == "Succeeded" and uid not in before_bad:
            if is_indexed(job):
                index = _own_index(job, pod)
                done |= index
                recorded = index <= completed
            else:
                good.append(uid)
                recorded = uid in before_good
        elif has_failed(job, pod) or all_fail:
            bad += [uid] if uid not in ignored else []
            recorded = uid in before_bad or uid in ignored
        else:
            continue
        release += [pod] if recorded else []
    counted = int(job.status.get("succeeded") or 0) + len(before_good - uids)
    return PodCounts(
        succeeded=len(done) if is_indexed(job) else counted,
        failed=int(job.status.get("failed") or 0) + len(before_bad - uids),
        noted_succeeded=tuple(good),
        noted_failed=tuple(bad),
        completed=frozenset(done),
        release=tuple(release),
    )


def _own_index(job: Job, pod: Pod) -> set[int]:
    """The index that a pod completes; none if it is not one of the job's."""
    index = completion_index(pod)
    return {index} if index is not None and index < (job.spec.completions or 0) else set()


def _completed(job: Job) -> frozenset[int]:
    text = job.status.get("completedIndexes") or ""
    return frozenset(parse_indexes(text, job.spec.completions or 0))


def status_counts(ledger: PodCounts) -> Raw:
    """The counts as they stand in a status."""
    noted: Raw = {}
    if ledger.noted_succeeded:
        noted["succeeded"] = list(ledger.noted_succeeded)
    if ledger.noted_failed:
        noted["failed"] = list(ledger.noted_failed)
    found: Raw = {"uncountedTerminatedPods": noted}
    if ledger.succeeded:
        found["succeeded"] = ledger.succeeded
    if ledger.failed:
        found["failed"] = ledger.failed
    if ledger.completed:
        found["completedIndexes"] = format_indexes(ledger.completed)
    return found
