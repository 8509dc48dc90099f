"""What controllers of owned objects share: their loop, adoption, pods from a template, statuses.

A controller releases objects that it owns but that no longer match its selector, and adopts objects
that match and have no controller. A controller that is being deleted does neither: garbage
collection decides what happens to its objects.

A controller that counts its pods right after it created some would create them again. So it calls
`Expectations.pending` first and does nothing while an event is outstanding; that event calls the
controller again. Creations are recorded by name and deletions by UID *before* they are sent, so
that no event can come too early.

A status is written only over the version it was computed from: a decision based on an old version
fails with a conflict and is made again.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from kubekit.control.loop import RequeueAfter
from kubekit.errors import MusterError
from kubekit.objects.events import EventText, event_subject
from kubekit.objects.meta import SUFFIX_LETTERS, HasMetadata, merge_patch, preconditions
from kubekit.objects.selectors import Selector, from_labels
from kubekit.request_errors import AlreadyExists, ApiError, Conflict, NotFound
from localkube.controllers import controller_revisions as revisions
from localkube.controllers.shared_informers import SharedInformers, candidates, possible_owners
from localkube.controllers.workloads import (
    CONTROLLER_REVISIONS,
    PODS,
    ControllerRevision,
    Pod,
    TemplateOwner,
    copied_metadata,
    owner_reference,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from kubekit.client.client import Client
    from kubekit.control.event_recorder import EventRecorder
    from kubekit.objects.kinds import Kind
    from kubekit.objects.meta import Key, ObjectMeta, OwnerReference, Raw
    from kubekit.watch.informer import Informer
    from kubekit.watch.informer_cache import Change

OwnerT = TypeVar("OwnerT", bound=HasMetadata)
T = TypeVar("T", bound=HasMetadata)


def find_owned(
    owner: ObjectMeta,
    selector: Selector,
    candidates: Iterable[T],
    is_member: Callable[[T], bool] | None = None,
) -> tuple[list[T], list[ObjectMeta], list[ObjectMeta]]:
    """The objects that the owner controls, those to adopt, and those to release.

    With `is_member`, not every object that matches is the owner's.
    """
    owned: list[T] = []
    adopt: list[ObjectMeta] = []
    release: list[ObjectMeta] = []
    terminating = owner.deletion_timestamp is not None
    for candidate in candidates:
        meta = candidate.metadata
        matches = selector.matches(meta.labels) and (is_member is None or is_member(candidate))
        if meta.controller is not None:
            if meta.controller.uid != owner.uid:
                continue
            if matches:
                owned.append(candidate)
            elif not terminating:
                release.append(meta)
        elif matches and not terminating and meta.deletion_timestamp is None:
            adopt.append(meta)
    return owned, adopt, release


def adoption_patch(meta: ObjectMeta, reference: Raw) -> Raw:
    """The patch that adds an owner, unless the object changed since."""
    others = [reference_manifest(owner) for owner in meta.owner_references]
    return {"metadata": {**preconditions(meta), "ownerReferences": [*others, reference]}}


def release_patch(meta: ObjectMeta, owner: str) -> Raw:
    """The patch that removes an owner, unless the object changed since."""
    others = [reference_manifest(o) for o in meta.owner_references if o.uid != owner]
    return {"metadata": {**preconditions(meta), "ownerReferences": others}}


def reference_manifest(owner: OwnerReference) -> Raw:
    fields: Raw = msgspec.to_builtins(owner)
    return {name: value for name, value in fields.items() if value is not None}


TIMEOUT = 30.0
"""Seconds after which we no longer wait for an event."""


class Expectations:
    """Writes of a controller that its informers do not show yet, per owner."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._deadlines: dict[str, dict[str, float]] = {}

    def creation(self, owner: str, name: str) -> contextlib.AbstractContextManager[None]:
        """Expect the event of the creation sent inside; if sending fails, no event will come."""
        return self._write(owner, f"+{name}")

    def deletion(self, owner: str, uid: str) -> contextlib.AbstractContextManager[None]:
        """The same for a deletion."""
        return self._write(owner, f"-{uid}")

    @contextlib.contextmanager
    def _write(self, owner: str, write: str) -> Iterator[None]:
        self._deadlines.setdefault(owner, {})[write] = self._clock() + TIMEOUT
        try:
            yield
        except BaseException:
            self._forget(owner, write)
            raise

    def observed(self, owner: str, meta: ObjectMeta, *, gone: bool) -> None:
        """An informer shows this object of the owner."""
        if owner not in self._deadlines:
            return
        self._forget(owner, f"+{meta.name}")
        if gone or meta.deletion_timestamp is not None:
            self._forget(owner, f"-{meta.uid}")

    def pending(self, owner: str) -> float | None:
        """None if informers show all writes; else the seconds to wait for them at most."""
        deadlines = self._deadlines.get(owner)
        if not deadlines:
            return None
        left = max(deadlines.values()) - self._clock()
        if left > 0:
            return left
        del self._deadlines[owner]
        return None

    def forget(self, owner: str) -> None:
        """The owner was deleted."""
        self._deadlines.pop(owner, None)

    def _forget(self, owner: str, write: str) -> None:
        deadlines = self._deadlines.get(owner)
        if deadlines is not None:
            deadlines.pop(write, None)
            if not deadlines:
                del self._deadlines[owner]


_SUFFIX = 5
# The longest label value. A pod's name is a host name, and controllers copy names into labels.
_MAX_NAME = 63


def generate_name(base: str) -> str:
    """A new name with this beginning, as the API server makes it."""
    suffix = "".join(secrets.choice(SUFFIX_LETTERS) for _ in range(_SUFFIX))
    return base[: _MAX_NAME - _SUFFIX] + suffix


@dataclass(frozen=True)
class PodControl:
    """The reads and writes of one controller."""

    client: Client
    kind: Kind[Any]
    """The kind of the owners."""
    component: str
    """The source of the controller's events."""
    expectations: Expectations
    recorder: EventRecorder
    clock: Callable[[], datetime]

    def record(self, meta: ObjectMeta, text: EventText) -> None:
        """Record an event on an object of the controller's kind."""
        self.recorder.record(event_subject(self.kind, meta, self.component), text)

    async def owned(
        self,
        owner: TemplateOwner,
        informer: Informer[T],
        is_member: Callable[[T], bool] | None = None,
    ) -> list[T]:
        """The objects that the owner controls; others are adopted and released.

        The event of an adoption calls the controller again, with the adopted object.
        """
        meta, selector = owner.metadata, from_labels(owner.spec.selector)
        possible = candidates(informer, meta)
        owned, adopt, release = find_owned(meta, selector, possible, is_member)
        if adopt and not await self._still_exists(meta):
            return owned
        reference = owner_reference(self.kind, meta)
        patches = {m.key: adoption_patch(m, reference) for m in adopt}
        patches |= {m.key: release_patch(m, meta.uid) for m in release}
        for key, patch in patches.items():
            with contextlib.suppress(NotFound, Conflict):  # the event of the change calls again
                await self.client.patch(informer.kind, key, patch)
        return owned

    async def _still_exists(self, owner: ObjectMeta) -> bool:
        """Whether the API, and not only our informer, has the owner and does not delete it."""
        try:
            live = await self.client.get(self.kind, owner.key)
        except NotFound:
            return False
        meta: ObjectMeta = live.metadata
        return meta.uid == owner.uid and meta.deletion_timestamp is None

    async def create_pods(self, owner: ObjectMeta, bodies: Sequence[Raw]) -> MusterError | None:
        """Create pods in batches of doubling size; stops at the first error and returns it.

        A quota or a bad template rejects all of them: doubling makes few calls in vain.
        """
        at, batch = 0, 1
        while at < len(bodies):
            errors = await _together(
                self._create_pod(owner, body) for body in bodies[at : at + batch]
            )
            if errors:
                return errors[0]
            at, batch = at + batch, batch * 2
        return None

    async def _create_pod(self, owner: ObjectMeta, body: Raw) -> MusterError | None:
        name = body["metadata"]["name"]
        try:
            with self.expectations.creation(owner.uid, name):
                await self.client.create(PODS, body)
        except MusterError as error:
            if isinstance(error, NotFound) or _namespace_is_terminating(error):
                return None  # the owner is deleted with its namespace
            self.record(owner, EventText("FailedCreate", f"Error creating: {error}", "Warning"))
            return error
        self.record(owner, EventText("SuccessfulCreate", f"Created pod: {name}"))
        return None

    async def delete_pods(self, owner: ObjectMeta, pods: Iterable[Pod]) -> None:
        """Delete all of them; raises the first error afterwards."""
        errors = await _together(self._delete_pod(owner, pod) for pod in pods)
        if errors:
            raise errors[0]

    async def _delete_pod(self, owner: ObjectMeta, pod: Pod) -> MusterError | None:
        meta = pod.metadata
        try:
            with self.expectations.deletion(owner.uid, meta.uid):
                await self.client.delete(PODS, meta.key, uid=meta.uid)
        except (NotFound, Conflict):
            return None  # this pod is gone already
        except MusterError as error:
            self.record(owner, EventText("FailedDelete", f"Error deleting: {error}", "Warning"))
            return error
        self.record(owner, EventText("SuccessfulDelete", f"Deleted pod: {meta.name}"))
        return None

    async def write_status(self, meta: ObjectMeta, old: Raw, new: Raw) -> bool:
        """Write the status if it changed; returns whether it did."""
        if new == old:
            return False
        body = {"metadata": preconditions(meta), "status": merge_patch(old, new)}
        await self.client.patch(self.kind, meta.key, body, subresource="status")
        return True

    async def current_revision(
        self,
        owner: TemplateOwner,
        known: Sequence[ControllerRevision],
        hash_label: str,
    ) -> ControllerRevision | None:
        """The revision of the owner's template, with the highest number.

        None if the name of a new revision is taken by another template: the owner's status then has
        a higher `collisionCount`, which gives another name at the next visit.
        """
        template = owner.spec.template
        found, number = revisions.find_revision(template, known), revisions.next_number(known)
        if found is None:
            body = revisions.new_revision(self.kind, owner, number, hash_label)
            try:
                return await self.client.create(CONTROLLER_REVISIONS, body)
            except AlreadyExists:
                name = owner.metadata.key._replace(name=body["metadata"]["name"])
                live = await self.client.get(CONTROLLER_REVISIONS, name)
                if revisions.template_of(live) == template:
                    return live  # ours, and the informer does not show it yet
                collisions = {"collisionCount": owner.count("collisionCount") + 1}
                await self.write_status(owner.metadata, owner.status, owner.status | collisions)
                return None
        if found.revision == number - 1:
            return found
        change = {"metadata": preconditions(found.metadata), "revision": number}
        return await self.client.patch(CONTROLLER_REVISIONS, found.metadata.key, change)

    async def delete_revisions(self, old: Iterable[ControllerRevision]) -> None:
        for revision in old:
            with contextlib.suppress(NotFound):
                meta = revision.metadata
                await self.client.delete(CONTROLLER_REVISIONS, meta.key, uid=meta.uid)


def _namespace_is_terminating(error: MusterError) -> bool:
    causes = error.causes if isinstance(error, ApiError) else ()
    return any(cause.reason == "NamespaceTerminating" for cause in causes)


async def _together(calls: Iterable[Any]) -> list[MusterError]:
    """Await all calls in parallel; returns the errors that they returned."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(call) for call in calls]
    return [error for task in tasks if (error := task.result()) is not None]


def new_pod(kind: Kind[Any], owner: TemplateOwner, base: str) -> Raw:
    """A pod of the owner's template, with a generated name."""
    template, name = owner.spec.template, generate_name(base)
    return {
        "metadata": {
            **copied_metadata(template),
            "name": name,
            "generateName": name[:-_SUFFIX],
            "namespace": owner.metadata.namespace,
            "ownerReferences": [owner_reference(kind, owner.metadata)],
        },
        "spec": template.get("spec") or {},
    }


@dataclass(frozen=True)
class OwnerController(Generic[OwnerT, T]):
    """The loop of every controller of owned objects; keys are owners.

    An owner is visited when it changes or an object changes that it controls or could adopt, but
    not before the informers show the writes of its last visit.
    """

    pod_control: PodControl
    informers: SharedInformers
    owners: Informer[OwnerT]
    objects: Informer[T]
    """The objects that the owners control."""

    async def visit(self, owner: OwnerT) -> float | None:
        """Write what the owner needs; returns the seconds until the next visit, if one is due."""
        raise NotImplementedError

    async def gone(self, key: Key) -> None:
        """The owner is gone; garbage collection deletes its objects."""

    def possible_owners(self, orphan: T) -> Iterable[Key]:
        """The owners to wake for an object without a controller."""
        return possible_owners(self.owners, orphan)

    def connect(self, wake: Callable[[Key], None]) -> None:
        expectations = self.pod_control.expectations

        def on_owner(change: Change[OwnerT]) -> None:
            meta = change.current.metadata
            if change.new is None:
                expectations.forget(meta.uid)
            wake(meta.key)

        def on_object(change: Change[T]) -> None:
            meta = change.current.metadata
            # Both versions: an object that was released concerns the owner that it had.
            for version in (change.old, change.new):
                controller = version.metadata.controller if version is not None else None
                if controller is not None and controller.kind == self.pod_control.kind.kind:
                    expectations.observed(controller.uid, meta, gone=change.new is None)
                    wake(meta.key._replace(name=controller.name))
            if change.new is not None and change.new.metadata.controller is None:
                for key in self.possible_owners(change.new):
                    wake(key)

        self.owners.subscribe(on_owner)
        self.objects.subscribe(on_object)

    async def reconcile(self, key: Key) -> RequeueAfter | None:
        owner = self.owners.get(key)
        if owner is None:
            await self.gone(key)
            return None
        pending = self.pod_control.expectations.pending(owner.metadata.uid)
        again = await self.visit(owner) if pending is None else pending
        return None if again is None else RequeueAfter(again)
