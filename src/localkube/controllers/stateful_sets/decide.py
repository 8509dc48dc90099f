"""The next steps of a stateful set: pure.

With OrderedReady, pods start one after the other, each when the one before it is available, and
stop in the opposite order. A rolling update replaces one pod at a time, the last one first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from localkube.controllers import pod_readiness
from localkube.controllers.revisions.history import HASH
from localkube.controllers.workloads import BURST

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from kubekit.objects.meta import Raw
    from localkube.controllers.workloads import Pod, StatefulSet


@dataclass
class Plan:
    """The writes of one visit."""

    create: list[tuple[int, str]] = field(default_factory=list)
    """Numbers of pods, with the revision of each."""
    delete: list[Pod] = field(default_factory=list)


@dataclass(frozen=True)
class Progress:
    """A stateful set and its pods at one moment."""

    stateful_set: StatefulSet
    pods: dict[int, Pod]
    """By number."""
    current: str
    """The name of the revision that pods below the partition have."""
    update: str
    """The name of the revision of the set's template."""
    now: datetime

    @property
    def ordinals(self) -> range:
        start = self.stateful_set.spec.ordinals.start
        return range(start, start + self.stateful_set.spec.replicas)

    @property
    def condemned(self) -> list[int]:
        """The numbers of pods beyond the replicas, the last one first."""
        return sorted((n for n in self.pods if n not in self.ordinals), reverse=True)

    def is_available(self, pod: Pod | None) -> bool:
        if pod is None or pod.terminating or pod.status.phase != "Running":
            return False
        return pod_readiness.available(pod, self.stateful_set.spec.min_ready_seconds, self.now)


def decide(progress: Progress) -> Plan:
    """The next steps."""
    plan = Plan()
    if progress.stateful_set.metadata.deletion_timestamp is not None:
        return plan
    ordered = progress.stateful_set.spec.pod_management_policy == "OrderedReady"
    if _fill(plan, progress, ordered) and _shrink(plan, progress, ordered):
        _update(plan, progress)
    return plan


def _fill(plan: Plan, progress: Progress, ordered: bool) -> bool:
    """Create missing pods; whether the next steps may follow."""
    for ordinal in progress.ordinals:
        pod = progress.pods.get(ordinal)
        if pod is None:
            plan.create.append((ordinal, _revision_of_new(progress, ordinal)))
            if len(plan.create) == BURST:  # there may be billions of numbers
                return False
        elif pod.finished:
            if not pod.terminating:
                plan.delete.append(pod)
        elif progress.is_available(pod):
            continue
        if ordered:
            return False
    return True


def _revision_of_new(progress: Progress, ordinal: int) -> str:
    spec = progress.stateful_set.spec
    rolling = spec.update_strategy.rolling_update
    kept = rolling.partition if rolling is not None else 0
    if rolling is None and spec.update_strategy.type == "RollingUpdate":
        kept = progress.stateful_set.count("currentReplicas")
    return progress.current if ordinal < spec.ordinals.start + kept else progress.update


def _shrink(plan: Plan, progress: Progress, ordered: bool) -> bool:
    """Delete the pods beyond the replicas; whether the next steps may follow."""
    # In order, all pods that stay are available here.
    unavailable = [
        ordinal
        for ordinal in reversed(progress.condemned)
        if not progress.is_available(progress.pods.get(ordinal))
    ]
    for ordinal in progress.condemned:
        pod = progress.pods[ordinal]
        waits = pod.terminating or (ordinal in unavailable and ordinal != unavailable[0])
        if ordered and waits:
            return False
        if not pod.terminating:
            plan.delete.append(pod)
            if ordered:
                return False
    return True


def _update(plan: Plan, progress: Progress) -> None:
    """Delete the next pod that has not the current template."""
    strategy = progress.stateful_set.spec.update_strategy
    if strategy.type == "OnDelete":
        return
    rolling = strategy.rolling_update
    for ordinal in reversed(progress.ordinals[rolling.partition if rolling else 0 :]):
        pod = progress.pods.get(ordinal)
        if pod is None:
            return
        if pod.metadata.labels.get(HASH) != progress.update and not pod.terminating:
            plan.delete.append(pod)
            return
        if not progress.is_available(pod):
            return


# -- status --------------------------------------------------------------------------------------


def status(progress: Progress) -> Raw:
    """The status of the set; a finished update makes its revision the current one."""
    stateful_set, pods = progress.stateful_set, list(progress.pods.values())
    ready = [p for p in pods if p.status.phase == "Running" and pod_readiness.ready(p)]
    seconds = stateful_set.spec.min_ready_seconds
    staying = [pod.metadata.labels.get(HASH) for pod in pods if not pod.terminating]
    counts = {
        "readyReplicas": len(ready),
        "currentReplicas": staying.count(progress.current),
        "updatedReplicas": staying.count(progress.update),
    }
    current = progress.current
    if _is_updated(stateful_set, len(pods), counts):
        current, counts["currentReplicas"] = progress.update, counts["updatedReplicas"]
    return {
        "observedGeneration": stateful_set.metadata.generation,
        "replicas": len(pods),
        "availableReplicas": sum(pod_readiness.available(p, seconds, progress.now) for p in ready),
        **{name: count for name, count in counts.items() if count},
        "currentRevision": current,
        "updateRevision": progress.update,
        "collisionCount": int(stateful_set.status.get("collisionCount") or 0),
    }


def _is_updated(stateful_set: StatefulSet, replicas: int, counts: dict[str, int]) -> bool:
    if stateful_set.spec.update_strategy.type != "RollingUpdate":
        return False
    return counts["updatedReplicas"] == replicas == counts["readyReplicas"]


def available_in(progress: Progress) -> float | None:
    """Seconds until the next ready pod becomes available."""
    seconds = progress.stateful_set.spec.min_ready_seconds
    if not seconds:
        return None
    times: Sequence[datetime | None] = [
        pod_readiness.available_at(pod, seconds) for pod in progress.pods.values()
    ]
    waits = [(at - progress.now).total_seconds() for at in times if at and at > progress.now]
    return min(waits, default=None)
