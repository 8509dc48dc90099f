"""Garbage collection: deletes objects whose owners are gone, as the propagation policy says.

The inventory has the metadata of every object in the API, of custom kinds too: every kind can own
objects and be owned. Which kinds exist is read from the API's discovery, again after every change
of a CustomResourceDefinition. Before an object is deleted, an owner that our watches do not show is
read from the API itself: the watches may be behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from kubekit.client import discovery
from kubekit.control.loop import RequeueAfter, run_workers
from kubekit.control.work_queue import WorkQueue
from kubekit.errors import MusterError
from kubekit.objects.kinds import CRDS, Kind, PartialObjectMetadata
from kubekit.objects.meta import Key, ObjectMeta, OwnerReference, Raw, preconditions
from kubekit.request_errors import ApiError, Conflict, NotFound
from kubekit.telemetry import unexpected_errors
from kubekit.watch.informer import Informer
from localkube.controllers.owner_graph import (
    FOREGROUND,
    ORPHAN,
    Item,
    OwnerGraph,
    OwnerState,
    judge,
)
from localkube.controllers.pod_control import reference_manifest, release_patch

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubekit.client.client import Client
    from kubekit.watch.informer_cache import Change

    Listener = Callable[[ObjectMeta, bool], None]
    """Called with every object that changed, and whether it is gone."""

_VERBS = ("list", "watch", "delete")
# Events are many and have no owners; kube-controller-manager ignores them too.
_IGNORED = {"events", "events.events.k8s.io"}
_RETRY_DISCOVERY = 1.0

log = logging.getLogger(__name__)


async def discover_kinds(client: Client) -> list[Kind[PartialObjectMetadata]]:
    """Every kind that can be listed, watched and deleted, in its preferred version."""
    answer = await client.send(discovery.GROUPS_REQUEST)
    kinds: list[Kind[PartialObjectMetadata]] = []
    for version in discovery.preferred_versions(answer.body):
        # If the server of an aggregated API is down, its objects are left alone.
        with contextlib.suppress(ApiError):
            listed = await client.send(discovery.resources_request(version))
            kinds += discovery.kinds(listed.body, version, PartialObjectMetadata, verbs=_VERBS)
    return [kind for kind in kinds if kind.resource not in _IGNORED]


class Inventory:
    def __init__(self, client: Client, on_kinds: Callable[[], None]) -> None:
        """`on_kinds` is called when there are new kinds."""
        self.graph = OwnerGraph()
        self.kinds: dict[tuple[str, str], Kind[PartialObjectMetadata]] = {}
        """The watched kinds, by group and kind."""
        self._client = client
        self._listeners: list[Listener] = []
        self._on_kinds = on_kinds
        self._informers: list[Informer[PartialObjectMetadata]] = []
        self._rediscover = asyncio.Event()

    def subscribe(self, listener: Listener) -> None:
        self._listeners.append(listener)

    async def synced(self) -> None:
        """Return when all objects of the kinds known now are listed."""
        for informer in list(self._informers):
            await informer.synced()

    async def run(self) -> None:
        """Watch until cancelled."""
        definitions = Informer(self._client, CRDS)
        definitions.subscribe(lambda _: self._rediscover.set())
        async with asyncio.TaskGroup() as group:
            group.create_task(definitions.run())
            while True:
                # Cleared before the discovery: a definition that comes during it is not missed.
                self._rediscover.clear()
                for kind in await self._new_kinds():
                    informer = Informer(self._client, kind)
                    informer.subscribe(self._listener(kind))
                    self._informers.append(informer)
                    group.create_task(informer.run())
                await self._rediscover.wait()

    async def _new_kinds(self) -> list[Kind[PartialObjectMetadata]]:
        """Kinds that are not watched yet."""
        while True:
            with unexpected_errors.isolated("garbage", "the API's kinds"):
                try:
                    kinds = await discover_kinds(self._client)
                    break
                except MusterError as error:
                    log.warning("garbage collection: cannot read the API's kinds: %s", error)
            await asyncio.sleep(_RETRY_DISCOVERY)
        new = [kind for kind in kinds if (kind.group, kind.kind) not in self.kinds]
        self.kinds |= {(kind.group, kind.kind): kind for kind in new}
        if new:
            self._on_kinds()
        return new

    def _listener(
        self, kind: Kind[PartialObjectMetadata]
    ) -> Callable[[Change[PartialObjectMetadata]], None]:
        def changed(change: Change[PartialObjectMetadata]) -> None:
            meta, gone = change.current.metadata, change.new is None
            if gone:
                self.graph.remove(meta.uid)
            else:
                self.graph.put(Item(kind, meta))
            for listener in self._listeners:
                listener(meta, gone)

        return changed


_WORKERS = 4
_CHECK_AGAIN = 1.0
"""Seconds until an owner that our watches do not show is read again."""


class GarbageCollector:
    def __init__(self, client: Client) -> None:
        self.inventory = Inventory(client, self._new_kinds)
        self._client = client
        self._graph = self.inventory.graph
        self._queue: WorkQueue[str] = WorkQueue("garbage")
        self._undecided: set[str] = set()
        self.inventory.subscribe(self._changed)

    async def run(self) -> None:
        """Collect until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.inventory.run())
            group.create_task(run_workers(self._queue, self.reconcile, workers=_WORKERS))

    def _new_kinds(self) -> None:
        """Owners of kinds that were unknown can be checked now."""
        for uid in self._undecided:
            self._queue.add(uid)
        self._undecided.clear()

    def _changed(self, meta: ObjectMeta, gone: bool) -> None:
        # A removed object may make its dependents garbage, and may be the last dependent that an
        # owner deleted in the foreground waits for.
        if gone:
            for dependent in self._graph.dependents(meta.uid):
                self._queue.add(dependent.meta.uid)
            for owner in meta.owner_references:
                self._queue.add(owner.uid)
        elif meta.owner_references or meta.deletion_timestamp is not None:
            self._queue.add(meta.uid)

    async def reconcile(self, uid: str) -> RequeueAfter | None:
        item = self._graph.get(uid)
        if item is None:
            return None
        if item.waits_with(ORPHAN):
            await self._orphan(item)
            return None
        with contextlib.suppress(NotFound, Conflict):  # the event of that change calls again
            if item.waits_with(FOREGROUND):
                await self._foreground(item)
            elif item.meta.owner_references and not item.deleting:
                return await self._collect(item)
        return None

    async def _collect(self, item: Item) -> RequeueAfter | None:
        owners = {
            reference.uid: await self._state(item, reference)
            for reference in item.meta.owner_references
        }
        verdict, meta = judge(item, owners), item.meta
        if verdict.delete:
            log.info("garbage: %s %s: its owner is gone", item.kind.kind, meta.key)
            way = verdict.delete
            await self._client.delete(item.kind, meta.key, uid=meta.uid, propagation=way)
        elif verdict.owners:
            references = [reference_manifest(owner) for owner in verdict.owners]
            await self._patch(item, {"ownerReferences": references})
        elif verdict.wait:
            self._undecided.add(meta.uid)
        # An owner that our watches do not show yet may be deleted before they ever do.
        elif any(self._graph.get(uid) is None for uid in owners):
            return RequeueAfter(_CHECK_AGAIN)
        return None

    async def _state(self, item: Item, reference: OwnerReference) -> OwnerState:
        # An owner that our watches show counts as existing: they will show its deletion too.
        known = self._graph.get(reference.uid)
        if known is not None:
            foreground = known.waits_with(FOREGROUND)
            return OwnerState.TERMINATING if foreground else OwnerState.EXISTS
        kind = self.inventory.kinds.get((reference.api_version.rpartition("/")[0], reference.kind))
        if kind is None:
            return OwnerState.UNKNOWN
        namespace = item.meta.namespace if kind.namespaced else ""
        try:
            owner = await self._client.get(kind, Key(namespace, reference.name))
        except NotFound:
            return OwnerState.GONE
        # An object of the same name and another UID came after the owner was deleted.
        return OwnerState.EXISTS if owner.metadata.uid == reference.uid else OwnerState.GONE

    async def _orphan(self, item: Item) -> None:
        """Remove the owner reference of all dependents, then the object's finalizer.

        A dependent that changed in between raises Conflict, and everything is tried again: its
        event would call for the dependent and not for the object.
        """
        for dependent in self._graph.dependents(item.meta.uid):
            patch = release_patch(dependent.meta, item.meta.uid)
            with contextlib.suppress(NotFound):
                await self._client.patch(dependent.kind, dependent.meta.key, patch)
        with contextlib.suppress(NotFound):
            await self._remove_finalizer(item, ORPHAN)

    async def _foreground(self, item: Item) -> None:
        """Delete the dependents; remove the finalizer when none is left that blocks it."""
        if not self._graph.blockers(item.meta.uid):
            await self._remove_finalizer(item, FOREGROUND)
        for dependent in self._graph.dependents(item.meta.uid):
            if not dependent.deleting:
                self._queue.add(dependent.meta.uid)

    async def _remove_finalizer(self, item: Item, finalizer: str) -> None:
        others = [name for name in item.meta.finalizers if name != finalizer]
        await self._patch(item, {"finalizers": others})

    async def _patch(self, item: Item, changes: Raw) -> None:
        """Patch metadata, unless the object changed since."""
        body = {"metadata": preconditions(item.meta) | changes}
        await self._client.patch(item.kind, item.meta.key, body)
