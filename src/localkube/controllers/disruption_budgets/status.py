"""The status of a disruption budget, from its pods and the sizes of their owners: pure.

A budget with a number in `minAvailable` counts the pods that exist. Any other budget is a share of
the pods that there should be, which only the owners of the pods know: a pod that is missing just
now must count as unavailable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kubekit.objects.meta import Raw, read_timestamp, shifted, timestamp
from localkube.controllers.pod_readiness import ready
from localkube.controllers.workloads import share

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from localkube.controllers.workloads import DisruptionBudget, DisruptionBudgetSpec, Pod

DELETION_TIMEOUT = 120.0
"""Seconds after which an evicted pod that is not being deleted counts as healthy again."""


class OwnerSizes(NamedTuple):
    """The pods that the owners of a budget's pods should have."""

    replicas: int = 0
    unowned: int = 0
    """Pods without a controller: nobody says how many of them there should be."""
    problem: str = ""
    """Why the number cannot be known."""


def needs_owner_sizes(spec: DisruptionBudgetSpec) -> bool:
    """Whether the budget is a share of the pods that there should be."""
    return spec.max_unavailable is not None or isinstance(spec.min_available, str)


def status(budget: DisruptionBudget, pods: Sequence[Pod], sizes: OwnerSizes, now: datetime) -> Raw:
    """The status of a budget that selects these pods."""
    if sizes.problem:
        return _with_condition(
            budget, {**budget.status, "disruptionsAllowed": 0}, "SyncFailed", sizes.problem, now
        )
    expected = sizes.replicas if needs_owner_sizes(budget.spec) else len(pods)
    required = _required(budget.spec, expected)
    disrupted = still_disrupted(budget.status.get("disruptedPods") or {}, pods, now)
    healthy = sum(_is_healthy(pod, disrupted) for pod in pods)
    allowed = max(0, healthy - required) if expected > 0 else 0
    counted: Raw = {
        "currentHealthy": healthy,
        "desiredHealthy": required,
        "disruptionsAllowed": allowed,
        "expectedPods": expected,
        "observedGeneration": budget.metadata.generation,
    }
    if disrupted:
        counted["disruptedPods"] = {name: timestamp(at) for name, at in disrupted.items()}
    counted["conditions"] = budget.status.get("conditions") or []
    return _with_condition(
        budget, counted, "SufficientPods" if allowed else "InsufficientPods", "", now
    )


def still_disrupted(
    recorded: Mapping[str, str], pods: Iterable[Pod], now: datetime
) -> dict[str, datetime]:
    """The pods that were evicted, and when, as long as their deletion is awaited."""
    alive = {pod.metadata.name for pod in pods if not pod.terminating}
    times = {name: read_timestamp(at) for name, at in recorded.items() if name in alive}
    return {
        name: at
        for name, at in times.items()
        if at is not None and now < shifted(at, DELETION_TIMEOUT)
    }


def _is_healthy(pod: Pod, disrupted: Mapping[str, datetime]) -> bool:
    return ready(pod) and not pod.terminating and pod.metadata.name not in disrupted


def _required(spec: DisruptionBudgetSpec, expected: int) -> int:
    if spec.max_unavailable is not None:
        return max(0, expected - share(spec.max_unavailable, expected))
    return 0 if spec.min_available is None else share(spec.min_available, expected)


def _with_condition(
    budget: DisruptionBudget, status: Raw, reason: str, message: str, now: datetime
) -> Raw:
    """The status with the condition that says whether a pod may be evicted, and why."""
    conditions: list[Raw] = list(status.get("conditions") or [])
    stored = next((c for c in conditions if c["type"] == "DisruptionAllowed"), None)
    value = "True" if reason == "SufficientPods" else "False"
    unchanged = stored is not None and stored["status"] == value
    since = stored["lastTransitionTime"] if stored and unchanged else timestamp(now)
    condition = {
        "type": "DisruptionAllowed",
        "status": value,
        "reason": reason,
        "message": message,
        "observedGeneration": budget.metadata.generation,
        "lastTransitionTime": since,
    }
    others = [c for c in conditions if c["type"] != "DisruptionAllowed"]
    return {**status, "conditions": [*others, condition]}
