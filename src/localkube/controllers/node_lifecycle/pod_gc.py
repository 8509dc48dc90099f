"""Removes pods of nodes that no longer exist: no node agent will ever report their end.

A missing node has some time to come back first, as when it is deleted and registers again.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from kubekit.control.loop import RequeueAfter
from kubekit.errors import Conflict, NotFound
from kubekit.objects.conditions import disruption_condition
from kubekit.objects.meta import Key
from localkube.controllers.informers import NODE
from localkube.controllers.workloads import NODES, PODS

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from kubekit.client.client import Client
    from kubekit.watch.informer_cache import Change
    from localkube.controllers.informers import SharedInformers
    from localkube.controllers.workloads import Node, Pod

MISSING_NODE_GRACE = 40.0
"""Seconds for which a node may be missing."""


class PodGc:
    """Keys are nodes."""

    def __init__(
        self,
        client: Client,
        informers: SharedInformers,
        clock: Callable[[], datetime],
        grace: float = MISSING_NODE_GRACE,
    ) -> None:
        self._client = client
        self._informers = informers
        self._clock = clock
        self._grace = grace
        self._time = asyncio.get_running_loop().time
        self._missing_since: dict[str, float] = {}

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

        self._informers.nodes.subscribe(on_node)
        self._informers.pods.subscribe(on_pod)

    def _node(self, name: str) -> Node | None:
        return self._informers.nodes.get(Key("", name))

    async def reconcile(self, key: Key) -> RequeueAfter | None:
        pods = self._informers.pods.by(NODE, key.name)
        if self._node(key.name) is not None or not pods:
            self._missing_since.pop(key.name, None)
            return None
        since = self._missing_since.setdefault(key.name, self._time())
        left = since + self._grace - self._time()
        if left > 0:
            return RequeueAfter(left)
        with contextlib.suppress(NotFound):
            await self._client.get(NODES, key)
            return RequeueAfter(self._grace)  # the node exists; our watch is behind
        for pod in pods:
            await self._remove(pod)
        return None

    async def _remove(self, pod: Pod) -> None:
        meta = pod.metadata
        message = "PodGC: node no longer exists"
        condition = disruption_condition("DeletionByPodGC", message, self._clock())
        with contextlib.suppress(NotFound, Conflict):
            if not pod.finished:
                status = {"phase": "Failed", "conditions": [condition]}
                await self._client.patch_status(PODS, meta, status)
            # Without a grace period, which only a node agent could end.
            await self._client.delete(PODS, meta.key, uid=meta.uid, grace=0)
