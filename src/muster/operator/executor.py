"""Actions -> API calls, in their order: the only part of the operator that writes.

A name that is taken is not an error. If the object is the job's own, it was created a moment ago
and no informer shows it yet, or another operator created it, and it gets our labels. If it has
another owner or is being deleted, the job waits until the name is free.

All objects that were created or deleted together share an event. Pods and services have an event
for every creation, deletion and failure; groups only for failures and for their deletion, which
frees the resources of a job that has ended. A right that the operator lacks has an event of its
own, whichever write it is for.

Kept apart because with the control loop it would exceed 600 lines, and only this part writes.
"""

from __future__ import annotations

import asyncio
import base64
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kubekit.errors import MusterError
from kubekit.objects.events import EventSubject, EventText
from kubekit.objects.kinds import POD_DISRUPTION_BUDGETS, PODS, SERVICES, Kind
from kubekit.objects.meta import Key, Raw
from kubekit.request_errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
)
from kubekit.rights import MISSING_RIGHT
from kubekit.telemetry import metrics
from muster.contract.gang_dialects import GROUP_KIND_BY_RESOURCE
from muster.contract.job_fields import InvalidJob
from muster.contract.job_kinds import JOB_KIND_BY_NAME
from muster.contract.operator_rights import missing_for_ownership
from muster.jobs import names
from muster.jobs.job_status import QUOTA_EXCEEDED, Waiting
from muster.operator.build.labels import job_selector, was_made_by_another_operator
from muster.operator.decision_types import (
    NAME_TAKEN,
    Action,
    Create,
    Delete,
    DeleteJob,
    EmitEvent,
    Patch,
    PatchStatus,
    RecordExits,
    Requeue,
    VerifyJob,
)
from muster.operator.observe.informers import count_job_event, undecoded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kubekit.client.client import Client
    from kubekit.control.event_recorder import EventRecorder
    from kubekit.objects.meta import Raw
    from muster.jobs.job import Job
    from muster.operator.decision_types import Action
    from muster.operator.observe.informers import Informers
    from muster.operator.observe.own_writes import OwnWrites

QUOTA_WORDS = ("exceeded quota", "insufficient quota to match these scopes")
"""How the API server refuses a pod for a quota, and for a class that only quotas may allow."""
NAME_RETRY = 2.0
"""Seconds after which a creation is repeated whose name was taken."""
_GROUPS = dict.fromkeys(GROUP_KIND_BY_RESOURCE, "PodGroup")
_EVENT_NOUNS = {PODS.resource: "Pod", SERVICES.resource: "Service"}
_EVENT_NOUNS |= _GROUPS | {POD_DISRUPTION_BUDGETS.resource: "Pdb"}
_MAX_NAMES = 8
"""Names in one message."""
OBJECTS = metrics.counter(
    "job_objects_total", "Objects created and deleted for jobs.", "resource", "verb"
)
FAILURES = metrics.counter(
    "job_object_failures_total",
    "Objects of jobs that could not be created or deleted.",
    "resource",
    "verb",
)


class StopActions(Exception):
    """Carry out no more of this list; reconcile after `seconds` (None: when something changes).

    `waiting` is the reason that the job's status shows until then.
    """

    def __init__(self, seconds: float | None, waiting: Waiting | None = None) -> None:
        super().__init__(seconds)
        self.seconds = seconds
        self.waiting = waiting


@dataclass(frozen=True)
class Executor:
    """Carries out decisions, and remembers writes that informers do not show yet."""

    client: Client
    informers: Informers
    own_writes: OwnWrites
    recorder: EventRecorder

    async def apply(self, job: Job, actions: Sequence[Action]) -> float | None:
        """Carry out the list. Returns after how many seconds to reconcile again, if at all."""
        self.own_writes.of(job.uid).started = True
        try:
            for _, stage in groupby(actions, key=_stage_key):
                await self._apply_stage(job, list(stage))
        except StopActions as stop:
            is_new = stop.waiting is not None and self.own_writes.record_blocked(
                job.uid, stop.waiting
            )
            return 0.0 if is_new else stop.seconds
        if self.own_writes.record_blocked(job.uid, None):
            return 0.0  # The job is no longer blocked, and its status must say so.
        delays = (action.seconds for action in actions if isinstance(action, Requeue))
        return min(delays, default=None)

    async def _apply_stage(self, job: Job, stage: list[Action]) -> None:
        """Carry out actions of one sort at the same time, then raise the first error.

        An error does not cancel the other calls: the API server may have carried them out already,
        and their results must be remembered.
        """
        first, *others = (self._attempt(job, action) for action in stage)
        # A lone action runs without a task: a status patch must not queue behind event writes.
        results = await asyncio.gather(first, *others) if others else [await first]
        changes = [action for action, result in zip(stage, results, strict=True) if result is True]
        # Errors are in the order of the actions, so that the event does not depend on timing.
        errors = [result for result in results if isinstance(result, Exception)]
        for event in events_of_stage(stage, changes, errors):
            self._emit(job, event)
        if errors:
            raise errors[0]

    async def _attempt(self, job: Job, action: Action) -> bool | Exception:
        """Carry out an action. Returns whether it changed an object, or the error."""
        try:
            return await self._apply_action(job, action)
        except (MusterError, StopActions) as error:
            count_failed_write(action)
            return error

    def report_bug(self, raw: Raw, kind: str, error: Exception) -> None:
        """Report by an event that the operator cannot deal with this job."""
        job_kind, meta = JOB_KIND_BY_NAME[kind], raw["metadata"]
        subject = EventSubject(
            job_kind.resource.api_version,
            kind,
            meta["namespace"],
            meta["name"],
            meta["uid"],
            job_kind.operator,
        )
        # Its text may quote the whole job.
        name = type(error).__name__
        text = f"a bug in the operator prevents work on this job, and it tries again: {name}"
        self.recorder.record(subject, EventText("InternalError", text, "Warning"))

    def _emit(self, job: Job, event: EmitEvent) -> None:
        count_job_event(job, event.reason)
        version, component = job.job_kind.resource.api_version, job.job_kind.operator
        subject = EventSubject(version, job.kind, job.namespace, job.name, job.uid, component)
        self.recorder.record(subject, event)

    async def _apply_action(self, job: Job, action: Action) -> bool:
        """Carry out an action. Returns false if the object was already as wanted."""
        match action:
            case VerifyJob():
                await self._verify_job(job)
            case Create():
                return await self._create(job, action)
            case Delete():
                return await self._delete(job, action)
            case Patch():
                await self._patch(job, action)
            case PatchStatus():
                await self._patch_status(job, action.change)
            case EmitEvent():
                self._emit(job, action)
            case RecordExits():
                self.own_writes.of(job.uid).reported_exits = action.exits
            case DeleteJob():
                await self._delete_job(job)
            case Requeue():
                pass
        return True

    async def _verify_job(self, job: Job) -> None:
        try:
            live = await self.client.get(job.job_kind.resource, job.key)
        except NotFound:
            raise StopActions(None) from None
        meta = live["metadata"]
        if meta["uid"] != job.uid or meta.get("deletionTimestamp"):
            raise StopActions(None)

    async def _create(self, job: Job, action: Create) -> bool:
        manifest = action.manifest
        if action.generate == "ssh-keys":
            manifest = with_keys(manifest)
        kind = self.informers.served_kind(action.kind)
        if kind != action.kind:
            manifest = {**manifest, "apiVersion": kind.api_version}
        try:
            with self._recording_refusals(job, action):
                created = await self.client.create(_as_watched(kind), manifest)
        except AlreadyExists:
            await self._resolve_taken_name(job, action)
            return False
        OBJECTS.labels(action.kind.resource, "create").inc()
        self._remember(job, action.kind, created)
        return True

    @contextmanager
    def _recording_refusals(self, job: Job, action: Create | Patch) -> Iterator[None]:
        """Remember why an object cannot be written; the error then names a missing right."""
        try:
            yield
        except (Forbidden, Invalid, BadRequest) as error:
            if error.namespace_is_terminating:
                raise StopActions(None) from error  # The job will be deleted too.
            named = _with_missing_right(job, action, error)
            self._record_refusal(job, action, named)
            if named is error:
                raise
            raise named from error

    def _record_refusal(self, job: Job, action: Create | Patch, error: ApiError) -> None:
        """Let the next decision know of a refusal; StopActions if it will decide otherwise."""
        if isinstance(action, Create) and action.kind == PODS:
            if isinstance(error, Invalid | BadRequest):
                rejection = _template_rejection(job, action, error)
                self.own_writes.record_template_rejection(job.uid, job.generation, rejection)
                raise StopActions(0.0) from error
            if any(words in str(error) for words in QUOTA_WORDS):
                self._record_quota_refusal(job, error)
                raise StopActions(0.0) from error
        verb = "created" if isinstance(action, Create) else "changed"
        message = f"{action.kind.kind} {action.name} cannot be {verb}: {error}"
        self.own_writes.record_blocked(job.uid, Waiting(f"Failed{type(action).__name__}", message))

    def _record_quota_refusal(self, job: Job, error: ApiError) -> None:
        """Remember it; one event per wait: a job in the line of a quota is refused repeatedly."""
        waits = job.status.waiting is not None and job.status.waiting.reason == QUOTA_EXCEEDED
        is_known = waits or self.own_writes.quota_refusal(job.uid)
        self.own_writes.record_quota_refusal(job.uid, str(error))
        if not is_known:
            self._emit(job, _failed("Create", "Pod", error))

    async def _patch(self, job: Job, action: Patch) -> None:
        key = Key(job.namespace, action.name)
        kind = _as_watched(action.kind)
        with self._recording_refusals(job, action):
            served = self.informers.served_kind(kind)
            patched = await self.client.patch(served, key, action.change)
        if kind == PODS:
            # The patch may have released the pod, which must not be remembered as the job's then.
            self.own_writes.drop_created(job.uid, kind, action.name)
        else:
            self._remember(job, kind, patched)

    async def _resolve_taken_name(self, job: Job, action: Create) -> None:
        """Return if the object is the job's own; else wait until the name is free."""
        key = Key(job.namespace, action.name)
        kind = self.informers.served_kind(action.kind)
        try:
            existing = await self.client.get(undecoded(kind), key)
        except NotFound:
            raise StopActions(0.0) from None  # The name is free by now.
        meta, name = existing["metadata"], f"{action.kind.kind} {action.name}"
        if meta.get("deletionTimestamp"):
            raise StopActions(NAME_RETRY, Waiting("Terminating", f"waits for {name} to end"))
        if all(row.get("uid") != job.uid for row in meta.get("ownerReferences") or ()):
            message = f"{name} exists and has another owner; waiting until it is deleted"
            raise StopActions(NAME_RETRY, Waiting(NAME_TAKEN, message))
        labels = meta.get("labels") or {}
        if job_selector(job).items() <= labels.items():
            self._remember(job, action.kind, await self.client.get(_as_watched(kind), key))
            return
        if was_made_by_another_operator(job.name, action.kind, labels):
            own = action.manifest["metadata"]["labels"]
            missing = {name: own[name] for name in own if name.startswith(names.PREFIX)}
            change = {"metadata": {"uid": meta["uid"], "labels": missing}}
            labelled = await self.client.patch(_as_watched(kind), key, change)
        else:
            labelled = await self.client.get(_as_watched(kind), key)
        # Informers select by label, so none shows this object yet. Now that it is remembered, the
        # next decision goes on with it, or releases a pod without the job's labels.
        self._remember(job, action.kind, labelled)
        raise StopActions(0.0)

    def _remember(self, job: Job, kind: Kind[Any], written: Any) -> None:
        if not self.informers.shows(kind, written, job.uid):
            self.own_writes.record_created(job.uid, kind, written)

    async def _delete(self, job: Job, action: Delete) -> bool:
        key = Key(job.namespace, action.name)
        try:
            kind = self.informers.served_kind(action.kind)
            await self.client.delete(kind, key, uid=action.uid, version=action.version)
        except (NotFound, Conflict):
            # The object is gone or has changed, or another object has its name by now. An informer
            # will show that and cause the next reconcile.
            return False
        OBJECTS.labels(action.kind.resource, "delete").inc()
        if action.uid:
            self.own_writes.record_deleted(job.uid, action.uid)
        return True

    async def _patch_status(self, job: Job, change: Raw) -> None:
        body = {"metadata": {"uid": job.uid}, "status": change}
        kind = job.job_kind.resource
        try:
            written = await self.client.patch(kind, job.key, body, subresource="status")
        except (NotFound, Conflict):
            raise StopActions(None) from None  # The job is gone, or another job has its name now.
        if not job.status.conditions:
            count_job_event(job, f"{job.kind}Created")
        self.own_writes.record_job(job.uid, written)

    async def _delete_job(self, job: Job) -> None:
        kind = job.job_kind.resource
        try:
            await self.client.delete(kind, job.key, uid=job.uid, propagation="Background")
        except (NotFound, Conflict):
            return
        self._emit(job, EmitEvent("SuccessfulDeleteJob", f"Deleted job: {job.name}"))


def _as_watched(kind: Kind[Any]) -> Kind[Any]:
    """The kind as its informer holds it: pods and services as structs, others undecoded."""
    return kind if kind in (PODS, SERVICES) else undecoded(kind)


def _stage_key(action: Action) -> tuple[str, str]:
    """Neighbouring actions with the same key are carried out at the same time."""
    kind = action.kind.resource if isinstance(action, Create | Delete | Patch) else ""
    return type(action).__name__, kind


def _with_missing_right(job: Job, action: Create | Patch, error: ApiError) -> ApiError:
    """The error; if the job may not own the object for want of a right, one that names it."""
    missing = missing_for_ownership(str(error), job.job_kind.resource, action.kind)
    if missing is None:
        return error
    named = Forbidden(str(missing), status=error.status, reason=error.reason)
    named.missing_right = missing
    return named


def _template_rejection(job: Job, action: Create, error: ApiError) -> str:
    """The path of the template whose pod the API server rejects, and the reason."""
    role = action.manifest["metadata"]["labels"].get(names.ROLE, "")
    replica_spec = job.replica_spec(job.job_kind.role(role) or "")
    path = f"{replica_spec.path}.template" if replica_spec else "spec"
    return InvalidJob(path, str(error), hint="correct the template").with_hint


def events_of_stage(
    stage: Sequence[Action], changes: Sequence[Action], errors: Sequence[Exception]
) -> list[EmitEvent]:
    """The events about actions carried out together, and about rights that were missing for them.

    `changes` are the actions that changed an object, `errors` are the errors of the others.
    """
    results = [_event_of_failure(stage[0], errors), _event_of_changes(stage[0], changes)]
    missing = (error.missing_right for error in errors if isinstance(error, MusterError))
    rights = [
        EmitEvent(MISSING_RIGHT, str(row), "Warning") for row in dict.fromkeys(missing) if row
    ]
    return [*filter(None, results), *rights]


def _event_of_failure(first: Action, errors: Sequence[Exception]) -> EmitEvent | None:
    # StopActions is not a failure: the job only waits.
    failed = next((error for error in errors if isinstance(error, MusterError)), None)
    verb, noun = _words(first)
    return _failed(verb, noun, failed) if failed is not None and noun else None


def _words(action: Action) -> tuple[str, str]:
    """The verb and the noun of the events about an action; empty if it has none."""
    if isinstance(action, DeleteJob):
        return "Delete", "Job"
    if isinstance(action, Create | Delete):
        return type(action).__name__, _EVENT_NOUNS.get(action.kind.resource, "")
    return "", ""


def _event_of_changes(first: Action, changes: Sequence[Action]) -> EmitEvent | None:
    verb, noun = _words(first)
    # A group is created with the pods: an event about it would only repeat theirs.
    is_reported = noun in ("Pod", "Service") or (verb == "Delete" and noun == "PodGroup")
    if not is_reported or not changes:
        return None
    names = [action.name for action in changes if isinstance(action, Create | Delete)]
    listed = ", ".join(names[:_MAX_NAMES]) + (
        f" and {len(names) - _MAX_NAMES} more" if names[_MAX_NAMES:] else ""
    )
    plural = (noun if noun == "PodGroup" else noun.lower()) + ("s" if names[1:] else "")
    return EmitEvent(f"Successful{verb}{noun}", f"{verb}d {plural}: {listed}")


def _failed(verb: str, noun: str, error: MusterError) -> EmitEvent:
    return EmitEvent(f"Failed{verb}{noun}", f"Error {verb.lower()[:-1]}ing: {error}", "Warning")


def with_keys(manifest: Raw) -> Raw:
    """The secret with a new pair of keys."""
    key = ec.generate_private_key(ec.SECP521R1())
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    data = {
        "ssh-privatekey": base64.b64encode(private).decode(),
        "ssh-publickey": base64.b64encode(public + b"\n").decode(),
    }
    return {**manifest, "data": data}


def count_failed_write(action: Action) -> None:
    """Count an object that could not be created or deleted."""
    if isinstance(action, Create | Delete):
        FAILURES.labels(action.kind.resource, type(action).__name__.lower()).inc()
