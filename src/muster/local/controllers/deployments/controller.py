"""The controller of deployments: observe, decide, act.

Called by the control loop with the key of a deployment that changed, or whose sets or pods did. All
writes hold only for the version that was looked at; a lost race means another look.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from muster.api.events import EventText
from muster.api.selectors import from_labels
from muster.control.loop import RequeueAfter
from muster.errors import AlreadyExists, NotFound
from muster.local.controllers.adoption import find_owned
from muster.local.controllers.deployments import progress, revisions
from muster.local.controllers.deployments import rollout as decisions
from muster.local.controllers.deployments.rollout import (
    CreateSet,
    DeleteSet,
    SetRevision,
    UpdateSet,
)
from muster.local.controllers.informers import OWNER, candidates
from muster.local.controllers.kinds import DEPLOYMENTS, REPLICA_SETS, owner_reference, preconditions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.api.meta import Key, Raw
    from muster.local.controllers.deployments.rollout import Step
    from muster.local.controllers.informers import SharedInformers
    from muster.local.controllers.kinds import Deployment, ReplicaSet
    from muster.local.controllers.pod_control import PodControl


class Deployments:
    def __init__(self, hands: PodControl, watched: SharedInformers) -> None:
        self._hands = hands
        self._client = hands.client
        self._watched = watched

    async def __call__(self, key: Key) -> RequeueAfter | None:
        found = self._watched.deployments.get(key)
        if found is None:
            return None
        waiting = self._hands.expect.pending(found.metadata.uid)
        if waiting is not None:
            return RequeueAfter(waiting)
        sets = await self._sets(found)
        for step in decisions.decide(found, sets, old_pods_left=self._old_pods_left(found, sets)):
            if await self._do(found, step):
                return None  # The set's own event calls us again.
        return await self._report(found, sets)

    async def _sets(self, found: Deployment) -> list[ReplicaSet]:
        claimed = find_owned(
            found.metadata,
            from_labels(found.spec.selector),
            candidates(self._watched.sets, found.metadata),
        )
        return await self._hands.take(found.metadata, REPLICA_SETS, claimed)

    def _old_pods_left(self, found: Deployment, sets: Sequence[ReplicaSet]) -> bool:
        new = revisions.current(found, sets)
        return any(
            not pod.finished
            for one in sets
            if one is not new
            for pod in self._watched.pods.by(OWNER, one.metadata.uid)
        )

    async def _report(self, found: Deployment, sets: Sequence[ReplicaSet]) -> RequeueAfter | None:
        now = self._hands.clock()
        new = revisions.current(found, sets)
        old = [one for one in sets if one is not new]
        status = progress.status(found, new, old, now)
        if await self._hands.write_status(found.metadata, found.status, status):
            return None  # The event of this write calls us again.
        again = progress.look_again(found, status, now)
        return None if again is None else RequeueAfter(again)

    async def _do(self, found: Deployment, step: Step) -> bool:
        """Carry out one step; whether the rest has to wait for what comes of it."""
        match step:
            case CreateSet():
                return await self._make(found, step)
            case UpdateSet():
                await self._change(found, step)
            case SetRevision():
                notes = {revisions.REVISION: str(step.revision)}
                await self._client.patch(
                    DEPLOYMENTS,
                    found.metadata.key,
                    {"metadata": {"uid": found.metadata.uid, "annotations": notes}},
                )
                return True
            case DeleteSet():
                with contextlib.suppress(NotFound):
                    meta = step.target.metadata
                    await self._client.delete(REPLICA_SETS, meta.key, uid=meta.uid)
        return False

    async def _make(self, found: Deployment, step: CreateSet) -> bool:
        meta = found.metadata
        body = revisions.new_set(
            found, owner_reference(DEPLOYMENTS, meta), step.replicas, step.revision
        )
        body["metadata"]["annotations"] |= decisions.told(found)
        name = body["metadata"]["name"]
        self._hands.expect.creation(meta.uid, name)
        try:
            await self._client.create(REPLICA_SETS, body)
        except AlreadyExists:
            self._hands.expect.failed(meta.uid, name)
            await self._taken(found, body)
            return True
        except BaseException:
            self._hands.expect.failed(meta.uid, name)
            raise
        if step.replicas:
            self._tell_scaled(found, name, 0, step.replicas)
        if progress.has_deadline(found):
            rows = progress.created(found, name, self._hands.clock())
            await self._hands.write_status(meta, found.status, {**found.status, "conditions": rows})
        return True

    async def _taken(self, found: Deployment, body: Raw) -> None:
        """The name is taken: by what we wanted, or by another template of the same hash."""
        meta = found.metadata
        live = await self._client.get(
            REPLICA_SETS, meta.key._replace(name=body["metadata"]["name"])
        )
        owner = live.metadata.controller
        wanted = revisions.without_hash(found.spec.template)
        same = revisions.without_hash(live.spec.template) == wanted
        if same and owner is not None and owner.uid == meta.uid:
            return
        count = int(found.status.get("collisionCount") or 0) + 1
        await self._hands.write_status(
            meta, found.status, {**found.status, "collisionCount": count}
        )

    async def _change(self, found: Deployment, step: UpdateSet) -> None:
        meta = step.target.metadata
        dropped: dict[str, str | None] = dict.fromkeys(meta.annotations.keys() - step.annotations)
        body = {
            "metadata": {**preconditions(meta), "annotations": {**dropped, **step.annotations}},
            "spec": {"replicas": step.replicas, "minReadySeconds": step.min_ready_seconds or None},
        }
        await self._client.patch(REPLICA_SETS, meta.key, body)
        if step.replicas != step.target.spec.replicas:
            self._tell_scaled(found, meta.name, step.target.spec.replicas, step.replicas)

    def _tell_scaled(self, found: Deployment, name: str, before: int, after: int) -> None:
        way = "up" if after > before else "down"
        words = f"Scaled {way} replica set {name} from {before} to {after}"
        self._hands.tell(found.metadata, EventText("ScalingReplicaSet", words))
