"""The rules of a job's `podFailurePolicy`, and of its `successPolicy`: pure."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from localkube.controllers.batch_jobs.pod_tracking import parse_ranges

if TYPE_CHECKING:
    from localkube.controllers.workloads import ExitCodes, FailureRule, Job, Pod, SuccessRule


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


def action(job: Job, pod: Pod) -> str:
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
    named = parse_ranges(rule.succeeded_indexes, completions)  # up to 2**31 indexes
    count = rule.succeeded_count
    required = sum(map(len, named)) if count is None else count
    ordered = sorted(completed)
    met = sum(bisect_left(ordered, r.stop) - bisect_left(ordered, r.start) for r in named)
    return met >= required
