"""Whether a job ends now, and why: pure.

In this order: a rule of its failure policy, too many failures, too much time, enough successes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from muster.local.controllers.batch.pod_tracking import is_indexed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.local.controllers.batch.pod_tracking import PodCounts
    from muster.local.controllers.kinds import ExitCodes, FailureRule, Job, Pod

FIRST_DELAY, LONGEST_DELAY = 10.0, 600.0


@dataclass(frozen=True)
class JobEnd:
    """How a job ends."""

    failed: bool
    reason: str
    message: str


REACHED = JobEnd(False, "CompletionsReached", "Reached expected number of succeeded pods")
_TOO_OFTEN = JobEnd(True, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
_TOO_LONG = JobEnd(True, "DeadlineExceeded", "Job was active longer than specified deadline")


def job_end(
    job: Job, ledger: PodCounts, pods: Sequence[Pod], broken: JobEnd | None, now: datetime
) -> JobEnd | None:
    """The end of the job, if it has come; `broken` is what the failure policy said."""
    if broken is not None:
        return broken
    if ledger.all_failed > job.spec.backoff_limit or _restarted_too_often(job, pods):
        return _TOO_OFTEN
    due = deadline(job)
    if due is not None and now >= due:
        return _TOO_LONG
    return REACHED if _complete(job, ledger, pods) else None


def _complete(job: Job, ledger: PodCounts, pods: Sequence[Pod]) -> bool:
    if job.spec.completions is None:
        return ledger.all_succeeded > 0 and not any(pod.active for pod in pods)
    if is_indexed(job):
        return len(ledger.completed) >= job.spec.completions
    return ledger.all_succeeded >= job.spec.completions


def _restarted_too_often(job: Job, pods: Sequence[Pod]) -> bool:
    """With restartPolicy OnFailure the restarts of containers count as failures."""
    if (job.spec.template.get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(
        row.restart_count
        for pod in pods
        if pod.status.phase in ("Running", "Pending")
        for row in (*pod.status.container_statuses, *pod.status.init_container_statuses)
    )
    limit = job.spec.backoff_limit
    return restarts > 0 if limit == 0 else restarts >= limit


def deadline(job: Job) -> datetime | None:
    """When it has been active for too long."""
    started, allowed = job.status.get("startTime"), job.spec.active_deadline_seconds
    if allowed is None or not started or job.spec.suspend:
        return None
    return datetime.fromisoformat(started) + timedelta(seconds=allowed)


def not_before(job: Job, pods: Sequence[Pod]) -> datetime | None:
    """When the next pod may be made: later after every failure since the last success."""
    ended = [(at, pod.status.phase == "Succeeded") for pod in pods if (at := _ended(pod))]
    success = max((at for at, good in ended if good), default=None)
    failures = [at for at, good in ended if not good and (success is None or at > success)]
    if not failures:
        return None
    delay = min(FIRST_DELAY * 2 ** min(len(failures) - 1, 10), LONGEST_DELAY)
    return max(failures) + timedelta(seconds=delay)


def _ended(pod: Pod) -> datetime | None:
    if not pod.finished or pod.switched_off:
        return None
    times = [
        row.state.terminated.finished_at
        for row in pod.status.container_statuses
        if row.state.terminated is not None and row.state.terminated.finished_at is not None
    ]
    return max(times, default=None) or pod.metadata.creation_timestamp


# --- the failure policy ---


def by_policy(job: Job, pods: Sequence[Pod]) -> tuple[JobEnd | None, frozenset[str]]:
    """Whether a failed pod fails the whole job, and the UIDs of those whose failure is ignored.

    Pods that were switched off with their node are, whatever the rules say.
    """
    policy = job.spec.pod_failure_policy
    ignored = {pod.metadata.uid for pod in pods if pod.switched_off}
    for pod in pods:
        if pod.status.phase != "Failed" or pod.metadata.uid in ignored:
            continue
        for number, rule in enumerate(policy.rules if policy else ()):
            why = _matches(rule, pod)
            if not why:
                continue
            if rule.action == "FailJob":
                words = f"{why} matching FailJob rule at index {number}"
                return JobEnd(True, "PodFailurePolicy", words), frozenset(ignored)
            if rule.action == "Ignore":
                ignored.add(pod.metadata.uid)
            break
    return None, frozenset(ignored)


def _matches(rule: FailureRule, pod: Pod) -> str:
    """Why the rule applies to this pod, in words; empty if it does not."""
    if rule.on_exit_codes is not None:
        return _by_code(rule.on_exit_codes, pod)
    for wanted in rule.on_pod_conditions:
        for found in pod.status.conditions:
            if (found.type, found.status) == (wanted.type, wanted.status):
                return f"Pod {pod.metadata.key} has condition {wanted.type}"
    return ""


def _by_code(codes: ExitCodes, pod: Pod) -> str:
    rows = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    for row in rows:
        ended = row.state.terminated
        if ended is None or ended.exit_code == 0:
            continue
        if codes.container_name not in ("", row.name):
            continue
        if (ended.exit_code in codes.values) == (codes.operator == "In"):
            return (
                f"Container {row.name} for pod {pod.metadata.key} failed"
                f" with exit code {ended.exit_code}"
            )
    return ""
