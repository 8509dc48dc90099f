"""The controller of replica sets: observe, decide, act.

Called by the control loop with the key of a set that changed, or whose pods did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.api.selectors import from_labels
from muster.control.loop import After
from muster.local.workloads.belonging import claim
from muster.local.workloads.hands import generated, pod_from
from muster.local.workloads.rollout import replicaset
from muster.local.workloads.shapes import PODS, REPLICA_SETS, reference
from muster.local.workloads.watched import OWNER, candidates

if TYPE_CHECKING:
    from muster.api.meta import Key
    from muster.local.workloads.hands import Hands
    from muster.local.workloads.shapes import Pod, ReplicaSet
    from muster.local.workloads.watched import Watched


class ReplicaSets:
    def __init__(self, hands: Hands, watched: Watched) -> None:
        self._hands = hands
        self._watched = watched

    async def __call__(self, key: Key) -> After | None:
        found = self._watched.sets.get(key)
        if found is None:
            return None  # Its pods go with it, by their owner.
        waiting = self._hands.expect.pending(found.metadata.uid)
        if waiting is not None:
            return After(waiting)
        mine = claim(
            found.metadata,
            from_labels(found.spec.selector),
            candidates(self._watched.pods, found.metadata),
        )
        pods = await self._hands.take(found.metadata, PODS, mine)
        trouble = await self._reach(found, pods)
        now = self._hands.clock()
        new = replicaset.status(found, pods, str(trouble) if trouble else "", now)
        await self._hands.write_status(found.metadata, found.status, new)
        if trouble is not None:
            raise trouble
        again = replicaset.look_again(found, pods, now)
        return None if again is None else After(again)

    async def _reach(self, found: ReplicaSet, pods: list[Pod]) -> Exception | None:
        """Make or delete pods; the answer is why some could not be made."""
        step = replicaset.decide(found, pods, self._neighbours(found))
        meta = found.metadata
        if step.delete:
            await self._hands.delete_pods(meta, step.delete)
        ours = reference(REPLICA_SETS, meta)
        bodies = [
            pod_from(found.spec.template, generated(f"{meta.name}-"), meta.namespace, ours)
            for _ in range(step.create)
        ]
        return await self._hands.create_pods(meta, bodies)

    def _neighbours(self, found: ReplicaSet) -> list[Pod]:
        """The pods of all sets of the same deployment."""
        controller = found.metadata.controller
        sets = [found] if controller is None else self._watched.sets.by(OWNER, controller.uid)
        return [pod for one in sets for pod in self._watched.pods.by(OWNER, one.metadata.uid)]
