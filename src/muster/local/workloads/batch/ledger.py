"""Counting every pod of a job once, however it goes: pure.

A pod carries a finalizer until it is counted, so none can vanish uncounted. Counting takes three
steps, each of which survives a crash after it: its UID is noted in the status, the finalizer is
taken off, and when the pod is seen without it the UID becomes a number. Indexed successes need no
UIDs: an index completes once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from muster.local.workloads.batch import indexes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.api.meta import Raw
    from muster.local.workloads.shapes import Job, Pod

FINALIZER = "batch.kubernetes.io/job-tracking"


@dataclass(frozen=True)
class Ledger:
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


def read(job: Job, pods: Sequence[Pod], ignored: frozenset[str], *, all_fail: bool) -> Ledger:
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
    return Ledger(
        succeeded=len(done) if is_indexed(job) else counted,
        failed=int(job.status.get("failed") or 0) + len(before_bad - uids),
        noted_succeeded=tuple(good),
        noted_failed=tuple(bad),
        completed=frozenset(done),
        release=tuple(release),
    )


def _own_index(job: Job, pod: Pod) -> set[int]:
    """The index that a pod completes; none if it is not one of the job's."""
    index = indexes.of(pod)
    return {index} if index is not None and index < (job.spec.completions or 0) else set()


def _completed(job: Job) -> frozenset[int]:
    text = job.status.get("completedIndexes") or ""
    return frozenset(indexes.parse(text, job.spec.completions or 0))


def write(ledger: Ledger) -> Raw:
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
        found["completedIndexes"] = indexes.write(ledger.completed)
    return found
