"""The controller of StatefulSets: reads a set, its pods and its revisions, decides, writes."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

from kubekit.errors import MusterError
from kubekit.objects.events import EventText
from kubekit.request_errors import AlreadyExists, NotFound
from localkube.controllers import stateful_set_decision as decisions
from localkube.controllers.controller_revisions import template_of
from localkube.controllers.pod_control import OwnerController
from localkube.controllers.stateful_set_decision import Progress
from localkube.controllers.workloads import CLAIMS, PODS, Pod, StatefulSet, available_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.objects.meta import Raw
    from localkube.controllers.workloads import ControllerRevision


class StatefulSetController(OwnerController[StatefulSet, Pod]):
    async def visit(self, owner: StatefulSet) -> float | None:
        meta = owner.metadata
        is_member = partial(decisions.is_member, owner)
        pods = await self.pod_control.owned(owner, self.objects, is_member)
        known = await self.pod_control.owned(owner, self.informers.revisions)
        update = await self.pod_control.current_revision(owner, known, decisions.HASH_OF_REVISION)
        if update is None:
            return None
        by_name = {revision.metadata.name: revision for revision in (*known, update)}
        current = by_name.get(str(owner.status.get("currentRevision") or ""), update)
        progress = Progress(
            owner,
            decisions.by_ordinal(owner, pods),
            current.metadata.name,
            update.metadata.name,
            self.pod_control.clock(),
        )
        plan = decisions.decide(progress)
        await self._own_claims(progress)
        await self._create(owner, plan.create, by_name)
        await self._delete(owner, plan.delete)
        await self.pod_control.write_status(
            meta, owner.status, decisions.stateful_set_status(progress)
        )
        live = (current.metadata.name, update.metadata.name)
        old = decisions.outdated(owner, known, pods, live)
        await self.pod_control.delete_revisions(old)
        return available_in(pods, owner.spec.min_ready_seconds, progress.now)

    async def _create(
        self,
        stateful_set: StatefulSet,
        pods: Iterable[tuple[int, str]],
        by_name: dict[str, ControllerRevision],
    ) -> None:
        meta = stateful_set.metadata
        for ordinal, revision in pods:
            for claim in decisions.new_claims(stateful_set, ordinal):
                await self._create_claim(stateful_set, claim, f"{meta.name}-{ordinal}")
            template = template_of(by_name[revision])
            body = decisions.new_pod(stateful_set, template, revision, ordinal)
            name = body["metadata"]["name"]
            try:
                with self.pod_control.expectations.creation(meta.uid, name):
                    await self.pod_control.client.create(PODS, body)
            except MusterError as error:
                text = f"Create Pod {name} in StatefulSet {meta.name} failed error: {error}"
                self.pod_control.record(meta, EventText("FailedCreate", text, "Warning"))
                raise
            text = f"Create Pod {name} in StatefulSet {meta.name} successful"
            self.pod_control.record(meta, EventText("SuccessfulCreate", text))

    async def _create_claim(self, stateful_set: StatefulSet, claim: Raw, pod: str) -> None:
        meta, name = stateful_set.metadata, claim["metadata"]["name"]
        with contextlib.suppress(AlreadyExists):  # of an earlier pod with this number
            await self.pod_control.client.create(CLAIMS, claim)
            text = f"Create Claim {name} Pod {pod} in StatefulSet {meta.name} success"
            self.pod_control.record(meta, EventText("SuccessfulCreate", text))

    async def _own_claims(self, progress: Progress) -> None:
        """Give claims the owner whose deletion deletes them; before a pod can be deleted."""
        stateful_set = progress.stateful_set
        if stateful_set.metadata.deletion_timestamp is not None:
            return
        for ordinal, pod in progress.pods.items():
            kept = ordinal in progress.ordinals
            for key in decisions.claims_of(stateful_set, ordinal):
                claim = self.informers.claims.get(key)
                if claim is None:
                    continue
                owners = decisions.new_owners(stateful_set, pod, claim, kept=kept)
                if owners is not None:
                    meta = {"resourceVersion": claim["metadata"]["resourceVersion"]}
                    change = {"metadata": {**meta, "ownerReferences": owners}}
                    await self.pod_control.client.patch(CLAIMS, key, change)

    async def _delete(self, stateful_set: StatefulSet, pods: Iterable[Pod]) -> None:
        meta = stateful_set.metadata
        for pod in pods:
            with (
                contextlib.suppress(NotFound),
                self.pod_control.expectations.deletion(meta.uid, pod.metadata.uid),
            ):
                await self.pod_control.client.delete(PODS, pod.metadata.key, uid=pod.metadata.uid)
                text = f"Delete Pod {pod.metadata.name} in StatefulSet {meta.name} successful"
                self.pod_control.record(meta, EventText("SuccessfulDelete", text))
