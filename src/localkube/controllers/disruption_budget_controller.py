"""The controller of PodDisruptionBudgets: counts the pods of a budget and writes its status.

The API server evicts a pod only if the status allows it. A budget with a number in `minAvailable`
counts the pods that exist. Any other budget is a share of the pods that there should be, which only
the owners of the pods know: a pod that is missing just now must count as unavailable.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kubekit.client.request import Request, object_path
from kubekit.control.loop import RequeueAfter
from kubekit.objects import conditions
from kubekit.objects.events import EventText
from kubekit.objects.kinds import Kind
from kubekit.objects.meta import Key, OwnerReference, Raw, read_timestamp, shifted, timestamp
from kubekit.objects.selectors import InvalidSelector, from_labels
from kubekit.request_errors import NotFound
from localkube.controllers.shared_informers import NAMESPACE, SharedInformers, possible_owners
from localkube.controllers.workloads import ready, share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from kubekit.watch.informer_cache import Change
    from localkube.controllers.pod_control import PodControl
    from localkube.controllers.workloads import DisruptionBudget, DisruptionBudgetSpec, Pod

_ALLOWED = "DisruptionAllowed"
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


def budget_status(
    budget: DisruptionBudget, pods: Sequence[Pod], sizes: OwnerSizes, now: datetime
) -> Raw:
    """The status of a budget that selects these pods."""
    if sizes.problem:
        return _with_condition(
            budget, {**budget.status, "disruptionsAllowed": 0}, "SyncFailed", sizes.problem, now
        )
    expected = sizes.replicas if needs_owner_sizes(budget.spec) else len(pods)
    required = _required(budget.spec, expected)
    disrupted = still_disrupted(budget.status.get("disruptedPods") or {}, pods, now)
    remaining = [p for p in pods if not p.terminating and p.metadata.name not in disrupted]
    healthy = sum(map(ready, remaining))
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
    reason = "SufficientPods" if allowed else "InsufficientPods"
    return _with_condition(budget, counted, reason, "", now)


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


def _required(spec: DisruptionBudgetSpec, expected: int) -> int:
    if spec.max_unavailable is not None:
        return max(0, expected - share(spec.max_unavailable, expected))
    return 0 if spec.min_available is None else share(spec.min_available, expected)


def _with_condition(
    budget: DisruptionBudget, status: Raw, reason: str, message: str, now: datetime
) -> Raw:
    """The status with the condition that says whether a pod may be evicted, and why."""
    known, allowed = status.get("conditions") or [], reason == "SufficientPods"
    new = conditions.new_condition(_ALLOWED, str(allowed), reason, message, now)
    old = conditions.find(known, _ALLOWED)
    if old is not None and old["status"] == new["status"]:
        new["lastTransitionTime"] = old["lastTransitionTime"]
    new["observedGeneration"] = budget.metadata.generation
    return {**status, "conditions": [*conditions.without(known, _ALLOWED), new]}


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
