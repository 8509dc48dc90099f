"""Nodes without heartbeats become Unknown and tainted.

A heartbeat is a write of the node's Lease or of its status. Its age is measured by our own clock,
from when we saw it, so neither a wrong clock nor a suspended machine makes a node look dead. A
heartbeat costs one dictionary entry; a node is checked once per grace period.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from kubekit.control.loop import RequeueAfter
from kubekit.errors import Conflict, NotFound
from kubekit.objects.kinds import LEASES
from kubekit.objects.meta import Key, find_condition, preconditions, timestamp
from kubekit.watch.informer import Informer
from localkube.controllers.informers import NODE
from localkube.controllers.node_lifecycle import node_taints
from localkube.controllers.pod_readiness import ready
from localkube.controllers.workloads import NODES, PODS

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from kubekit.client.client import Client
    from kubekit.objects.core import Lease
    from kubekit.watch.informer_cache import Change
    from localkube.controllers.informers import SharedInformers
    from localkube.controllers.workloads import Node

GRACE = 50.0
"""Seconds without a heartbeat after which a node counts as unreachable."""
_SUSPENDED = 5.0
"""A check this many seconds late means that this process was stopped and missed heartbeats."""
_NAMESPACE = "kube-node-lease"


class NodeHeartbeats:
    def __init__(
        self,
        client: Client,
        informers: SharedInformers,
        clock: Callable[[], datetime],
        grace: float = GRACE,
    ) -> None:
        self.leases: Informer[Lease] = Informer(client, LEASES, _NAMESPACE)
        self._client = client
        self._informers = informers
        self._clock = clock
        self._grace = grace
        self._time = asyncio.get_running_loop().time
        self._last_seen: dict[str, float] = {}

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
                for other in self._informers.nodes.all():
                    wake(other.metadata.key)

        # A lease wakes no node: the check at the end of the grace period finds the entry.
        self.leases.subscribe(on_lease)
        self._informers.nodes.subscribe(on_node)

    async def reconcile(self, key: Key) -> RequeueAfter | None:
        node = self._informers.nodes.get(key)
        if node is None:
            return None
        left = self._last_seen.setdefault(key.name, self._time()) + self._grace - self._time()
        # A check this late means that this machine slept, not the node: start a new grace period.
        if left < -_SUSPENDED and node_taints.readiness(node) != "Unknown":
            self._last_seen[key.name], left = self._time(), self._grace
        with contextlib.suppress(NotFound, Conflict):
            if left <= 0 and await self._mark_unknown(node):
                return None  # the event of this write calls again
            await self._taint(node)
            if node_taints.readiness(node) == "Unknown":
                await self._mark_pods_unready(key.name)
        return RequeueAfter(left) if left > 0 else None

    async def _mark_unknown(self, node: Node) -> bool:
        conditions = node_taints.unknown_conditions(node, self._clock())
        if conditions:
            await self._client.patch_status(NODES, node.metadata, {"conditions": conditions})
        return bool(conditions)

    async def _taint(self, node: Node) -> None:
        nodes = self._informers.nodes.all()
        some_ready = any(node_taints.readiness(other) == "True" for other in nodes)
        taints = node_taints.taints(node, self._clock(), evicts=some_ready)
        if taints is None:
            return
        meta = node.metadata
        body = {"metadata": preconditions(meta), "spec": {"taints": taints}}
        await self._client.patch(NODES, meta.key, body)

    async def _mark_pods_unready(self, name: str) -> None:
        """The readiness of pods on an unreachable node is unknown, so they count as not ready."""
        for pod in self._informers.pods.by(NODE, name):
            if not ready(pod) or pod.finished:
                continue
            condition = {
                "type": "Ready",
                "status": "False",
                "lastTransitionTime": timestamp(self._clock()),
            }
            with contextlib.suppress(NotFound, Conflict):
                await self._client.patch_status(PODS, pod.metadata, {"conditions": [condition]})


def _readiness(node: Node | None) -> str:
    return node_taints.readiness(node) if node is not None else ""


def _heartbeat(node: Node | None) -> object:
    """The Ready condition that the node itself wrote; `Unknown` was written by us."""
    condition = find_condition(node.status.conditions, "Ready") if node is not None else None
    return None if condition is None or condition.status == "Unknown" else condition
