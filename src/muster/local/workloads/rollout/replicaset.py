"""A replica set: how many pods to make, which to delete, and what to report. Pure.

Called by `rollout/sets.py`. Pods that ended or are going do not count; the sets' own deployment
decides how many there should be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from muster.local.workloads import conditions, health
from muster.local.workloads.shapes import BURST

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from muster.api.meta import Raw
    from muster.local.workloads.shapes import Pod, ReplicaSet


@dataclass(frozen=True)
class Step:
    """What one look at a replica set leads to."""

    create: int = 0
    delete: tuple[Pod, ...] = ()
    """Those too many, and those that were switched off with their node."""


def decide(replica_set: ReplicaSet, pods: Sequence[Pod], neighbours: Sequence[Pod]) -> Step:
    """Towards the wanted number; `neighbours` are the pods of the same deployment."""
    if replica_set.metadata.deletion_timestamp is not None:
        return Step()
    active = [pod for pod in pods if pod.active]
    off = tuple(pod for pod in pods if pod.switched_off and not pod.leaving)
    surplus = len(active) - replica_set.spec.replicas
    if surplus < 0:
        return Step(create=min(-surplus, BURST), delete=off)
    leaving = health.first_to_go(active, neighbours)[: min(surplus, BURST)]
    return Step(delete=(*leaving, *off))


def status(replica_set: ReplicaSet, pods: Sequence[Pod], trouble: str, now: datetime) -> Raw:
    """What to report of it; `trouble` says why pods could not be created."""
    spec, active = replica_set.spec, [pod for pod in pods if pod.active]
    labels = ((spec.template.get("metadata") or {}).get("labels") or {}).items()
    ready = [pod for pod in active if health.ready(pod)]
    counts = {
        "fullyLabeledReplicas": sum(labels <= pod.metadata.labels.items() for pod in active),
        "readyReplicas": len(ready),
        "availableReplicas": sum(health.available(p, spec.min_ready_seconds, now) for p in ready),
    }
    found: Raw = {"replicas": len(active), **{k: v for k, v in counts.items() if v}}
    going = sum(pod.leaving and not pod.finished for pod in pods)
    found["terminatingReplicas"] = going
    found["observedGeneration"] = replica_set.metadata.generation
    rows = _with_trouble(replica_set.status.get("conditions") or [], trouble, now)
    return found | ({"conditions": rows} if rows else {})


def _with_trouble(rows: list[Raw], trouble: str, now: datetime) -> list[Raw]:
    if not trouble:
        return conditions.without(rows, "ReplicaFailure")
    if conditions.row(rows, "ReplicaFailure") is not None:
        return rows
    return [*rows, conditions.fresh("ReplicaFailure", "True", "FailedCreate", trouble, now)]


def look_again(replica_set: ReplicaSet, pods: Sequence[Pod], now: datetime) -> float | None:
    """Seconds until a pod that is ready now has been so for long enough."""
    wait = replica_set.spec.min_ready_seconds
    if not wait:
        return None
    times = [health.available_at(pod, wait) for pod in pods if pod.active]
    later = [(at - now).total_seconds() for at in times if at is not None and at > now]
    return min(later, default=None)
