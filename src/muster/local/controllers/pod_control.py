"""The writes that several controllers make: pods from a template, adoptions, statuses.

Used by the controllers of replica sets, deployments and jobs. Every status is written only over the
version it was computed from, so a decision made on old facts loses and is made again.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any, TypeVar

from muster.api.events import EventText, event_subject
from muster.api.meta import SUFFIX_LETTERS
from muster.errors import Conflict, MusterError, NotFound
from muster.local.controllers import adoption
from muster.local.controllers.kinds import PODS, owner_reference, preconditions

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
_LONGEST = 63


def generate_name(base: str) -> str:
    """A fresh name that begins so, as the API server would make it."""
    suffix = "".join(secrets.choice(SUFFIX_LETTERS) for _ in range(_SUFFIX))
    return base[: _LONGEST - _SUFFIX] + suffix


class PodControl:
    """What one controller writes with; `component` is how its events are signed."""

    def __init__(
        self,
        client: Client,
        kind: Kind[Any],
        component: str,
        expect: Expectations,
        teller: EventRecorder,
        clock: Callable[[], datetime],
    ) -> None:
        self.client = client
        self.kind = kind
        self.expect = expect
        self.clock = clock
        self._component = component
        self._teller = teller

    def tell(self, meta: ObjectMeta, news: EventText) -> None:
        self._teller.record(event_subject(self.kind, meta, self._component), news)

    async def take(self, owner: ObjectMeta, kind: Kind[Any], claim: OwnedObjects[T]) -> list[T]:
        """Adopt and release what the claim says; the objects that are the owner's then.

        Those adopted just now are left out: the event of the adoption calls the controller again.
        """
        if claim.adopt and not await self._still_there(owner):
            return claim.mine
        ours = owner_reference(self.kind, owner)
        for one in claim.adopt:
            await self._unless_changed(kind, one, adoption.adoption_patch(one.metadata, ours))
        for one in claim.release:
            await self._unless_changed(kind, one, adoption.release_patch(one.metadata, owner.uid))
        return claim.mine

    async def _unless_changed(self, kind: Kind[Any], one: T, change: Raw) -> None:
        try:
            await self.client.patch(kind, one.metadata.key, change)
        except (NotFound, Conflict):
            return  # Its event brings us back, if there still is something to do.

    async def _still_there(self, owner: ObjectMeta) -> bool:
        """Whether the owner itself, and not only our memory of it, is there and stays."""
        try:
            live = await self.client.get(self.kind, owner.key)
        except NotFound:
            return False
        meta: ObjectMeta = live.metadata
        return meta.uid == owner.uid and meta.deletion_timestamp is None

    async def create_pods(self, owner: ObjectMeta, bodies: Sequence[Raw]) -> MusterError | None:
        """Create pods, twice as many each time; the first refusal ends it and is answered.

        A quota or a bad template would refuse them all: doubling asks in vain only a few times.
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
        self.expect.creation(owner.uid, name)
        try:
            await self.client.create(PODS, body)
        except MusterError as error:
            self.expect.failed(owner.uid, name)
            if isinstance(error, NotFound) or "being terminated" in str(error):
                return None  # The namespace is going, and the owner with it.
            self.tell(owner, EventText("FailedCreate", f"Error creating: {error}", "Warning"))
            return error
        except BaseException:
            self.expect.failed(owner.uid, name)
            raise
        self.tell(owner, EventText("SuccessfulCreate", f"Created pod: {name}"))
        return None

    async def delete_pods(self, owner: ObjectMeta, pods: Iterable[Pod]) -> None:
        """Ask all of them to go; raise the first trouble afterwards."""
        errors = await _together(self._delete_pod(owner, pod) for pod in pods)
        if errors:
            raise errors[0]

    async def _delete_pod(self, owner: ObjectMeta, pod: Pod) -> MusterError | None:
        meta = pod.metadata
        self.expect.deletion(owner.uid, meta.uid)
        try:
            await self.client.delete(PODS, meta.key, uid=meta.uid)
        except (NotFound, Conflict):
            self.expect.failed(owner.uid, meta.uid)
            return None
        except MusterError as error:
            self.expect.failed(owner.uid, meta.uid)
            self.tell(owner, EventText("FailedDelete", f"Error deleting: {error}", "Warning"))
            return error
        self.tell(owner, EventText("SuccessfulDelete", f"Deleted pod: {meta.name}"))
        return None

    async def write_status(self, meta: ObjectMeta, old: Raw, new: Raw) -> bool:
        """Make the status what it should be; whether that needed a write."""
        if new == old:
            return False
        body = {"metadata": preconditions(meta), "status": merge_patch(old, new)}
        await self.client.patch(self.kind, meta.key, body, subresource="status")
        return True


def merge_patch(old: Raw, new: Raw) -> Raw:
    """The merge patch from one to the other: what is gone is null, on every level."""
    change: Raw = dict.fromkeys(old.keys() - new.keys())
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            change |= {key: merge_patch(before, value)} if value != before else {}
        elif value != before:
            change[key] = value
    return change


async def _together(calls: Iterable[Any]) -> list[MusterError]:
    """Await all of them at once; the troubles that they answered."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(call) for call in calls]
    return [error for task in tasks if (error := task.result()) is not None]


def pod_from_template(template: Raw, name: str, namespace: str, owner: Raw) -> Raw:
    """A pod as its template says, owned."""
    meta = template.get("metadata") or {}
    kept: Raw = {key: dict(meta[key]) for key in ("labels", "annotations") if meta.get(key)}
    if meta.get("finalizers"):
        kept["finalizers"] = list(meta["finalizers"])
    return {
        "metadata": {
            **kept,
            "name": name,
            "generateName": name[:-_SUFFIX],
            "namespace": namespace,
            "ownerReferences": [owner],
        },
        "spec": template.get("spec") or {},
    }
