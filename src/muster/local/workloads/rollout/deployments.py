"""The controller of deployments: observe, decide, act.

Called by the control loop with the key of a deployment that changed, or whose sets or pods did. All
writes hold only for the version that was looked at; a lost race means another look.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from muster.api.events import News
from muster.api.selectors import from_labels
from muster.control.loop import After
from muster.errors import AlreadyExists, NotFound
from muster.local.workloads.belonging import claim
from muster.local.workloads.rollout import deployment as decisions
from muster.local.workloads.rollout import progress, revision
from muster.local.workloads.rollout.deployment import Change, Make, Number, Remove
from muster.local.workloads.shapes import DEPLOYMENTS, REPLICA_SETS, as_seen, reference
from muster.local.workloads.watched import OWNER, candidates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.api.meta import Key, Raw
    from muster.local.workloads.hands import Hands
    from muster.local.workloads.rollout.deployment import Step
    from muster.local.workloads.shapes import Deployment, ReplicaSet
    from muster.local.workloads.watched import Watched


class Deployments:
    def __init__(self, hands: Hands, watched: Watched) -> None:
        self._hands = hands
        self._client = hands.client
        self._watched = watched

    async def __call__(self, key: Key) -> After | None:
        found = self._watched.deployments.get(key)
        if found is None:
            return None
        waiting = self._hands.expect.pending(found.metadata.uid)
        if waiting is not None:
            return After(waiting)
        sets = await self._sets(found)
        for step in decisions.decide(found, sets, old_pods_left=self._old_pods_left(found, sets)):
            if await self._do(found, step):
                return None  # The set's own event calls us again.
        return await self._report(found, sets)

    async def _sets(self, found: Deployment) -> list[ReplicaSet]:
        claimed = claim(
            found.metadata,
            from_labels(found.spec.selector),
            candidates(self._watched.sets, found.metadata),
        )
        return await self._hands.take(found.metadata, REPLICA_SETS, claimed)

    def _old_pods_left(self, found: Deployment, sets: Sequence[ReplicaSet]) -> bool:
        new = revision.current(found, sets)
        return any(
            not pod.finished
            for one in sets
            if one is not new
            for pod in self._watched.pods.by(OWNER, one.metadata.uid)
        )

    async def _report(self, found: Deployment, sets: Sequence[ReplicaSet]) -> After | None:
        now = self._hands.clock()
        new = revision.current(found, sets)
        old = [one for one in sets if one is not new]
        status = progress.status(found, new, old, now)
        if await self._hands.write_status(found.metadata, found.status, status):
            return None  # The event of this write calls us again.
        again = progress.look_again(found, status, now)
        return None if again is None else After(again)

    async def _do(self, found: Deployment, step: Step) -> bool:
        """Carry out one step; whether the rest has to wait for what comes of it."""
        match step:
            case Make():
                return await self._make(found, step)
            case Change():
                await self._change(found, step)
            case Number():
                notes = {revision.REVISION: str(step.revision)}
                await self._client.patch(
                    DEPLOYMENTS,
                    found.metadata.key,
                    {"metadata": {"uid": found.metadata.uid, "annotations": notes}},
                )
                return True
            case Remove():
                with contextlib.suppress(NotFound):
                    meta = step.target.metadata
                    await self._client.delete(REPLICA_SETS, meta.key, uid=meta.uid)
        return False

    async def _make(self, found: Deployment, step: Make) -> bool:
        meta = found.metadata
        body = revision.new_set(found, reference(DEPLOYMENTS, meta), step.replicas, step.revision)
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
        wanted = revision.without_hash(found.spec.template)
        same = revision.without_hash(live.spec.template) == wanted
        if same and owner is not None and owner.uid == meta.uid:
            return
        count = int(found.status.get("collisionCount") or 0) + 1
        await self._hands.write_status(
            meta, found.status, {**found.status, "collisionCount": count}
        )

    async def _change(self, found: Deployment, step: Change) -> None:
        meta = step.target.metadata
        dropped: dict[str, str | None] = dict.fromkeys(meta.annotations.keys() - step.annotations)
        body = {
            "metadata": {**as_seen(meta), "annotations": {**dropped, **step.annotations}},
            "spec": {"replicas": step.replicas, "minReadySeconds": step.min_ready_seconds or None},
        }
        await self._client.patch(REPLICA_SETS, meta.key, body)
        if step.replicas != step.target.spec.replicas:
            self._tell_scaled(found, meta.name, step.target.spec.replicas, step.replicas)

    def _tell_scaled(self, found: Deployment, name: str, before: int, after: int) -> None:
        way = "up" if after > before else "down"
        words = f"Scaled {way} replica set {name} from {before} to {after}"
        self._hands.tell(found.metadata, News("ScalingReplicaSet", words))
