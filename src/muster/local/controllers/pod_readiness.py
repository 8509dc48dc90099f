"""How it stands with a pod: ready, available for long enough, and which goes first when some must.

Pure. Used by the decisions about replica sets, deployments, jobs and endpoints.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from muster.api.meta import condition_is_true, find_condition

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from muster.local.controllers.kinds import Pod

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "": 0, "Unknown": 1, "Running": 2}


def ready(pod: Pod) -> bool:
    return condition_is_true(pod.status.conditions, "Ready")


def available_at(pod: Pod, min_ready_seconds: int) -> datetime | None:
    """When it counts, or counted, as available; None while it is not ready."""
    found = find_condition(pod.status.conditions, "Ready")
    if found is None or found.status != "True" or found.last_transition_time is None:
        return None
    return found.last_transition_time + timedelta(seconds=min_ready_seconds)


def available(pod: Pod, min_ready_seconds: int, now: datetime) -> bool:
    if not min_ready_seconds:
        return ready(pod)
    at = available_at(pod, min_ready_seconds)
    return at is not None and at <= now


def deletion_order(pods: Sequence[Pod], neighbours: Sequence[Pod]) -> list[Pod]:
    """These pods, those that will be missed least first.

    Not yet on a node, not running, not ready; then cheap by annotation; then crowded with
    `neighbours` on one node; then ready for the shortest time, restarted often, young.
    """
    crowd = Counter(pod.spec.node_name for pod in neighbours if pod.active)

    def rank(pod: Pod) -> tuple[Any, ...]:
        since = available_at(pod, 0)
        born = pod.metadata.creation_timestamp
        restarts = max((row.restart_count for row in pod.status.container_statuses), default=0)
        return (
            bool(pod.spec.node_name),
            _PHASES.get(pod.status.phase, 0),
            ready(pod),
            _cost(pod),
            -crowd[pod.spec.node_name],
            -(since.timestamp() if since else 0.0),
            -restarts,
            -(born.timestamp() if born else 0.0),
            pod.metadata.name,
        )

    return sorted(pods, key=rank)


def _cost(pod: Pod) -> int:
    try:
        return int(pod.metadata.annotations.get(DELETION_COST, "0"))
    except ValueError:
        return 0
