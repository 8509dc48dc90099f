"""Who is silent: the controller of nodes.

A node's heartbeat is its Lease, or a write of its status. Silence is measured by our own clock,
from when we saw the last beat, so neither a wrong clock nor a machine that slept makes a node look
dead. A beat costs one note in a dictionary; a node is looked at once per grace period.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from muster.api.kinds import LEASES
from muster.api.meta import Key, find_condition, timestamp
from muster.control.loop import RequeueAfter
from muster.errors import NotFound
from muster.kube.request import PatchType
from muster.kube.watch.informer import Informer
from muster.local.controllers.informers import NODE
from muster.local.controllers.kinds import NODES, PODS, preconditions
from muster.local.controllers.node_lifecycle import node_taints
from muster.local.controllers.pod_readiness import ready

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from muster.api.core import Lease
    from muster.kube.client import Client
    from muster.kube.watch.informer_cache import Change
    from muster.local.controllers.informers import SharedInformers
    from muster.local.controllers.kinds import Node

GRACE = 50.0
"""Seconds of silence after which a node counts as unreachable."""
_LATE = 5.0
"""Seconds after which a look is so late that we ourselves were stopped: nobody was listening."""
_SPACE = "kube-node-lease"


class NodeHeartbeats:
    def __init__(
        self,
        client: Client,
        watched: SharedInformers,
        clock: Callable[[], datetime],
        grace: float = GRACE,
    ) -> None:
        self.leases: Informer[Lease] = Informer(client, LEASES, _SPACE)
        self._client = client
        self._watched = watched
        self._clock = clock
        self._grace = grace
        self._time = asyncio.get_running_loop().time
        self._heard: dict[str, float] = {}

    def connect(self, wake: Callable[[Key], None]) -> None:
        def on_lease(change: Change[Lease]) -> None:
            if change.new is not None:
                self._heard[change.new.metadata.name] = self._time()

        def on_node(change: Change[Node]) -> None:
            name = change.current.metadata.name
            if change.new is None:
                self._heard.pop(name, None)
            elif _beat(change.new) not in (None, _beat(change.old)):
                self._heard[name] = self._time()
            wake(Key("", name))
            if _readiness(change.old) != _readiness(change.new):
                for other in self._watched.nodes.all():
                    wake(other.metadata.key)

        self.leases.subscribe(on_lease)
        self._watched.nodes.subscribe(on_node)

    async def __call__(self, key: Key) -> RequeueAfter | None:
        node = self._watched.nodes.get(key)
        if node is None:
            return None
        left = self._heard.setdefault(key.name, self._time()) + self._grace - self._time()
        if left < -_LATE and node_taints.readiness(node) != "Unknown":
            self._heard[key.name], left = self._time(), self._grace
        with contextlib.suppress(NotFound):
            if left <= 0 and await self._silence(node):
                return None  # The event of this write calls us again.
            await self._taint(node)
            if node_taints.readiness(node) == "Unknown":
                await self._unready_pods(key.name)
        return RequeueAfter(left) if left > 0 else None

    async def _silence(self, node: Node) -> bool:
        rows = node_taints.unknown_conditions(node, self._clock())
        if rows:
            await self._client.patch(
                NODES,
                node.metadata.key,
                {"status": {"conditions": rows}},
                patch_type=PatchType.STRATEGIC,
                subresource="status",
            )
        return bool(rows)

    async def _taint(self, node: Node) -> None:
        some_ready = any(node_taints.readiness(one) == "True" for one in self._watched.nodes.all())
        wanted = node_taints.taints(node, self._clock(), evicts=some_ready)
        if wanted is None:
            return
        meta = node.metadata
        body = {"metadata": preconditions(meta), "spec": {"taints": wanted}}
        await self._client.patch(NODES, meta.key, body)

    async def _unready_pods(self, name: str) -> None:
        """Nobody can say that pods of a silent node are ready."""
        for pod in self._watched.pods.by(NODE, name):
            if not ready(pod) or pod.finished:
                continue
            row = {
                "type": "Ready",
                "status": "False",
                "lastTransitionTime": timestamp(self._clock()),
            }
            with contextlib.suppress(NotFound):
                await self._client.patch(
                    PODS,
                    pod.metadata.key,
                    {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [row]}},
                    patch_type=PatchType.STRATEGIC,
                    subresource="status",
                )


def _readiness(node: Node | None) -> str:
    return node_taints.readiness(node) if node is not None else ""


def _beat(node: Node | None) -> object:
    """What the node itself wrote; a condition that we wrote is no sign of life."""
    row = find_condition(node.status.conditions, "Ready") if node is not None else None
    return None if row is None or row.status == "Unknown" else row
