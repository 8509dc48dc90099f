"""A replica set: how many pods to make, which to delete, and what to report. Pure.

Called by `rollout/sets.py`. Pods that ended or are going do not count; the sets' own deployment
decides how many there should be.

The controller of replica sets: observe, decide, act.

Called by the control loop with the key of a set that changed, or whose pods did.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from muster.api.selectors import from_labels
from muster.control.loop import RequeueAfter
from muster.local.controllers import conditions, pod_readiness
from muster.local.controllers.adoption import find_owned
from muster.local.controllers.informers import OWNER, candidates
from muster.local.controllers.kinds import BURST, PODS, REPLICA_SETS, owner_reference
from muster.local.controllers.pod_control import generate_name, pod_from_template

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from muster.api.meta import Key, Raw
    from muster.local.controllers.informers import SharedInformers
    from muster.local.controllers.kinds import Pod, ReplicaSet
    from muster.local.controllers.pod_control import PodControl


@dataclass(frozen=True)
class ReplicaSetPlan:
    """What one look at a replica set leads to."""

    create: int = 0
    delete: tuple[Pod, ...] = ()
    """Those too many, and those that were switched off with their node."""


def decide(
    replica_set: ReplicaSet, pods: Sequence[Pod], neighbours: Sequence[Pod]
) -> ReplicaSetPlan:
    """Towards the wanted number; `neighbours` are the pods of the same deployment."""
    if replica_set.metadata.deletion_timestamp is not None:
        return ReplicaSetPlan()
    active = [pod for pod in pods if pod.active]
    off = tuple(pod for pod in pods if pod.switched_off and not pod.leaving)
    surplus = len(active) - replica_set.spec.replicas
    if surplus < 0:
        return ReplicaSetPlan(create=min(-surplus, BURST), delete=off)
    leaving = pod_readiness.deletion_order(active, neighbours)[: min(surplus, BURST)]
    return ReplicaSetPlan(delete=(*leaving, *off))


def status(replica_set: ReplicaSet, pods: Sequence[Pod], trouble: str, now: datetime) -> Raw:
    """What to report of it; `trouble` says why pods could not be created."""
    spec, active = replica_set.spec, [pod for pod in pods if pod.active]
    labels = ((spec.template.get("metadata") or {}).get("labels") or {}).items()
    ready = [pod for pod in active if pod_readiness.ready(pod)]
    counts = {
        "fullyLabeledReplicas": sum(labels <= pod.metadata.labels.items() for pod in active),
        "readyReplicas": len(ready),
        "availableReplicas": sum(
            pod_readiness.available(p, spec.min_ready_seconds, now) for p in ready
        ),
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
    if conditions.find(rows, "ReplicaFailure") is not None:
        return rows
    return [*rows, conditions.new_condition("ReplicaFailure", "True", "FailedCreate", trouble, now)]


def look_again(replica_set: ReplicaSet, pods: Sequence[Pod], now: datetime) -> float | None:
    """Seconds until a pod that is ready now has been so for long enough."""
    wait = replica_set.spec.min_ready_seconds
    if not wait:
        return None
    times = [pod_readiness.available_at(pod, wait) for pod in pods if pod.active]
    later = [(at - now).total_seconds() for at in times if at is not None and at > now]
    return min(later, default=None)


class ReplicaSets:
    def __init__(self, hands: PodControl, watched: SharedInformers) -> None:
        self._hands = hands
        self._watched = watched

    async def __call__(self, key: Key) -> RequeueAfter | None:
        found = self._watched.sets.get(key)
        if found is None:
            return None  # Its pods go with it, by their owner.
        waiting = self._hands.expect.pending(found.metadata.uid)
        if waiting is not None:
            return RequeueAfter(waiting)
        mine = find_owned(
            found.metadata,
            from_labels(found.spec.selector),
            candidates(self._watched.pods, found.metadata),
        )
        pods = await self._hands.take(found.metadata, PODS, mine)
        trouble = await self._reach(found, pods)
        now = self._hands.clock()
        new = status(found, pods, str(trouble) if trouble else "", now)
        await self._hands.write_status(found.metadata, found.status, new)
        if trouble is not None:
            raise trouble
        again = look_again(found, pods, now)
        return None if again is None else RequeueAfter(again)

    async def _reach(self, found: ReplicaSet, pods: list[Pod]) -> Exception | None:
        """Make or delete pods; the answer is why some could not be made."""
        step = decide(found, pods, self._neighbours(found))
        meta = found.metadata
        if step.delete:
            await self._hands.delete_pods(meta, step.delete)
        ours = owner_reference(REPLICA_SETS, meta)
        bodies = [
            pod_from_template(
                found.spec.template, generate_name(f"{meta.name}-"), meta.namespace, ours
            )
            for _ in range(step.create)
        ]
        return await self._hands.create_pods(meta, bodies)

    def _neighbours(self, found: ReplicaSet) -> list[Pod]:
        """The pods of all sets of the same deployment."""
        controller = found.metadata.controller
        sets = [found] if controller is None else self._watched.sets.by(OWNER, controller.uid)
        return [pod for one in sets for pod in self._watched.pods.by(OWNER, one.metadata.uid)]
