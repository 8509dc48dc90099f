"""Pods of nodes that are no more: nobody will ever report their end, so they are removed.

Run by `run.py`. A node that is missing is given a while to come back first.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from muster.api.kinds import NODES as ANY_NODES
from muster.api.meta import Key
from muster.control.loop import RequeueAfter
from muster.errors import Conflict, NotFound
from muster.kube.request import PatchType
from muster.local.controllers.informers import NODE
from muster.local.controllers.kinds import PODS
from muster.local.controllers.node_lifecycle.taint_eviction import disruption_condition

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from muster.kube.client import Client
    from muster.kube.watch.informer_cache import Change
    from muster.local.controllers.informers import SharedInformers
    from muster.local.controllers.kinds import Node, Pod

QUARANTINE = 40.0
"""Seconds for which a node may be missing."""


class PodGc:
    """The key is that of a node."""

    def __init__(
        self,
        client: Client,
        watched: SharedInformers,
        clock: Callable[[], datetime],
        quarantine: float = QUARANTINE,
    ) -> None:
        self._client = client
        self._watched = watched
        self._clock = clock
        self._quarantine = quarantine
        self._time = asyncio.get_running_loop().time
        self._missing: dict[str, float] = {}

    def connect(self, wake: Callable[[Key], None]) -> None:
        def on_node(change: Change[Node]) -> None:
            if change.new is None:
                wake(change.current.metadata.key)
            else:
                self._missing.pop(change.new.metadata.name, None)

        def on_pod(change: Change[Pod]) -> None:
            name = change.current.spec.node_name
            if change.new is not None and name and self._node(name) is None:
                wake(Key("", name))

        self._watched.nodes.subscribe(on_node)
        self._watched.pods.subscribe(on_pod)

    def _node(self, name: str) -> Node | None:
        return self._watched.nodes.get(Key("", name))

    async def __call__(self, key: Key) -> RequeueAfter | None:
        pods = self._watched.pods.by(NODE, key.name)
        if self._node(key.name) is not None or not pods:
            self._missing.pop(key.name, None)
            return None
        left = self._missing.setdefault(key.name, self._time()) + self._quarantine - self._time()
        if left > 0:
            return RequeueAfter(left)
        with contextlib.suppress(NotFound):
            await self._client.get(ANY_NODES, key)
            return RequeueAfter(self._quarantine)  # Our watch is behind: it is there.
        for pod in pods:
            await self._remove(pod)
        return None

    async def _remove(self, pod: Pod) -> None:
        meta = pod.metadata
        row = disruption_condition("DeletionByPodGC", "PodGC: node no longer exists", self._clock())
        with contextlib.suppress(NotFound, Conflict):
            if not pod.finished:
                await self._client.patch(
                    PODS,
                    meta.key,
                    {
                        "metadata": {"uid": meta.uid},
                        "status": {"phase": "Failed", "conditions": [row]},
                    },
                    patch_type=PatchType.STRATEGIC,
                    subresource="status",
                )
            await self._client.delete(PODS, meta.key, uid=meta.uid, grace=0)
