"""The controller of Deployments: reads a deployment and its replica sets, decides, writes.

All writes are made only over the version that was read; a lost race is a conflict and a new visit.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from muster.api.events import EventText
from muster.api.meta import preconditions
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
from muster.local.controllers.kinds import DEPLOYMENTS, REPLICA_SETS, owner_reference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.api.meta import Key, Raw
    from muster.local.controllers.deployments.rollout import Step
    from muster.local.controllers.informers import SharedInformers
    from muster.local.controllers.kinds import Deployment, ReplicaSet
    from muster.local.controllers.pod_control import PodControl


class Deployments:
    def __init__(self, pod_control: PodControl, informers: SharedInformers) -> None:
        self._pod_control = pod_control
        self._client = pod_control.client
        self._informers = informers

    async def reconcile(self, key: Key) -> RequeueAfter | None:
        found = self._informers.deployments.get(key)
        if found is None:
            return None
        pending = self._pod_control.expectations.pending(found.metadata.uid)
        if pending is not None:
            return RequeueAfter(pending)
        sets = await self._sets(found)
        for step in decisions.decide(found, sets, old_pods_left=self._old_pods_left(found, sets)):
            if await self._do(found, step):
                return None  # the event of this write calls again
        return await self._report(found, sets)

    async def _sets(self, found: Deployment) -> list[ReplicaSet]:
        objects = find_owned(
            found.metadata,
            from_labels(found.spec.selector),
            candidates(self._informers.sets, found.metadata),
        )
        return await self._pod_control.adopt_and_release(found.metadata, REPLICA_SETS, objects)

    def _old_pods_left(self, found: Deployment, sets: Sequence[ReplicaSet]) -> bool:
        new = revisions.current(found, sets)
        return any(
            not pod.finished
            for one in sets
            if one is not new
            for pod in self._informers.pods.by(OWNER, one.metadata.uid)
        )

    async def _report(self, found: Deployment, sets: Sequence[ReplicaSet]) -> RequeueAfter | None:
        now = self._pod_control.clock()
        new = revisions.current(found, sets)
        old = [one for one in sets if one is not new]
        status = progress.status(found, new, old, now)
        if await self._pod_control.write_status(found.metadata, found.status, status):
            return None  # the event of this write calls again
        again = progress.deadline_in(found, status, now)
        return None if again is None else RequeueAfter(again)

    async def _do(self, found: Deployment, step: Step) -> bool:
        """Carry out one step; returns whether the next ones must wait for its event."""
        match step:
            case CreateSet():
                return await self._create_set(found, step)
            case UpdateSet():
                await self._update_set(found, step)
            case SetRevision():
                annotations = {revisions.REVISION: str(step.revision)}
                await self._client.patch(
                    DEPLOYMENTS,
                    found.metadata.key,
                    {"metadata": {"uid": found.metadata.uid, "annotations": annotations}},
                )
                return True
            case DeleteSet():
                with contextlib.suppress(NotFound):
                    meta = step.target.metadata
                    await self._client.delete(REPLICA_SETS, meta.key, uid=meta.uid)
        return False

    async def _create_set(self, found: Deployment, step: CreateSet) -> bool:
        meta = found.metadata
        body = revisions.new_set(
            found, owner_reference(DEPLOYMENTS, meta), step.replicas, step.revision
        )
        body["metadata"]["annotations"] |= decisions.size_annotations(found)
        name, expectations = body["metadata"]["name"], self._pod_control.expectations
        expectations.creation(meta.uid, name)
        try:
            await self._client.create(REPLICA_SETS, body)
        except AlreadyExists:
            expectations.failed(meta.uid, name)
            await self._check_collision(found, body)
            return True
        except BaseException:
            expectations.failed(meta.uid, name)
            raise
        if step.replicas:
            self._record_scaling(found, name, 0, step.replicas)
        if progress.has_deadline(found):
            conditions = progress.created(found, name, self._pod_control.clock())
            await self._pod_control.write_status(
                meta, found.status, {**found.status, "conditions": conditions}
            )
        return True

    async def _check_collision(self, found: Deployment, body: Raw) -> None:
        """The name exists: it is our own set, or another template has the same hash."""
        meta = found.metadata
        live = await self._client.get(
            REPLICA_SETS, meta.key._replace(name=body["metadata"]["name"])
        )
        owner = live.metadata.controller
        template = revisions.without_hash(found.spec.template)
        same = revisions.without_hash(live.spec.template) == template
        if same and owner is not None and owner.uid == meta.uid:
            return
        count = int(found.status.get("collisionCount") or 0) + 1
        await self._pod_control.write_status(
            meta, found.status, {**found.status, "collisionCount": count}
        )

    async def _update_set(self, found: Deployment, step: UpdateSet) -> None:
        meta = step.target.metadata
        removed: dict[str, str | None] = dict.fromkeys(meta.annotations.keys() - step.annotations)
        body = {
            "metadata": {**preconditions(meta), "annotations": {**removed, **step.annotations}},
            "spec": {"replicas": step.replicas, "minReadySeconds": step.min_ready_seconds or None},
        }
        await self._client.patch(REPLICA_SETS, meta.key, body)
        if step.replicas != step.target.spec.replicas:
            self._record_scaling(found, meta.name, step.target.spec.replicas, step.replicas)

    def _record_scaling(self, found: Deployment, name: str, before: int, after: int) -> None:
        direction = "up" if after > before else "down"
        message = f"Scaled {direction} replica set {name} from {before} to {after}"
        self._pod_control.record(found.metadata, EventText("ScalingReplicaSet", message))
