"""Writes that several controllers share: pods from a template, adoptions, statuses.

A status is written only over the version it was computed from: a decision based on an old version
fails with a conflict and is made again.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import TYPE_CHECKING, Any, TypeVar

from muster.api.events import EventText, event_subject
from muster.api.meta import SUFFIX_LETTERS, merge_patch, preconditions
from muster.errors import Conflict, MusterError, NotFound
from muster.local.controllers import adoption
from muster.local.controllers.kinds import PODS, owner_reference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from muster.api.kinds import Kind
    from muster.api.meta import HasMetadata, ObjectMeta, Raw
    from muster.control.event_recorder import EventRecorder
    from muster.kube.client import Client
    from muster.local.controllers.adoption import OwnedObjects
    from muster.local.controllers.expectations import Expectations
    from muster.local.controllers.kinds import Pod

    T = TypeVar("T", bound=HasMetadata)
else:
    T = TypeVar("T")

_SUFFIX = 5
_MAX_NAME = 63


def generate_name(base: str) -> str:
    """A new name with this beginning, as the API server makes it."""
    suffix = "".join(secrets.choice(SUFFIX_LETTERS) for _ in range(_SUFFIX))
    return base[: _MAX_NAME - _SUFFIX] + suffix


class PodControl:
    """The writes of one controller; `component` is the source of its events."""

    def __init__(
        self,
        client: Client,
        kind: Kind[Any],
        component: str,
        expectations: Expectations,
        recorder: EventRecorder,
        clock: Callable[[], datetime],
    ) -> None:
        self.client = client
        self.kind = kind
        self.expectations = expectations
        self.clock = clock
        self._component = component
        self._recorder = recorder

    def record(self, meta: ObjectMeta, text: EventText) -> None:
        """Record an event on an object of the controller's kind."""
        self._recorder.record(event_subject(self.kind, meta, self._component), text)

    async def adopt_and_release(
        self, owner: ObjectMeta, kind: Kind[Any], objects: OwnedObjects[T]
    ) -> list[T]:
        """Patch the objects to adopt and to release; returns the objects that were owned before.

        The event of an adoption calls the controller again, with the adopted object.
        """
        if objects.adopt and not await self._still_exists(owner):
            return objects.owned
        reference = owner_reference(self.kind, owner)
        for one in objects.adopt:
            await self._patch_unless_changed(
                kind, one, adoption.adoption_patch(one.metadata, reference)
            )
        for one in objects.release:
            await self._patch_unless_changed(
                kind, one, adoption.release_patch(one.metadata, owner.uid)
            )
        return objects.owned

    async def _patch_unless_changed(self, kind: Kind[Any], one: T, change: Raw) -> None:
        with contextlib.suppress(NotFound, Conflict):  # the event of the change calls again
            await self.client.patch(kind, one.metadata.key, change)

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
        self.expectations.creation(owner.uid, name)
        try:
            await self.client.create(PODS, body)
        except MusterError as error:
            self.expectations.failed(owner.uid, name)
            if isinstance(error, NotFound) or "being terminated" in str(error):
                return None  # the namespace is being deleted, and the owner with it
            self.record(owner, EventText("FailedCreate", f"Error creating: {error}", "Warning"))
            return error
        except BaseException:
            self.expectations.failed(owner.uid, name)
            raise
        self.record(owner, EventText("SuccessfulCreate", f"Created pod: {name}"))
        return None

    async def delete_pods(self, owner: ObjectMeta, pods: Iterable[Pod]) -> None:
        """Delete all of them; raises the first error afterwards."""
        errors = await _together(self._delete_pod(owner, pod) for pod in pods)
        if errors:
            raise errors[0]

    async def _delete_pod(self, owner: ObjectMeta, pod: Pod) -> MusterError | None:
        meta = pod.metadata
        self.expectations.deletion(owner.uid, meta.uid)
        try:
            await self.client.delete(PODS, meta.key, uid=meta.uid)
        except (NotFound, Conflict):
            self.expectations.failed(owner.uid, meta.uid)
            return None
        except MusterError as error:
            self.expectations.failed(owner.uid, meta.uid)
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


async def _together(calls: Iterable[Any]) -> list[MusterError]:
    """Await all calls in parallel; returns the errors that they returned."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(call) for call in calls]
    return [error for task in tasks if (error := task.result()) is not None]


def pod_from_template(template: Raw, name: str, namespace: str, owner: Raw) -> Raw:
    """The pod of a template, with this owner reference."""
    meta = template.get("metadata") or {}
    copied: Raw = {key: dict(meta[key]) for key in ("labels", "annotations") if meta.get(key)}
    if meta.get("finalizers"):
        copied["finalizers"] = list(meta["finalizers"])
    return {
        "metadata": {
            **copied,
            "name": name,
            "generateName": name[:-_SUFFIX],
            "namespace": namespace,
            "ownerReferences": [owner],
        },
        "spec": template.get("spec") or {},
    }
