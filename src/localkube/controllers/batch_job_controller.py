"""The controller of batch/v1 Jobs: reads a job and its pods, decides, writes.

The status is written first, and only over the version that was read: it records which pods are
counted. If it changed, the other writes wait for the event of that write. So a finalizer, which
keeps an ended pod from vanishing, is removed only when the stored status counts the pod.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from kubekit.objects.meta import Key, Raw, preconditions
from kubekit.request_errors import Conflict, NotFound
from localkube.controllers import batch_job_decision as decisions
from localkube.controllers.batch_job_pods import FINALIZER, INDEX, failure_annotations, tracked
from localkube.controllers.pod_control import OwnerController, new_pod
from localkube.controllers.shared_informers import NAMESPACE
from localkube.controllers.workloads import JOBS, PODS, Job, Pod

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


MANAGER = "kubernetes.io/job-controller"
_MAX_HOSTNAME = 63  # of a DNS label
_VARIABLE = "JOB_COMPLETION_INDEX"


def build_pod(job: Job, index: int | None, replaced: Pod | None = None) -> Raw:
    """The manifest of a new pod, with this index if the job is indexed.

    If each index has its own limit, the pod counts the failures of its index: one more than
    the pod that it replaces.
    """
    meta = job.metadata
    base = f"{meta.name}-" if index is None else f"{meta.name}-{index}-"
    body = new_pod(JOBS, job, base)
    body["metadata"]["finalizers"] = [FINALIZER]
    return body if index is None else _indexed(body, job, index, failure_annotations(job, replaced))


def _indexed(body: Raw, job: Job, index: int, failures: dict[str, str]) -> Raw:
    meta, spec = body["metadata"], dict(body["spec"])
    for field in ("annotations", "labels"):
        meta[field] = {**meta.get(field, {}), INDEX: str(index)}
    meta["annotations"] |= failures
    spec.setdefault("hostname", f"{job.metadata.name}-{index}"[:_MAX_HOSTNAME])
    for field in ("initContainers", "containers"):
        if spec.get(field):
            spec[field] = [_with_index(container) for container in spec[field]]
    return {**body, "spec": spec}


def _with_index(container: Raw) -> Raw:
    """The container with its pod's index in the environment."""
    env = container.get("env") or []
    if any(variable["name"] == _VARIABLE for variable in env):
        return container
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
    return {**container, "env": [*env, {"name": _VARIABLE, "valueFrom": source}]}


class JobController(OwnerController[Job, Pod]):
    async def gone(self, key: Key) -> None:
        """Free pods with our finalizer, which no other controller removes."""
        pods = self.informers.pods.by(NAMESPACE, key.namespace)
        await self._remove_finalizers(pod for pod in pods if _job_name(pod) == key.name)

    async def visit(self, owner: Job) -> float | None:
        if owner.spec.managed_by not in ("", MANAGER):
            return None  # another controller has taken this job over
        pods = await self.pod_control.owned(owner, self.objects)
        if owner.metadata.deletion_timestamp is not None:
            await self._remove_finalizers(pods)
            return None
        if decisions.end_of(owner):
            await self._remove_finalizers(pod for pod in pods if pod.finished)
            return await self._expire(owner)
        return await self._advance(owner, pods)

    async def _advance(self, job: Job, pods: list[Pod]) -> float | None:
        plan = decisions.decide(job, pods, self.pod_control.clock())
        if await self.pod_control.write_status(job.metadata, job.status, plan.status):
            for event in plan.events:
                self.pod_control.record(job.metadata, event)
            return None
        await self._remove_finalizers(plan.counted)
        await self._remove_finalizers(plan.drop)  # they end uncounted
        await self.pod_control.delete_pods(job.metadata, (*plan.drop, *plan.stop))
        bodies = [
            build_pod(job, index, None if index is None else plan.replaced.get(index))
            for index in plan.create
        ]
        error = await self.pod_control.create_pods(job.metadata, bodies)
        if error is not None:
            raise error
        return plan.again

    async def _remove_finalizers(self, pods: Iterable[Pod]) -> None:
        """Remove our finalizer; the event of a pod that changed in between calls again."""
        for pod in pods:
            if not tracked(pod):
                continue
            meta = pod.metadata
            others = [name for name in meta.finalizers if name != FINALIZER]
            change = {"metadata": {**preconditions(meta), "finalizers": others}}
            with contextlib.suppress(NotFound, Conflict):
                await self.pod_control.client.patch(PODS, meta.key, change)

    async def _expire(self, job: Job) -> float | None:
        at = decisions.expires(job)
        if at is None:
            return None
        left = (at - self.pod_control.clock()).total_seconds()
        if left > 0:
            return left
        meta = job.metadata
        with contextlib.suppress(NotFound):
            await self.pod_control.client.delete(
                JOBS, meta.key, uid=meta.uid, propagation="Foreground"
            )
        return None

    def possible_owners(self, orphan: Pod) -> Iterator[Key]:
        """The jobs that may adopt this pod, or that must remove its finalizer."""
        if tracked(orphan):
            yield orphan.metadata.key._replace(name=_job_name(orphan))
        yield from super().possible_owners(orphan)


def _job_name(pod: Pod) -> str:
    """The name of the job that the pod belongs or belonged to."""
    controller = pod.metadata.controller
    if controller is not None:
        return controller.name
    return pod.metadata.labels.get("batch.kubernetes.io/job-name", "")
