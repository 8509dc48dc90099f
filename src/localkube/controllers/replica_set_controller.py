"""The controller of ReplicaSets: creates and deletes pods towards the desired number.

Pods that have ended or are terminating do not count. The status is written after the pods, so that
it can say why some could not be created.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubekit.objects import conditions
from localkube.controllers import workloads
from localkube.controllers.pod_control import OwnerController, new_pod
from localkube.controllers.shared_informers import OWNER
from localkube.controllers.workloads import BURST, REPLICA_SETS, Pod, ReplicaSet

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from kubekit.objects.meta import Raw


@dataclass(frozen=True)
class ReplicaSetPlan:
    """The pods that one visit creates and deletes."""

    create: int = 0
    delete: tuple[Pod, ...] = ()
    """Surplus pods, and pods that were stopped with their node."""


def decide(
    replica_set: ReplicaSet, pods: Sequence[Pod], neighbours: Sequence[Pod]
) -> ReplicaSetPlan:
    """The steps to the desired number; `neighbours` are the pods of the same deployment."""
    if replica_set.metadata.deletion_timestamp is not None:
        return ReplicaSetPlan()
    active = [pod for pod in pods if pod.active]
    stopped = tuple(pod for pod in pods if pod.stopped_with_node and not pod.terminating)
    surplus = len(active) - replica_set.spec.replicas
    if surplus < 0:
        return ReplicaSetPlan(create=min(-surplus, BURST), delete=stopped)
    chosen = workloads.deletion_order(active, neighbours)[: min(surplus, BURST)]
    return ReplicaSetPlan(delete=(*chosen, *stopped))


def status(replica_set: ReplicaSet, pods: Sequence[Pod], error: str, now: datetime) -> Raw:
    """The status of a replica set; `error` says why pods could not be created."""
    spec, active = replica_set.spec, [pod for pod in pods if pod.active]
    labels = ((spec.template.get("metadata") or {}).get("labels") or {}).items()
    ready = [pod for pod in active if workloads.ready(pod)]
    counts = {
        "fullyLabeledReplicas": sum(labels <= pod.metadata.labels.items() for pod in active),
        "readyReplicas": len(ready),
        "availableReplicas": sum(
            workloads.available(p, spec.min_ready_seconds, now) for p in ready
        ),
    }
    result: Raw = {"replicas": len(active), **{k: v for k, v in counts.items() if v}}
    result["terminatingReplicas"] = sum(pod.terminating and not pod.finished for pod in pods)
    result["observedGeneration"] = replica_set.metadata.generation
    new = _with_failure(replica_set.status.get("conditions") or [], error, now)
    return result | ({"conditions": new} if new else {})


def _with_failure(known: list[Raw], error: str, now: datetime) -> list[Raw]:
    if not error:
        return conditions.without(known, "ReplicaFailure")
    if conditions.find(known, "ReplicaFailure") is not None:
        return known
    return [*known, conditions.new_condition("ReplicaFailure", "True", "FailedCreate", error, now)]


class ReplicaSetController(OwnerController[ReplicaSet, Pod]):
    async def visit(self, owner: ReplicaSet) -> float | None:
        pods = await self.pod_control.owned(owner, self.objects)
        error = await self._scale(owner, pods)
        now = self.pod_control.clock()
        new = status(owner, pods, str(error) if error else "", now)
        await self.pod_control.write_status(owner.metadata, owner.status, new)
        if error is not None:
            raise error  # the queue tries again, later each time
        active = [pod for pod in pods if pod.active]
        return workloads.available_in(active, owner.spec.min_ready_seconds, now)

    async def _scale(self, replica_set: ReplicaSet, pods: list[Pod]) -> Exception | None:
        """Create or delete pods; returns why some could not be created."""
        plan = decide(replica_set, pods, self._neighbours(replica_set))
        meta = replica_set.metadata
        await self.pod_control.delete_pods(meta, plan.delete)
        base = f"{meta.name}-"
        bodies = [new_pod(REPLICA_SETS, replica_set, base) for _ in range(plan.create)]
        return await self.pod_control.create_pods(meta, bodies)

    def _neighbours(self, replica_set: ReplicaSet) -> list[Pod]:
        """The pods of all replica sets of the same deployment."""
        controller = replica_set.metadata.controller
        sets = (
            [replica_set] if controller is None else self.informers.sets.by(OWNER, controller.uid)
        )
        return [pod for rs in sets for pod in self.informers.pods.by(OWNER, rs.metadata.uid)]
