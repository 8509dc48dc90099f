"""Whether a pod is ready and available, and in which order pods are deleted: pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kubekit.objects.annotation_values import read_integer
from kubekit.objects.meta import condition_is_true, find_condition, shifted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from localkube.controllers.workloads import Pod

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "": 0, "Unknown": 1, "Running": 2}


def ready(pod: Pod) -> bool:
    return condition_is_true(pod.status.conditions, "Ready")


def available_at(pod: Pod, min_ready_seconds: int) -> datetime | None:
    """When the pod becomes, or became, available; None while it is not ready."""
    condition = find_condition(pod.status.conditions, "Ready")
    if condition is None or condition.status != "True" or condition.last_transition_time is None:
        return None
    return shifted(condition.last_transition_time, min_ready_seconds)


def available(pod: Pod, min_ready_seconds: int, now: datetime) -> bool:
    if not min_ready_seconds:
        return ready(pod)
    at = available_at(pod, min_ready_seconds)
    return at is not None and at <= now


def deletion_order(pods: Sequence[Pod], neighbours: Sequence[Pod]) -> list[Pod]:
    """These pods, the least useful first.

    Pods that are not bound, not running or not ready come first; then pods with a low deletion
    cost; then pods with many `neighbours` on their node; then pods that became ready last,
    restarted most often, were created last.
    """
    per_node = Counter(pod.spec.node_name for pod in neighbours if pod.active)

    def rank(pod: Pod) -> tuple[Any, ...]:
        since = available_at(pod, 0)
        created = pod.metadata.creation_timestamp
        restarts = max((c.restart_count for c in pod.status.container_statuses), default=0)
        return (
            bool(pod.spec.node_name),
            _PHASES.get(pod.status.phase, 0),
            ready(pod),
            _cost(pod),
            -per_node[pod.spec.node_name],
            -(since.timestamp() if since else 0.0),
            -restarts,
            -(created.timestamp() if created else 0.0),
            pod.metadata.name,
        )

    return sorted(pods, key=rank)


def _cost(pod: Pod) -> int:
    text = pod.metadata.annotations.get(DELETION_COST, "")
    cost = read_integer(text.removeprefix("-")) or 0
    return -cost if text.startswith("-") else cost
