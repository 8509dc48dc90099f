"""The controller of jobs: observe, decide, act.

Called by the control loop with the key of a job that changed, or whose pods did. The status is
written first and only over the version that was looked at: what follows depends on it. If it had to
be written, the rest waits for the event of that write.

The manifests of a job's pods: pure, but for the names that are made up.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from muster.api.selectors import from_labels
from muster.control.loop import RequeueAfter
from muster.errors import Conflict, NotFound
from muster.local.controllers.adoption import find_owned
from muster.local.controllers.batch import decide as decisions
from muster.local.controllers.batch.pod_tracking import FINALIZER, INDEX, tracked
from muster.local.controllers.informers import NAMESPACE, candidates, suitors
from muster.local.controllers.kinds import JOBS, PODS, owner_reference, preconditions
from muster.local.controllers.pod_control import generate_name, pod_from_template

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from muster.api.meta import Key, Raw
    from muster.local.controllers.informers import SharedInformers
    from muster.local.controllers.kinds import Job, Pod
    from muster.local.controllers.pod_control import PodControl


_LONGEST = 63
_VARIABLE = "JOB_COMPLETION_INDEX"


def build_pod(job: Job, index: int | None) -> Raw:
    """One pod, of this index if the job counts by index."""
    meta = job.metadata
    base = f"{meta.name}-" if index is None else f"{meta.name}-{index}-"
    body = pod_from_template(
        job.spec.template, generate_name(base), meta.namespace, owner_reference(JOBS, meta)
    )
    body["metadata"]["finalizers"] = [FINALIZER]
    return body if index is None else _indexed(body, job, index)


def _indexed(body: Raw, job: Job, index: int) -> Raw:
    meta, spec = body["metadata"], dict(body["spec"])
    for field in ("annotations", "labels"):
        meta[field] = {**meta.get(field, {}), INDEX: str(index)}
    spec.setdefault("hostname", f"{job.metadata.name}-{index}"[:_LONGEST])
    for field in ("initContainers", "containers"):
        if spec.get(field):
            spec[field] = [_told(container) for container in spec[field]]
    return {**body, "spec": spec}


def _told(container: Raw) -> Raw:
    """The container, which finds its pod's index in its environment."""
    known = container.get("env") or []
    if any(row["name"] == _VARIABLE for row in known):
        return container
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
    return {**container, "env": [*known, {"name": _VARIABLE, "valueFrom": source}]}


MANAGER = "kubernetes.io/job-controller"


class JobController:
    def __init__(self, hands: PodControl, watched: SharedInformers) -> None:
        self._hands = hands
        self._client = hands.client
        self._watched = watched

    async def __call__(self, key: Key) -> RequeueAfter | None:
        found = self._watched.jobs.get(key)
        if found is None:
            await self._release(self._left_behind(key))
            return None
        if found.spec.managed_by not in ("", MANAGER):
            return None
        waiting = self._hands.expect.pending(found.metadata.uid)
        if waiting is not None:
            return RequeueAfter(waiting)
        pods = await self._pods(found)
        if found.metadata.deletion_timestamp is not None:
            await self._release(pod for pod in pods if tracked(pod))
            return None
        if decisions.ended(found):
            await self._release(pod for pod in pods if tracked(pod) and pod.finished)
            return await self._expire(found)
        return await self._advance(found, pods)

    async def _pods(self, found: Job) -> list[Pod]:
        claimed = find_owned(
            found.metadata,
            from_labels(found.spec.selector),
            candidates(self._watched.pods, found.metadata),
        )
        return await self._hands.take(found.metadata, PODS, claimed)

    async def _advance(self, found: Job, pods: list[Pod]) -> RequeueAfter | None:
        plan = decisions.decide(found, pods, self._hands.clock())
        if await self._hands.write_status(found.metadata, found.status, plan.status):
            for news in plan.news:
                self._hands.tell(found.metadata, news)
            return None
        await self._release(plan.release)
        await self._release(plan.drop)
        await self._hands.delete_pods(found.metadata, (*plan.drop, *plan.stop))
        bodies = [build_pod(found, index) for index in plan.create]
        trouble = await self._hands.create_pods(found.metadata, bodies)
        if trouble is not None:
            raise trouble
        return None if plan.again is None else RequeueAfter(plan.again)

    async def _release(self, pods: Iterable[Pod]) -> None:
        """Take the finalizer off; a pod that changed meanwhile comes again with its event."""
        for pod in pods:
            if not tracked(pod):
                continue
            meta = pod.metadata
            left = [name for name in meta.finalizers if name != FINALIZER]
            change = {"metadata": {**preconditions(meta), "finalizers": left}}
            with contextlib.suppress(NotFound, Conflict):
                await self._client.patch(PODS, meta.key, change)

    def _left_behind(self, job: Key) -> list[Pod]:
        """Pods that wait to be counted by a job that is no more."""
        return [
            pod
            for pod in self._watched.pods.by(NAMESPACE, job.namespace)
            if tracked(pod) and _counted_by(pod) == job.name
        ]

    async def _expire(self, found: Job) -> RequeueAfter | None:
        at = decisions.expires(found)
        if at is None:
            return None
        left = (at - self._hands.clock()).total_seconds()
        if left > 0:
            return RequeueAfter(left)
        meta = found.metadata
        with contextlib.suppress(NotFound):
            await self._client.delete(JOBS, meta.key, uid=meta.uid, propagation="Foreground")
        return None

    def suitors(self, pod: Pod) -> Iterator[Key]:
        """The jobs that may want this pod, or that must let it go."""
        if tracked(pod):
            yield pod.metadata.key._replace(name=_counted_by(pod))
        yield from suitors(self._watched.jobs, pod)


def _counted_by(pod: Pod) -> str:
    """The name of the job that a pod belongs or belonged to."""
    controller = pod.metadata.controller
    if controller is not None:
        return controller.name
    return pod.metadata.labels.get("batch.kubernetes.io/job-name", "")
