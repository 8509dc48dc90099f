"""Reads and writes that several controllers share: owned objects, pods from a template, statuses.

A status is written only over the version it was computed from: a decision based on an old version
fails with a conflict and is made again.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from kubekit.errors import ApiError, Conflict, MusterError, NotFound
from kubekit.objects.events import EventText, event_subject
from kubekit.objects.meta import SUFFIX_LETTERS, merge_patch, preconditions
from kubekit.objects.selectors import from_labels
from localkube.controllers import adoption
from localkube.controllers.informers import candidates, on_owned
from localkube.controllers.workloads import PODS, copied_metadata, owner_reference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from kubekit.client.client import Client
    from kubekit.control.event_recorder import EventRecorder
    from kubekit.objects.kinds import Kind
    from kubekit.objects.meta import HasMetadata, Key, ObjectMeta, Raw
    from kubekit.watch.informer import Informer
    from kubekit.watch.informer_cache import Change
    from localkube.controllers.expectations import Expectations
    from localkube.controllers.workloads import (
        DaemonSet,
        Deployment,
        Job,
        Pod,
        ReplicaSet,
        StatefulSet,
    )

    Owner = Deployment | ReplicaSet | StatefulSet | DaemonSet | Job
    T = TypeVar("T", bound=HasMetadata)
else:
    T = TypeVar("T")

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

    def connect(
        self,
        owners: Informer[Any],
        owned: Informer[T],
        possible_owners: Callable[[T], Iterable[Key]],
        wake: Callable[[Key], None],
    ) -> None:
        """Wake an owner when it changes, or an object that it controls or could adopt."""

        def on_owner(change: Change[Any]) -> None:
            meta = change.current.metadata
            if change.new is None:
                self.expectations.forget(meta.uid)
            wake(meta.key)

        owners.subscribe(on_owner)
        owned.subscribe(on_owned(self.kind.kind, self.expectations, possible_owners, wake))

    async def owned(
        self,
        owner: Owner,
        informer: Informer[T],
        is_member: Callable[[T], bool] | None = None,
    ) -> list[T]:
        """The objects that the owner controls; others are adopted and released.

        The event of an adoption calls the controller again, with the adopted object.
        """
        meta, selector = owner.metadata, from_labels(owner.spec.selector)
        objects = adoption.find_owned(meta, selector, candidates(informer, meta), is_member)
        if objects.adopt and not await self._still_exists(meta):
            return objects.owned
        reference = owner_reference(self.kind, meta)
        patches = {m.key: adoption.adoption_patch(m, reference) for m in objects.adopt}
        patches |= {m.key: adoption.release_patch(m, meta.uid) for m in objects.release}
        for key, patch in patches.items():
            with contextlib.suppress(NotFound, Conflict):  # the event of the change calls again
                await self.client.patch(informer.kind, key, patch)
        return objects.owned

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


def _namespace_is_terminating(error: MusterError) -> bool:
    causes = error.causes if isinstance(error, ApiError) else ()
    return any(cause.reason == "NamespaceTerminating" for cause in causes)


async def _together(calls: Iterable[Any]) -> list[MusterError]:
    """Await all calls in parallel; returns the errors that they returned."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(call) for call in calls]
    return [error for task in tasks if (error := task.result()) is not None]


def new_pod(kind: Kind[Any], owner: Job | ReplicaSet | DaemonSet, base: str) -> Raw:
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
