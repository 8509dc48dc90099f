"""The pods of a batch job, and what their ends count for: pure.

Every pod is counted exactly once. It has a finalizer until it is counted, so none can vanish
uncounted. Counting takes three steps, and a crash between them loses nothing: the UID is written to
`status.uncountedTerminatedPods`, the finalizer is removed, and when the pod is seen without it the
UID is replaced by a higher count. Indexed successes need no UIDs: an index completes once.
Completed indexes are written as ranges, such as `0-3,5,7-8`.

In a job with `backoffLimitPerIndex` every index has its own backoff and limit. The number of
its failures is in an annotation of its newest pod: a replacement has one more than the pod that it
replaces. So the pod that failed last keeps its finalizer until its replacement exists, or until its
index needs none: nobody can delete the number.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, NamedTuple

from kubekit.objects.annotation_values import read_integer
from kubekit.objects.meta import Raw, seconds_left

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from localkube.controllers.workloads import ExitCodes, FailureRule, Job, Pod

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
    """Indexes that get no further pod, because each has its own limit."""

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
    counted = job.count("succeeded") + len(old_succeeded - uids)
    return PodCounts(
        succeeded=len(completed) if is_indexed(job) else counted,
        failed=job.count("failed") + len(old_failed - uids),
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
    action = failure_action(job, pod)
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
    if replaced.stopped_with_node or failure_action(job, replaced) == "Ignore":
        ignored += 1
    else:
        counted += 1
    return {FAILURES: str(counted)} | ({IGNORED: str(ignored)} if ignored else {})


def _all_failures(pod: Pod) -> int:
    return _count(pod, FAILURES) + _count(pod, IGNORED)


def _count(pod: Pod, annotation: str) -> int:
    return read_integer(pod.metadata.annotations.get(annotation, "")) or 0


FIRST_DELAY, MAX_DELAY = 10.0, 600.0  # seconds, as in Kubernetes


class Match(NamedTuple):
    """The first rule that matches a failed pod."""

    number: int
    action: str
    why: str


def matching_rule(job: Job, pod: Pod) -> Match | None:
    policy = job.spec.pod_failure_policy
    for number, rule in enumerate(policy.rules if policy else ()):
        if why := _match(rule, pod):
            return Match(number, rule.action, why)
    return None


def failure_action(job: Job, pod: Pod) -> str:
    """The action of the rule that matches a failed pod; `Count` if none does."""
    match = matching_rule(job, pod)
    return "Count" if match is None else match.action


def _match(rule: FailureRule, pod: Pod) -> str:
    """Why the rule matches the pod, in words; empty if it does not."""
    if rule.on_exit_codes is not None:
        return _match_exit_code(rule.on_exit_codes, pod)
    for pattern in rule.on_pod_conditions:
        for condition in pod.status.conditions:
            if (condition.type, condition.status) == (pattern.type, pattern.status):
                return f"Pod {pod.metadata.key} has condition {pattern.type}"
    return ""


def _match_exit_code(codes: ExitCodes, pod: Pod) -> str:
    for container in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        end = container.state.terminated
        if end is None or end.exit_code == 0:
            continue
        if codes.container_name not in ("", container.name):
            continue
        if (end.exit_code in codes.values) == (codes.operator == "In"):
            return (
                f"Container {container.name} for pod {pod.metadata.key} failed"
                f" with exit code {end.exit_code}"
            )
    return ""


def backoff_delay(failures: int) -> float:
    """Seconds between the last of so many failures and the next pod."""
    # The exponent is bounded only to keep the number small.
    return min(FIRST_DELAY * float(2 ** min(failures - 1, 10)), MAX_DELAY)


def ended_at(pod: Pod) -> datetime | None:
    """When the pod ended by itself; None if it did not."""
    if not pod.finished or pod.stopped_with_node:
        return None
    ends = [container.state.terminated for container in pod.status.container_statuses]
    times = [end.finished_at for end in ends if end is not None and end.finished_at is not None]
    return max(times, default=None) or pod.metadata.creation_timestamp
