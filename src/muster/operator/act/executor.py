"""Actions -> API calls: the only part of the operator that writes.

Called by `reconcile`. Neighbouring actions of one sort go out together; the next sort waits for
them. A name that is taken is not an error: ours is what we wanted, and for another's or a dying
one we wait.
"""

from __future__ import annotations

import asyncio
from itertools import groupby
from typing import TYPE_CHECKING, Any

from muster.api.events import EventSubject
from muster.api.kinds import PODS, SERVICES, Kind
from muster.api.meta import Key, Raw
from muster.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    InvalidJob,
    MusterError,
    NotFound,
)
from muster.jobs import names
from muster.operator import metrics
from muster.operator.act import events, ssh_keys
from muster.operator.actions import (
    Action,
    Create,
    Delete,
    DeleteJob,
    EmitEvent,
    Patch,
    PatchStatus,
    Requeue,
)
from muster.operator.build.labels import owner_reference
from muster.operator.decide import conditions
from muster.operator.observe.informers import undecoded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.control.event_recorder import EventRecorder
    from muster.jobs.job import Job
    from muster.kube.client import Client
    from muster.operator.observe.informers import Informers
    from muster.operator.observe.own_writes import OwnWrites

BLOCKED = 2.0
_TAKEN, _ENDS = "ErrResourceExists", "Terminating"


class StopActions(Exception):
    """Carry out no more of this list; look again after so many seconds (None: when called).

    `why` is what the job's status is to say meanwhile: reason and message.
    """

    def __init__(self, again: float | None, why: Raw | None = None) -> None:
        super().__init__(again)
        self.again = again
        self.why = why


class Executor:
    """Carries out what was decided, and remembers what informers do not show yet."""

    def __init__(
        self,
        client: Client,
        watched: Informers,
        memory: OwnWrites,
        recorder: EventRecorder,
    ) -> None:
        self._client = client
        self._watched = watched
        self._memory = memory
        self._recorder = recorder

    async def apply(self, job: Job, actions: Sequence[Action]) -> float | None:
        """Do all of it; the answer is when to look again, if at all."""
        again = min((a.seconds for a in actions if isinstance(a, Requeue)), default=None)
        if self._memory.mark_started(job.uid) and _is_birth(job, actions):
            # Pods before the news of them: those waiting in line get theirs first, too.
            actions = [a for a in actions if not isinstance(a, PatchStatus | EmitEvent)]
            again = 0.0
        try:
            for _, stage in groupby(actions, key=_stage):
                await self._all_of(job, list(stage))
        except StopActions as stop:
            new = stop.why is not None and self._memory.record_blocked(job.uid, stop.why)
            return 0.0 if new else stop.again
        if self._memory.record_blocked(job.uid, {}):
            return 0.0  # It goes on, and its status is to say so.
        return again

    async def _all_of(self, job: Job, stage: list[Action]) -> None:
        """Carry out one stage whole, then raise its first trouble: a call once sent is awaited."""
        found: dict[int, Exception] = {}
        done: set[int] = set()

        async def one(action: Action) -> None:
            try:
                if await self._do(job, action):
                    done.add(id(action))
            except (MusterError, StopActions) as trouble:
                found[id(action)] = trouble
                metrics.count_failed_write(action)

        if len(stage) == 1:
            await one(stage[0])
        else:
            async with asyncio.TaskGroup() as group:
                for action in stage:
                    group.create_task(one(action))
        # In the order of the actions, so that the same trouble is always told in the same words.
        troubles = [found[id(action)] for action in stage if id(action) in found]
        happened = [action for action in stage if id(action) in done]
        if (told := events.event_for_stage(stage, happened, troubles)) is not None:
            self._tell(job, told)
        if troubles:
            raise troubles[0]

    def _tell(self, job: Job, told: EmitEvent) -> None:
        metrics.count_job_event(job, told.reason)
        version, component = job.job_kind.resource.api_version, job.job_kind.operator
        subject = EventSubject(version, job.kind, job.namespace, job.name, job.uid, component)
        self._recorder.record(subject, told)

    async def _do(self, job: Job, action: Action) -> bool:
        """Carry it out; the answer is whether that was still to be done."""
        match action:
            case Create():
                return await self._create(job, action)
            case Delete():
                return await self._delete(job, action)
            case Patch():
                await self._patch(job, action)
            case PatchStatus():
                await self._write_status(job, action.change)
            case EmitEvent():
                self._tell(job, action)
            case DeleteJob():
                await self._delete_job(job)
            case Requeue():
                pass
        return True

    async def _create(self, job: Job, action: Create) -> bool:
        kind = action.kind
        try:
            made = await self._client.create(_as_watched(kind), _complete(action.manifest))
        except AlreadyExists:
            await self._already(job, action)
            return False
        except Forbidden as error:
            if kind == PODS and "exceeded quota" in str(error):
                self._memory.record_quota_refusal(job.uid, str(error))
                raise StopActions(0.0) from error
            self._memory.record_blocked(job.uid, _hindrance(action, "made", error))
            raise
        except (Invalid, BadRequest) as error:
            if kind != PODS:
                self._memory.record_blocked(job.uid, _hindrance(action, "made", error))
                raise
            raise _invalid_template(job, action, error) from error
        metrics.count_write(kind.resource, "create")
        self._remember(job, kind, made)
        return True

    async def _patch(self, job: Job, action: Patch) -> None:
        key = Key(job.namespace, action.name)
        try:
            await self._client.patch(undecoded(action.kind), key, action.change)
        except (Forbidden, Invalid, BadRequest) as error:
            self._memory.record_blocked(job.uid, _hindrance(action, "changed", error))
            raise
        if action.kind == PODS:
            self._memory.drop_created(job.uid, action.kind, action.name)

    async def _already(self, job: Job, action: Create) -> None:
        """The name is taken: by ourselves a moment ago, or by somebody whose end we wait for."""
        key = Key(job.namespace, action.name)
        try:
            found = await self._client.get(undecoded(action.kind), key)
        except NotFound:
            raise StopActions(0.0) from None
        meta = found["metadata"]
        ours = any(row.get("uid") == job.uid for row in meta.get("ownerReferences") or ())
        if not ours and _left_behind(job, meta):
            owners = [*(meta.get("ownerReferences") or ()), owner_reference(job)]
            change = {"metadata": {"uid": meta["uid"], "ownerReferences": owners}}
            await self._client.patch(undecoded(action.kind), key, change)
            ours = True
        what, leaves = f"{action.kind.kind} {action.name}", bool(meta.get("deletionTimestamp"))
        if ours and not leaves:
            self._remember(job, action.kind, await self._client.get(_as_watched(action.kind), key))
            if _is_labelled(job, meta):
                return
            raise StopActions(
                0.0
            )  # No watch shows it to us: now that it is remembered it is let go.
        if leaves:
            raise StopActions(BLOCKED, {"reason": _ENDS, "message": f"waits for {what} to end"})
        taken = EmitEvent(_TAKEN, f"{what} exists and is not this job's; waiting", "Warning")
        self._tell(job, taken)
        raise StopActions(BLOCKED, {"reason": taken.reason, "message": taken.message})

    def _remember(self, job: Job, kind: Any, made: Any) -> None:
        meta = made["metadata"] if isinstance(made, dict) else None
        uid = meta["uid"] if meta is not None else made.metadata.uid
        name = meta["name"] if meta is not None else made.metadata.name
        if not self._watched.holds(kind, Key(job.namespace, name), uid):
            self._memory.record_created(job.uid, kind, made)

    async def _delete(self, job: Job, action: Delete) -> bool:
        key = Key(job.namespace, action.name)
        try:
            await self._client.delete(action.kind, key, uid=action.uid)
        except (NotFound, Conflict):
            return False  # Gone, or another now: either way not there any more.
        metrics.count_write(action.kind.resource, "delete")
        if action.uid:
            self._memory.record_deleted(job.uid, action.uid)
        return True

    async def _write_status(self, job: Job, change: Raw) -> None:
        body = {"metadata": {"uid": job.uid}, "status": change}
        kind = job.job_kind.resource
        try:
            written = await self._client.patch(kind, job.key, body, subresource="status")
        except (NotFound, Conflict):
            raise StopActions(None) from None  # The job is gone, or another of its name is there.
        if not job.status.get("conditions"):
            metrics.count_job_event(job, f"{job.kind}Created")
        self._memory.record_job(job.uid, written)

    async def _delete_job(self, job: Job) -> None:
        try:
            await self._client.delete(
                job.job_kind.resource, job.key, uid=job.uid, propagation="Background"
            )
        except (NotFound, Conflict):
            return
        self._tell(job, EmitEvent("SuccessfulDeleteJob", f"Deleted job: {job.name}"))


def _is_birth(job: Job, actions: Sequence[Action]) -> bool:
    """Whether things are made for a job of which nothing was said yet, and nothing is deleted."""
    if conditions.condition(job.status, "Created") is not None:
        return False
    made = any(isinstance(action, Create) for action in actions)
    return made and not any(isinstance(action, Delete) for action in actions)


def _left_behind(job: Job, meta: Raw) -> bool:
    """Whether it was made for a job of this kind and name and nobody controls it by now."""
    controlled = any(row.get("controller") for row in meta.get("ownerReferences") or ())
    alone = not controlled and not meta.get("deletionTimestamp")
    return alone and _is_labelled(job, meta)


def _is_labelled(job: Job, meta: Raw) -> bool:
    wanted = names.selector(job.job_kind.operator, job.name).items()
    return wanted <= (meta.get("labels") or {}).items()


def _as_watched(kind: Kind[Any]) -> Kind[Any]:
    """The kind as its informer holds it: pods and services as structs, all else whole."""
    return kind if kind in (PODS, SERVICES) else undecoded(kind)


def _complete(manifest: Raw) -> Raw:
    """What is decided purely has no random part; keys are made here."""
    return ssh_keys.with_keys(manifest) if ssh_keys.needs_keys(manifest) else manifest


def _stage(action: Action) -> tuple[str, str]:
    """Actions next to each other with the same stage go out together."""
    kind = action.kind.resource if isinstance(action, Create | Delete | Patch) else ""
    return type(action).__name__, kind


def _hindrance(action: Create | Patch, verb: str, error: ApiError) -> Raw:
    message = f"{action.kind.kind} {action.name} cannot be {verb}: {error}"
    return {"reason": f"Failed{type(action).__name__}", "message": message}


def _invalid_template(job: Job, action: Create, error: Invalid | BadRequest) -> InvalidJob:
    """The API server says that the pod of this template cannot be."""
    role = action.manifest["metadata"]["labels"].get(names.ROLE, "")
    replica_spec = job.replica_spec(job.job_kind.role(role) or "")
    path = f"{replica_spec.path}.template" if replica_spec else "spec"
    return InvalidJob(path, str(error), hint="correct the template")
