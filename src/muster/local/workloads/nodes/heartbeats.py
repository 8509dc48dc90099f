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
from muster.api.meta import Key, condition, timestamp
from muster.control.loop import After
from muster.errors import NotFound
from muster.kube.informer import Informer
from muster.kube.request import Patch
from muster.local.workloads.health import ready
from muster.local.workloads.nodes import standing
from muster.local.workloads.shapes import NODES, PODS, as_seen
from muster.local.workloads.watched import NODE

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from muster.api.core import Lease
    from muster.kube.client import Client
    from muster.kube.store import Change
    from muster.local.workloads.shapes import Node
    from muster.local.workloads.watched import Watched

GRACE = 50.0
"""Seconds of silence after which a node counts as unreachable."""
_LATE = 5.0
"""Seconds after which a look is so late that we ourselves were stopped: nobody was listening."""
_SPACE = "kube-node-lease"


class Heartbeats:
    def __init__(
        self, client: Client, watched: Watched, clock: Callable[[], datetime], grace: float = GRACE
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

    async def __call__(self, key: Key) -> After | None:
        node = self._watched.nodes.get(key)
        if node is None:
            return None
        left = self._heard.setdefault(key.name, self._time()) + self._grace - self._time()
        if left < -_LATE and standing.readiness(node) != "Unknown":
            self._heard[key.name], left = self._time(), self._grace
        with contextlib.suppress(NotFound):
            if left <= 0 and await self._silence(node):
                return None  # The event of this write calls us again.
            await self._taint(node)
            if standing.readiness(node) == "Unknown":
                await self._unready_pods(key.name)
        return After(left) if left > 0 else None

    async def _silence(self, node: Node) -> bool:
        rows = standing.silent(node, self._clock())
        if rows:
            await self._client.patch(
                NODES,
                node.metadata.key,
                {"status": {"conditions": rows}},
                how=Patch.STRATEGIC,
                subresource="status",
            )
        return bool(rows)

    async def _taint(self, node: Node) -> None:
        some_ready = any(standing.readiness(one) == "True" for one in self._watched.nodes.all())
        wanted = standing.taints(node, self._clock(), evicts=some_ready)
        if wanted is None:
            return
        meta = node.metadata
        body = {"metadata": as_seen(meta), "spec": {"taints": wanted}}
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
                    how=Patch.STRATEGIC,
                    subresource="status",
                )


def _readiness(node: Node | None) -> str:
    return standing.readiness(node) if node is not None else ""


def _beat(node: Node | None) -> object:
    """What the node itself wrote; a condition that we wrote is no sign of life."""
    row = condition(node.status.conditions, "Ready") if node is not None else None
    return None if row is None or row.status == "Unknown" else row
