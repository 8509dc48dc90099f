"""A cluster in memory: feeds the scheduler changes, does its binds, and can be made to fail.

Everything but the API server is real: state, decisions, loop and binder. Watch events arrive as
soon as something is written.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import msgspec

from kubekit.objects.core import Node, Pod, PodDisruptionBudget, PriorityClass
from kubekit.objects.kinds import Kind
from kubekit.objects.meta import Condition, Key
from kubekit.request_errors import Conflict, NotFound
from muster.contract.pod_groups import HyperNode
from muster.scheduler.decisions.decision import Bind, Delete, Provision, Report
from muster.scheduler.decisions.reasons import Reason
from muster.scheduler.effects.binder import Binder
from muster.scheduler.loop import Loop
from muster.scheduler.settings import Settings
from muster.scheduler.state import State
from tests.muster.scheduler.builders import (
    GPU,
    KIND_OF,
    START,
    STORAGE_KIND_OF,
    gang,
    node,
    volcano_group,
)

replace = msgspec.structs.replace
Fault = Callable[[Pod, str], Exception | None]


class FakeCluster:
    """The API server's side, and the scheduler watching it."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.pods: dict[Key, Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.groups: dict[tuple[Kind[Any], Key], Any] = {}
        self.binds: list[tuple[str, str]] = []
        self.deletes: list[Delete] = []
        self.reports: list[Report] = []
        self.provisions: list[Provision] = []
        self.plans: list[Bind] = []
        self.fault: Fault = lambda pod, node: None
        self.fault_after: Fault = lambda pod, node: None
        self.evict: Callable[[str, str], object] = self.delete_pod
        self.line_changed: Callable[[], object] = lambda: None
        self.settings = settings or Settings()
        self.scheduler(State(self.settings))

    def scheduler(self, state: State) -> None:
        """Start with this state, as a scheduler that has just synced."""
        self.state = state
        self.loop = Loop(state, FakeEffects(self), clock=lambda: asyncio.get_running_loop().time())
        client: Any = self
        self.binder = Binder(client, self.loop.settled, in_flight=8)

    def restart(self) -> None:
        """A new scheduler that has just synced, in the worst order: rivals first."""
        wall_offset = self.state.wall_offset
        self.scheduler(State(self.settings))
        self.state.wall_offset = wall_offset
        pods = sorted(self.pods.values(), key=lambda pod: pod.metadata.name, reverse=True)
        self.add(*self.nodes.values(), *self.groups.values(), *pods)
        self.state.begin_writing()

    # -- what happens in the cluster ---------------------------------------------------------------

    def add(self, *objects: Any) -> None:
        """Create or replace objects."""
        for item in objects:
            self._put(item)
        self.loop.wake()

    def _put(self, item: Any) -> None:
        if isinstance(item, Pod):
            old = self.pods.get(item.metadata.key)
            self.pods[item.metadata.key] = item
            self._tell(old, item)
        elif isinstance(item, Node):
            old_node = self.nodes.get(item.metadata.name)
            self.nodes[item.metadata.name] = item
            self.state.node_changed(old_node, item)
        elif isinstance(item, PodDisruptionBudget):
            self.state.budget_changed(item.metadata.key, item)
        elif isinstance(item, PriorityClass):
            self.state.priority_class_changed(item.metadata.key, item)
        elif type(item) in STORAGE_KIND_OF:
            self.state.storage_changed(STORAGE_KIND_OF[type(item)], item.metadata.key, item)
        elif isinstance(item, HyperNode):
            self.state.hyper_node_changed(item.metadata.key, item)
        else:
            kind = KIND_OF[type(item)]
            self.groups[kind, item.metadata.key] = item
            self.state.group_changed(kind, item.metadata.key, item)

    def delete_pod(self, name: str, namespace: str = "default") -> Pod:
        """Delete the pod's object at once."""
        pod = self.pods.pop(Key(namespace, name))
        self._tell(pod, None)
        self.loop.wake()
        return pod

    def finish(self, name: str, phase: str) -> None:
        """The pod ends; its object stays."""
        old = self.pods[Key("default", name)]
        self.add(replace(old, status=replace(old.status, phase=phase)))

    def terminate(self, name: str) -> None:
        """The pod is asked to end and takes its time."""
        old = self.pods[Key("default", name)]
        self.add(replace(old, metadata=replace(old.metadata, deletion_timestamp=START)))

    def delete_node(self, name: str) -> None:
        self.state.node_changed(self.nodes.pop(name), None)
        self.loop.wake()

    def delete_group(self, name: str) -> None:
        for kind, key in [k for k in self.groups if k[1].name == name]:
            del self.groups[kind, key]
            self.state.group_changed(kind, key, None)
        self.loop.wake()

    # -- what is seen of it ------------------------------------------------------------------------

    def bound(self, prefix: str = "") -> dict[str, str]:
        """Pods that have a node and have not ended, by name."""
        return {
            pod.metadata.name: pod.spec.node_name
            for pod in self.pods.values()
            if pod.metadata.name.startswith(prefix) and pod.spec.node_name and not pod.finished
        }

    def used(self, resource: str = GPU) -> Counter[str]:
        """How much of a resource living pods use on each node."""
        used: Counter[str] = Counter()
        for pod in self.pods.values():
            if pod.spec.node_name and not pod.finished:
                amount = pod.spec.containers[0].resources.requests.get(resource, 0)
                used[pod.spec.node_name] += int(amount)
        return used

    def reason(self, gang: str) -> str:
        """The reason last reported for a gang."""
        return next((row.text for row in self._reasons(gang)), "")

    def code(self, gang: str) -> str:
        """The code of the reason last reported for a gang."""
        return next((row.code for row in self._reasons(gang)), "")

    def _reasons(self, gang: str) -> list[Reason]:
        last = next((row for row in reversed(self.reports) if row.gang.name == gang), None)
        return [last.reason] if last is not None and last.reason is not None else []

    # -- the client of the scheduler --------------------------------------------------------------

    async def bind(self, pod: Key, *, uid: str, node: str, annotations: Mapping[str, str]) -> None:
        await asyncio.sleep(0.001)  # pace: virtual
        current = self.pods.get(pod)
        if current is None:
            raise NotFound(f"{pod} not found", status=404)
        if current.metadata.uid != uid or current.spec.node_name:
            raise Conflict(f"{pod} is another pod or bound", status=409)
        error = self.fault(current, node)
        if error is not None:
            raise error
        now = START + timedelta(seconds=1_000_000 + asyncio.get_running_loop().time())
        scheduled = Condition("PodScheduled", "True", last_transition_time=now)
        metadata = replace(
            current.metadata, annotations={**current.metadata.annotations, **annotations}
        )
        bound = replace(
            current,
            metadata=metadata,
            spec=replace(current.spec, node_name=node),
            status=replace(current.status, phase="Running", conditions=(scheduled,)),
        )
        self.binds.append((current.metadata.name, node))
        self.add(bound)
        error = self.fault_after(current, node)
        if error is not None:
            raise error

    async def get(self, kind: Kind[Pod], key: Key, /) -> Pod:
        await asyncio.sleep(0.001)  # pace: virtual
        if key not in self.pods:
            raise NotFound(f"{key} not found", status=404)
        return self.pods[key]

    def _tell(self, old: Pod | None, new: Pod | None) -> None:
        self.state.now = asyncio.get_running_loop().time()
        self.state.pod_changed(old, new)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[FakeCluster]:
        """The scheduler runs while the block does."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.loop.run()), group.create_task(self.binder.run())]
            try:
                yield self
            finally:
                for task in tasks:
                    task.cancel()

    async def run(self, seconds: float = 1.0) -> None:
        """Run the scheduler for some seconds of virtual time."""
        async with self.running():
            await self.settle(seconds)

    async def settle(self, seconds: float = 1.0) -> None:
        """Let virtual time pass, long enough for everything that is due."""
        await asyncio.sleep(seconds)  # pace: virtual


def cluster_with_gang(size: int, *, gpus: int = 0) -> FakeCluster:
    """A node `n1`, and the pending gang `g`: one GPU per member, and as many GPUs if not given."""
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=gpus or size), volcano_group("g", size), *gang("g", size, gpus=1))
    return cluster


class FakeEffects:
    """Carries the loop's actions out on the fake."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster

    def bind(self, bind: Bind) -> None:
        self._cluster.plans.append(bind)
        self._cluster.binder.submit(bind)

    def delete(self, delete: Delete) -> None:
        self._cluster.deletes.append(delete)
        for pod in delete.pods:
            current = self._cluster.pods.get(pod.metadata.key)
            if current is not None and current.metadata.uid == pod.metadata.uid:
                self._cluster.evict(pod.metadata.name, pod.metadata.namespace)

    def report(self, report: Report) -> None:
        self._cluster.reports.append(report)

    def provision(self, provision: Provision) -> None:
        self._cluster.provisions.append(provision)

    def line_changed(self) -> None:
        self._cluster.line_changed()
