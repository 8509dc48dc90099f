"""The metadata of every object in the API, of custom kinds too.

Which kinds exist is read from the API's discovery, again after every change of a
CustomResourceDefinition: every kind can own objects and be owned.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from kubekit.client import discovery
from kubekit.errors import ApiError, MusterError
from kubekit.objects.kinds import CRDS, Kind, PartialObjectMetadata
from kubekit.telemetry import unexpected_errors
from kubekit.watch.informer import Informer
from localkube.controllers.garbage.owner_graph import Item, OwnerGraph

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubekit.client.client import Client
    from kubekit.objects.kinds import Kind
    from kubekit.objects.meta import ObjectMeta
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
    for api_version in discovery.preferred_versions(answer.body):
        kinds += await _kinds_of(client, api_version)
    return [kind for kind in kinds if kind.resource not in _IGNORED]


async def _kinds_of(client: Client, api_version: str) -> list[Kind[PartialObjectMetadata]]:
    try:
        answer = await client.send(discovery.resources_request(api_version))
    except ApiError:  # an aggregated API whose server is down: leave its objects alone
        return []
    return discovery.kinds(answer.body, api_version, PartialObjectMetadata, verbs=_VERBS)


class Inventory:
    def __init__(self, client: Client) -> None:
        self.graph = OwnerGraph()
        self.kinds: dict[tuple[str, str], Kind[PartialObjectMetadata]] = {}
        """The watched kinds, by group and kind."""
        self._client = client
        self._listeners: list[Listener] = []
        self._on_kinds: list[Callable[[], None]] = []
        self._informers: list[Informer[PartialObjectMetadata]] = []
        self._rediscover = asyncio.Event()

    def subscribe(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def on_kinds(self, listener: Callable[[], None]) -> None:
        """Call the listener when there are new kinds."""
        self._on_kinds.append(listener)

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
            try:
                kinds = await discover_kinds(self._client)
                break
            except MusterError as error:
                log.warning("garbage collection: cannot read the API's kinds: %s", error)
            except Exception as error:  # noqa: BLE001 - of one definition's fields
                unexpected_errors.survived("garbage", "the API's kinds", error)
            await asyncio.sleep(_RETRY_DISCOVERY)
        new = [kind for kind in kinds if (kind.group, kind.kind) not in self.kinds]
        self.kinds |= {(kind.group, kind.kind): kind for kind in new}
        if new:
            for listener in self._on_kinds:
                listener()
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
