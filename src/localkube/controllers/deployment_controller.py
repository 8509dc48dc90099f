"""The controller of Deployments: reads a deployment and its replica sets, decides, writes.

Patches are made only over the version that was read; a lost race is a conflict and a new visit. A
set is deleted only if it still has the UID that was read, and created only if its name is free.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from kubekit.objects.events import EventText
from kubekit.objects.meta import ObjectMeta, Raw, preconditions
from kubekit.request_errors import AlreadyExists, NotFound
from localkube.controllers import deployment_revisions, deployment_rollout as decisions
from localkube.controllers.pod_control import OwnerController
from localkube.controllers.shared_informers import OWNER
from localkube.controllers.workloads import (
    DEPLOYMENTS,
    REPLICA_SETS,
    Deployment,
    ReplicaSet,
    owner_reference,
)

if TYPE_CHECKING:
    from localkube.controllers.deployment_rollout import UpdateSet


class DeploymentController(OwnerController[Deployment, ReplicaSet]):
    async def visit(self, owner: Deployment) -> float | None:
        sets = await self.pod_control.owned(owner, self.objects)
        new = deployment_revisions.current(owner, sets)
        old = [rs for rs in sets if rs is not new]
        pods = (pod for rs in old for pod in self.informers.pods.by(OWNER, rs.metadata.uid))
        plan = decisions.decide(owner, sets, old_pods_left=any(not pod.finished for pod in pods))
        if plan.create is not None:
            await self._create_set(owner, plan.create, plan.revision)
            return None  # the event of this write calls again
        for update in plan.update:
            await self._update_set(owner, update)
        if plan.write_revision:
            await self._write_revision(owner.metadata, plan.revision)
            return None
        for outdated in plan.delete:
            with contextlib.suppress(NotFound):
                meta = outdated.metadata
                await self.pod_control.client.delete(REPLICA_SETS, meta.key, uid=meta.uid)
        now = self.pod_control.clock()
        status = decisions.status(owner, new, old, now)
        if await self.pod_control.write_status(owner.metadata, owner.status, status):
            return None
        return decisions.deadline_in(owner, status, now)

    async def _write_revision(self, meta: ObjectMeta, revision: int) -> None:
        annotations = {deployment_revisions.REVISION: str(revision)}
        body = {"metadata": {**preconditions(meta), "annotations": annotations}}
        # With the status: an annotation that is written otherwise is a new generation.
        await self.pod_control.client.patch(DEPLOYMENTS, meta.key, body, subresource="status")

    async def _create_set(self, deployment: Deployment, replicas: int, revision: int) -> None:
        meta = deployment.metadata
        reference = owner_reference(DEPLOYMENTS, meta)
        body = deployment_revisions.new_set(deployment, reference, replicas, revision)
        body["metadata"]["annotations"] |= decisions.size_annotations(deployment)
        name = body["metadata"]["name"]
        try:
            with self.pod_control.expectations.creation(meta.uid, name):
                await self.pod_control.client.create(REPLICA_SETS, body)
        except AlreadyExists:
            await self._check_collision(deployment, body)
            return
        if replicas:
            self._record_scaling(deployment, name, 0, replicas)
        if decisions.has_deadline(deployment):
            conditions = decisions.created(deployment, name, self.pod_control.clock())
            await self.pod_control.write_status(
                meta, deployment.status, {**deployment.status, "conditions": conditions}
            )

    async def _check_collision(self, deployment: Deployment, body: Raw) -> None:
        """The name exists: it is our own set, or another template has the same hash."""
        meta = deployment.metadata
        live = await self.pod_control.client.get(
            REPLICA_SETS, meta.key._replace(name=body["metadata"]["name"])
        )
        owner = live.metadata.controller
        template = deployment_revisions.without_hash(deployment.spec.template)
        same = deployment_revisions.without_hash(live.spec.template) == template
        if same and owner is not None and owner.uid == meta.uid:
            return
        count = deployment.count("collisionCount") + 1
        await self.pod_control.write_status(
            meta, deployment.status, {**deployment.status, "collisionCount": count}
        )

    async def _update_set(self, deployment: Deployment, step: UpdateSet) -> None:
        meta = step.target.metadata
        removed: dict[str, str | None] = dict.fromkeys(meta.annotations.keys() - step.annotations)
        body = {
            "metadata": {**preconditions(meta), "annotations": {**removed, **step.annotations}},
            "spec": {"replicas": step.replicas, "minReadySeconds": step.min_ready_seconds or None},
        }
        await self.pod_control.client.patch(REPLICA_SETS, meta.key, body)
        if step.replicas != step.target.spec.replicas:
            self._record_scaling(deployment, meta.name, step.target.spec.replicas, step.replicas)

    def _record_scaling(self, deployment: Deployment, name: str, before: int, after: int) -> None:
        direction = "up" if after > before else "down"
        message = f"Scaled {direction} replica set {name} from {before} to {after}"
        self.pod_control.record(deployment.metadata, EventText("ScalingReplicaSet", message))
