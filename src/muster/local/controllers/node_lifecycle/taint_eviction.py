"""Who may stay on a tainted node, and for how long: pure.

Evictions: pods leave nodes whose taints they do not, or no longer, tolerate.

Run by `run.py`. A pod is looked at when it is given its node, when that node's taints change, and
when its time is up.
"""

from __future__ import annotations

import contextlib
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from muster.api.events import EventText
from muster.api.meta import Key
from muster.control.loop import RequeueAfter
from muster.errors import Conflict, NotFound
from muster.kube.request import PatchType
from muster.local.controllers import conditions
from muster.local.controllers.informers import NODE
from muster.local.controllers.kinds import PODS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from muster.api.meta import Raw
    from muster.kube.watch.informer_cache import Change
    from muster.local.controllers.informers import SharedInformers
    from muster.local.controllers.kinds import Node, Pod, TimedTaint, TimedToleration
    from muster.local.controllers.pod_control import PodControl


def evict_at(pod: Pod, taints: Sequence[TimedTaint], now: datetime) -> datetime | None:
    """When the pod must go; None if it may stay for good.

    A taint that is not tolerated sends it away at once; among tolerations of limited time the
    shortest counts, from when the taint was put there.
    """
    times = []
    for taint in taints:
        if taint.effect != "NoExecute":
            continue
        since = datetime.fromisoformat(taint.time_added) if taint.time_added else now
        matching = [one for one in pod.spec.tolerations if tolerates(one, taint)]
        if not matching:
            return now
        limited = [one.toleration_seconds for one in matching if one.toleration_seconds is not None]
        if limited:
            times.append(since + timedelta(seconds=max(0, min(limited))))
    return min(times, default=None)


def tolerates(toleration: TimedToleration, taint: TimedTaint) -> bool:
    if toleration.effect not in ("", taint.effect):
        return False
    if not toleration.key:
        return toleration.operator == "Exists"
    same = toleration.operator == "Exists" or toleration.value == taint.value
    return toleration.key == taint.key and same


def disruption_condition(reason: str, message: str, now: datetime) -> Raw:
    """The condition by which a pod says that it did not end by itself."""
    return conditions.new_condition("DisruptionTarget", "True", reason, message, now)


class TaintEviction:
    def __init__(self, hands: PodControl, watched: SharedInformers) -> None:
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

    async def __call__(self, key: Key) -> RequeueAfter | None:
        pod = self._watched.pods.get(key)
        if pod is None or pod.leaving:
            return None
        node = self._watched.nodes.get(Key("", pod.spec.node_name))
        now = self._hands.clock()
        at = evict_at(pod, node.spec.taints, now) if node is not None else None
        if at is None:
            return None
        if at > now:
            return RequeueAfter((at - now).total_seconds())
        await self._evict(pod)
        return None

    async def _evict(self, pod: Pod) -> None:
        meta = pod.metadata
        words = "Taint manager: deleting due to NoExecute taint"
        row = disruption_condition("DeletionByTaintManager", words, self._hands.clock())
        with contextlib.suppress(NotFound, Conflict):
            if not pod.finished:
                await self._hands.client.patch(
                    PODS,
                    meta.key,
                    {"metadata": {"uid": meta.uid}, "status": {"conditions": [row]}},
                    patch_type=PatchType.STRATEGIC,
                    subresource="status",
                )
            await self._hands.client.delete(PODS, meta.key, uid=meta.uid)
            self._hands.tell(
                meta, EventText("TaintManagerEviction", f"Marking for deletion Pod {meta.key}")
            )
