"""Evictions: pods leave nodes whose taints they do not, or no longer, tolerate.

Run by `run.py`. A pod is looked at when it is given its node, when that node's taints change, and
when its time is up.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from muster.api.events import News
from muster.api.meta import Key
from muster.control.loop import After
from muster.errors import Conflict, NotFound
from muster.kube.request import Patch
from muster.local.workloads.nodes import eviction
from muster.local.workloads.shapes import PODS
from muster.local.workloads.watched import NODE

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster.kube.store import Change
    from muster.local.workloads.hands import Hands
    from muster.local.workloads.shapes import Node, Pod
    from muster.local.workloads.watched import Watched


class Evictions:
    def __init__(self, hands: Hands, watched: Watched) -> None:
        self._hands = hands
        self._watched = watched

    def connect(self, wake: Callable[[Key], None]) -> None:
        def on_node(change: Change[Node]) -> None:
            before = change.old.spec.taints if change.old is not None else ()
            if change.new is not None and change.new.spec.taints != before:
                for pod in self._watched.pods.by(NODE, change.new.metadata.name):
                    wake(pod.metadata.key)

        def on_pod(change: Change[Pod]) -> None:
            before = change.old.spec if change.old is not None else None
            spec = change.new.spec if change.new is not None else None
            if spec is not None and spec.node_name and spec != before:
                wake(change.current.metadata.key)

        self._watched.nodes.subscribe(on_node)
        self._watched.pods.subscribe(on_pod)

    async def __call__(self, key: Key) -> After | None:
        pod = self._watched.pods.get(key)
        if pod is None or pod.leaving:
            return None
        node = self._watched.nodes.get(Key("", pod.spec.node_name))
        now = self._hands.clock()
        at = eviction.leaves_at(pod, node.spec.taints, now) if node is not None else None
        if at is None:
            return None
        if at > now:
            return After((at - now).total_seconds())
        await self._evict(pod)
        return None

    async def _evict(self, pod: Pod) -> None:
        meta = pod.metadata
        words = "Taint manager: deleting due to NoExecute taint"
        row = eviction.notice("DeletionByTaintManager", words, self._hands.clock())
        with contextlib.suppress(NotFound, Conflict):
            if not pod.finished:
                await self._hands.client.patch(
                    PODS,
                    meta.key,
                    {"metadata": {"uid": meta.uid}, "status": {"conditions": [row]}},
                    how=Patch.STRATEGIC,
                    subresource="status",
                )
            await self._hands.client.delete(PODS, meta.key, uid=meta.uid)
            self._hands.tell(
                meta, News("TaintManagerEviction", f"Marking for deletion Pod {meta.key}")
            )
