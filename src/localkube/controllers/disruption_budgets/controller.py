"""The controller of PodDisruptionBudgets: counts the pods of a budget and writes its status.

The API server evicts a pod only if the status allows it.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from kubekit.client.request import Request, object_path
from kubekit.control.loop import RequeueAfter
from kubekit.errors import InvalidSelector, NotFound
from kubekit.objects.events import EventText
from kubekit.objects.kinds import Kind
from kubekit.objects.meta import Key, shifted
from kubekit.objects.selectors import from_labels
from localkube.controllers.disruption_budgets.status import (
    DELETION_TIMEOUT,
    OwnerSizes,
    needs_owner_sizes,
    still_disrupted,
)
from localkube.controllers.disruption_budgets.status import status as budget_status
from localkube.controllers.informers import NAMESPACE, possible_owners

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kubekit.objects.meta import OwnerReference
    from kubekit.watch.informer_cache import Change
    from localkube.controllers.informers import SharedInformers
    from localkube.controllers.pod_control import PodControl
    from localkube.controllers.workloads import DisruptionBudget, Pod

_NO_PODS = EventText("NoPods", "No matching pods found")


@dataclass(frozen=True)
class DisruptionBudgetController:
    pod_control: PodControl
    informers: SharedInformers

    def connect(self, wake: Callable[[Key], None]) -> None:
        """Wake a budget when it, its pods or the sizes of their owners change."""
        budgets = self.informers.budgets

        def on_pod(change: Change[Pod]) -> None:
            # Both versions: a pod whose labels changed concerns the budget that it left.
            for pod in (change.old, change.new):
                for key in possible_owners(budgets, pod) if pod is not None else ():
                    wake(key)

        def on_owner(change: Change[Any]) -> None:
            for budget in budgets.by(NAMESPACE, change.current.metadata.namespace):
                if needs_owner_sizes(budget.spec):
                    wake(budget.metadata.key)

        budgets.subscribe(lambda change: wake(change.current.metadata.key))
        self.informers.pods.subscribe(on_pod)
        for owners in (
            self.informers.deployments,
            self.informers.sets,
            self.informers.stateful_sets,
        ):
            owners.subscribe(on_owner)

    async def reconcile(self, key: Key) -> RequeueAfter | None:
        budget = self.informers.budgets.get(key)
        if budget is None or budget.metadata.deletion_timestamp is not None:
            return None
        pods = self._pods(budget)
        if not pods:
            self.pod_control.record(budget.metadata, _NO_PODS)
        needed = needs_owner_sizes(budget.spec)
        sizes = await self._sizes(key.namespace, pods) if needed else OwnerSizes()
        self._report(budget, sizes)
        now = self.pod_control.clock()
        status = budget_status(budget, pods, sizes, now)
        await self.pod_control.write_status(budget.metadata, budget.status, status)
        disrupted = still_disrupted(status.get("disruptedPods") or {}, pods, now)
        if not disrupted:
            return None
        until = shifted(min(disrupted.values()), DELETION_TIMEOUT)
        return RequeueAfter((until - now).total_seconds())

    def _pods(self, budget: DisruptionBudget) -> list[Pod]:
        with contextlib.suppress(InvalidSelector):
            selector = from_labels(budget.spec.selector)
            pods = self.informers.pods.by(NAMESPACE, budget.metadata.namespace)
            return [pod for pod in pods if selector.matches(pod.metadata.labels)]
        return []

    def _report(self, budget: DisruptionBudget, sizes: OwnerSizes) -> None:
        if sizes.problem:
            text = f"Failed to calculate the number of expected pods: {sizes.problem}"
            event = EventText("CalculateExpectedPodCountFailed", text, "Warning")
            self.pod_control.record(budget.metadata, event)
        elif sizes.unowned:
            text = (
                "Pods selected by this PodDisruptionBudget were found to be unmanaged. As a"
                " result, the status of the PDB cannot be calculated correctly, which may result"
                " in undefined behavior. To account for these pods please set"
                ' ".spec.minAvailable" field of the PDB to an integer value.'
            )
            self.pod_control.record(budget.metadata, EventText("UnmanagedPods", text, "Warning"))

    async def _sizes(self, namespace: str, pods: Sequence[Pod]) -> OwnerSizes:
        """The number of pods that the owners of these pods should have."""
        owners = {pod.metadata.controller for pod in pods} - {None}
        unowned = sum(pod.metadata.controller is None for pod in pods)
        by_size = {}
        for owner in filter(None, owners):
            top = self._top_owner(namespace, owner)
            try:
                by_size[top.uid] = await self._size(namespace, top)
            except NotFound:
                resource = Kind.of(top.api_version, top.kind, dict).resource
                return OwnerSizes(problem=f"{resource} does not implement the scale subresource")
        return OwnerSizes(sum(by_size.values()), unowned)

    def _top_owner(self, namespace: str, owner: OwnerReference) -> OwnerReference:
        """The deployment of a replica set, else the owner itself."""
        if owner.kind == "ReplicaSet":
            replica_set = self.informers.sets.get(Key(namespace, owner.name))
            if replica_set is not None and replica_set.metadata.controller is not None:
                return replica_set.metadata.controller
        return owner

    async def _size(self, namespace: str, owner: OwnerReference) -> int:
        """The replicas of any kind that can be scaled; NotFound for other kinds."""
        kind = Kind.of(owner.api_version, owner.kind, dict)
        path = object_path(kind, Key(namespace, owner.name), "scale")
        response = await self.pod_control.client.send(Request("GET", path))
        scale = msgspec.json.decode(response.body)
        return int((scale.get("spec") or {}).get("replicas", 0))
