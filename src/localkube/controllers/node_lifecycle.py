"""Nodes that fall silent or are deleted, and the pods on them.

A node without heartbeats becomes Unknown and tainted. A heartbeat is a write of the node's Lease or
of its status. Its age is measured by our own clock, from when we saw it, so neither a wrong clock
nor a suspended machine makes a node look dead. A heartbeat costs one dictionary entry; a node is
checked once per grace period.

Pods are evicted from nodes whose NoExecute taints they do not, or no longer, tolerate. A pod is
checked when it is bound, when the taints of its node change, and when its time is over. Pods of a
node that no longer exists are removed, because no node agent will ever report their end; the node
has some time to come back first, as when it is deleted and registers again.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kubekit.control.loop import RequeueAfter
from kubekit.objects.conditions import disruption_condition
from kubekit.objects.core import Lease, tolerates
from kubekit.objects.events import EventText
from kubekit.objects.kinds import LEASES
from kubekit.objects.meta import (
    MAX_SECONDS,
    Key,
    find_condition,
    preconditions,
    read_timestamp,
    shifted,
    timestamp,
)
from kubekit.request_errors import Conflict, NotFound
from kubekit.watch.informer import Informer
from localkube.controllers import node_taints
from localkube.controllers.shared_informers import NODE, SharedInformers
from localkube.controllers.workloads import NODES, PODS, Node, Pod, TimedTaint, ready

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from datetime import datetime

    from kubekit.client.client import Client
    from kubekit.watch.informer_cache import Change
    from localkube.controllers.pod_control import PodControl

GRACE = 50.0
"""Seconds without a heartbeat after which a node counts as unreachable."""
_SUSPENDED = 5.0
"""A check this many seconds late means that this process was stopped and missed heartbeats."""
_NAMESPACE = "kube-node-lease"


@dataclass
class NodeHeartbeats:
    client: Client
    informers: SharedInformers
    clock: Callable[[], datetime]
    grace: float
    _last_seen: dict[str, float] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.leases: Informer[Lease] = Informer(self.client, LEASES, _NAMESPACE)
        self._time = asyncio.get_running_loop().time

    def connect(self, wake: Callable[[Key], None]) -> None:
        def on_lease(change: Change[Lease]) -> None:
            if change.new is not None:
                self._last_seen[change.new.metadata.name] = self._time()

        def on_node(change: Change[Node]) -> None:
            name = change.current.metadata.name
            if change.new is None:
                self._last_seen.pop(name, None)
            elif _heartbeat(change.new) not in (None, _heartbeat(change.old)):
                self._last_seen[name] = self._time()
            wake(Key("", name))
            # Whether a node's taints evict depends on whether any other node is ready.
            if _readiness(change.old) != _readiness(change.new):
                for other in self.informers.nodes.all():
                    wake(other.metadata.key)

        # A lease wakes no node: the check at the end of the grace period finds the entry.
        self.leases.subscribe(on_lease)
        self.informers.nodes.subscribe(on_node)

    async def reconcile(self, key: Key) -> RequeueAfter | None:
        node = self.informers.nodes.get(key)
        if node is None:
            return None
        left = self._last_seen.setdefault(key.name, self._time()) + self.grace - self._time()
        # A check this late means that this machine slept, not the node: start a new grace period.
        if left < -_SUSPENDED and node_taints.readiness(node) != "Unknown":
            self._last_seen[key.name], left = self._time(), self.grace
        with contextlib.suppress(NotFound, Conflict):
            unknown = node_taints.unknown_conditions(node, self.clock())
            if left <= 0 and unknown:
                await self.client.patch_status(NODES, node.metadata, {"conditions": unknown})
                return None  # the event of this write calls again
            await self._taint(node)
            if node_taints.readiness(node) == "Unknown":
                # The readiness of pods on it is unknown, so they count as not ready.
                pods = [p for p in self.informers.pods.by(NODE, key.name) if ready(p)]
                await _for_each(self._mark_unready, [p for p in pods if not p.finished])
        return RequeueAfter(left) if left > 0 else None

    async def _taint(self, node: Node) -> None:
        nodes = self.informers.nodes.all()
        some_ready = any(node_taints.readiness(other) == "True" for other in nodes)
        taints = node_taints.taints(node, self.clock(), evicts=some_ready)
        if taints is None:
            return
        meta = node.metadata
        body = {"metadata": preconditions(meta), "spec": {"taints": taints}}
        await self.client.patch(NODES, meta.key, body)

    async def _mark_unready(self, pod: Pod) -> None:
        at = timestamp(self.clock())
        condition = {"type": "Ready", "status": "False", "lastTransitionTime": at}
        with contextlib.suppress(NotFound, Conflict):
            await self.client.patch_status(PODS, pod.metadata, {"conditions": [condition]})


async def _for_each(act: Callable[[Pod], Awaitable[None]], pods: Iterable[Pod]) -> None:
    """Do it to each pod of a node, whatever becomes of the others; raises all errors at the end."""
    errors: list[Exception] = []
    for pod in pods:
        try:
            await act(pod)
        except Exception as error:  # noqa: BLE001 - raised below
            errors.append(error)
    if errors:
        raise ExceptionGroup("some pods of the node", errors)


def _readiness(node: Node | None) -> str:
    return node_taints.readiness(node) if node is not None else ""


def _heartbeat(node: Node | None) -> object:
    """The Ready condition that the node itself wrote; `Unknown` was written by us."""
    condition = find_condition(node.status.conditions, "Ready") if node is not None else None
    return None if condition is None or condition.status == "Unknown" else condition


def evict_at(pod: Pod, taints: Sequence[TimedTaint], now: datetime) -> datetime | None:
    """When the pod must be evicted; None if it may stay.

    A taint that is not tolerated evicts at once. Of several tolerations of a taint the shortest
    time counts, from when the taint was added.
    """
    times = []
    for taint in taints:
        if taint.effect != "NoExecute":
            continue
        since = read_timestamp(taint.time_added) or now
        matching = [t.toleration_seconds for t in pod.spec.tolerations if tolerates(t, taint)]
        if not matching:
            return now
        limits = [seconds for seconds in matching if seconds is not None]
        if limits:
            times.append(shifted(since, max(0, min(*limits, MAX_SECONDS))))
    return min(times, default=None)


@dataclass(frozen=True)
class TaintEviction:
    pod_control: PodControl
    informers: SharedInformers

    def connect(self, wake: Callable[[Key], None]) -> None:
        def on_node(change: Change[Node]) -> None:
            before = change.old.spec.taints if change.old is not None else ()
            if change.new is not None and change.new.spec.taints != before:
                for pod in self.informers.pods.by(NODE, change.new.metadata.name):
                    wake(pod.metadata.key)

        def on_pod(change: Change[Pod]) -> None:
            before = change.old.spec if change.old is not None else None
            spec = change.new.spec if change.new is not None else None
            if spec is not None and spec.node_name and spec != before:
                wake(change.current.metadata.key)

        self.informers.nodes.subscribe(on_node)
        self.informers.pods.subscribe(on_pod)

    async def reconcile(self, key: Key) -> RequeueAfter | None:
        pod = self.informers.pods.get(key)
        if pod is None or pod.terminating:
            return None
        node = self.informers.nodes.get(Key("", pod.spec.node_name))
        now = self.pod_control.clock()
        at = evict_at(pod, node.spec.taints, now) if node is not None else None
        if at is None:
            return None
        if at > now:
            return RequeueAfter((at - now).total_seconds())
        await self._evict(pod)
        return None

    async def _evict(self, pod: Pod) -> None:
        meta, client = pod.metadata, self.pod_control.client
        message = "Taint manager: deleting due to NoExecute taint"
        now = self.pod_control.clock()
        condition = disruption_condition("DeletionByTaintManager", message, now)
        with contextlib.suppress(NotFound, Conflict):
            # The condition first: the owner must see why the pod ended, not only that it did.
            if not pod.finished:
                await client.patch_status(PODS, meta, {"conditions": [condition]})
            await client.delete(PODS, meta.key, uid=meta.uid)
            event = EventText("TaintManagerEviction", f"Marking for deletion Pod {meta.key}")
            self.pod_control.record(meta, event)


MISSING_NODE_GRACE = 40.0
"""Seconds for which a node may be missing."""


@dataclass(frozen=True)
class PodGc:
    """Keys are nodes."""

    client: Client
    informers: SharedInformers
    clock: Callable[[], datetime]
    grace: float
    _missing_since: dict[str, float] = field(default_factory=dict)

    def connect(self, wake: Callable[[Key], None]) -> None:
        def on_node(change: Change[Node]) -> None:
            if change.new is None:
                wake(change.current.metadata.key)
            else:
                self._missing_since.pop(change.new.metadata.name, None)

        def on_pod(change: Change[Pod]) -> None:
            name = change.current.spec.node_name
            if change.new is not None and name and self._node(name) is None:
                wake(Key("", name))

        self.informers.nodes.subscribe(on_node)
        self.informers.pods.subscribe(on_pod)

    def _node(self, name: str) -> Node | None:
        return self.informers.nodes.get(Key("", name))

    async def reconcile(self, key: Key) -> RequeueAfter | None:
        pods = self.informers.pods.by(NODE, key.name)
        if self._node(key.name) is not None or not pods:
            self._missing_since.pop(key.name, None)
            return None
        now = asyncio.get_running_loop().time()
        left = self._missing_since.setdefault(key.name, now) + self.grace - now
        if left > 0:
            return RequeueAfter(left)
        with contextlib.suppress(NotFound):
            await self.client.get(NODES, key)
            return RequeueAfter(self.grace)  # the node exists; our watch is behind
        await _for_each(self._remove, pods)
        return None

    async def _remove(self, pod: Pod) -> None:
        meta = pod.metadata
        message = "PodGC: node no longer exists"
        condition = disruption_condition("DeletionByPodGC", message, self.clock())
        with contextlib.suppress(NotFound, Conflict):
            if not pod.finished:
                status = {"phase": "Failed", "conditions": [condition]}
                await self.client.patch_status(PODS, meta, status)
            # Without a grace period, which only a node agent could end.
            await self.client.delete(PODS, meta.key, uid=meta.uid, grace=0)
