"""Evicts pods from nodes whose NoExecute taints they do not, or no longer, tolerate.

A pod is checked when it is bound, when the taints of its node change, and when its time is over.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubekit.control.loop import RequeueAfter
from kubekit.errors import Conflict, NotFound
from kubekit.objects.conditions import disruption_condition
from kubekit.objects.events import EventText
from kubekit.objects.meta import MAX_SECONDS, Key, read_timestamp, shifted
from localkube.controllers.informers import NODE
from localkube.controllers.node_lifecycle.node_taints import tolerates
from localkube.controllers.workloads import PODS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from kubekit.watch.informer_cache import Change
    from localkube.controllers.informers import SharedInformers
    from localkube.controllers.pod_control import PodControl
    from localkube.controllers.workloads import Node, Pod, TimedTaint


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
