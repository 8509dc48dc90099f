"""Everything there is, as metadata alone: every kind the API has, kinds that appear later too.

Run by the garbage collector, which reads its graph and listens to it, as the namespace controller
does.

Which kinds the API has: asked of the API itself, so custom kinds count like built-in ones.

Used by the inventory, which must know every kind that can own or be owned.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from muster.api.kinds import CRDS, Kind, PartialObjectMetadata
from muster.errors import ApiError, MusterError
from muster.kube import discovery
from muster.kube.watch.informer import Informer
from muster.local.controllers.garbage.owner_graph import Item, OwnerGraph

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster.api.kinds import Kind
    from muster.api.meta import ObjectMeta
    from muster.kube.client import Client
    from muster.kube.watch.informer_cache import Change

    Listener = Callable[[ObjectMeta, bool], None]
    """Told of every object that changed, and whether it is gone."""


_NEEDED = ("list", "watch", "delete")
_NEVER_OWNED = {"events", "events.events.k8s.io"}


async def discover_kinds(client: Client) -> list[Kind[PartialObjectMetadata]]:
    """Every kind that can be listed, watched and deleted, in its preferred version."""
    answer = await client.send(discovery.GROUPS_REQUEST)
    found: list[Kind[PartialObjectMetadata]] = []
    for api_version in discovery.preferred_versions(answer.body):
        found += await _of(client, api_version)
    return [kind for kind in found if kind.resource not in _NEVER_OWNED]


async def _of(client: Client, api_version: str) -> list[Kind[PartialObjectMetadata]]:
    try:
        answer = await client.send(discovery.resources_request(api_version))
    except ApiError:  # an aggregated group whose server is away: its objects are not ours to judge
        return []
    return discovery.kinds(answer.body, api_version, PartialObjectMetadata, verbs=_NEEDED)


log = logging.getLogger(__name__)

_RETRY_DISCOVERY = 1.0


class Inventory:
    def __init__(self, client: Client) -> None:
        self.graph = OwnerGraph()
        self.kinds: dict[tuple[str, str], Kind[PartialObjectMetadata]] = {}
        """Those that are watched, by group and kind."""
        self._client = client
        self._listeners: list[Listener] = []
        self._on_kinds: list[Callable[[], None]] = []
        self._informers: list[Informer[PartialObjectMetadata]] = []
        self._rediscover = asyncio.Event()

    def subscribe(self, listener: Listener) -> None:
        """Hear of every change."""
        self._listeners.append(listener)

    def on_kinds(self, listener: Callable[[], None]) -> None:
        """Hear when there are new kinds."""
        self._on_kinds.append(listener)

    async def synced(self) -> None:
        """Once everything of the kinds known now has been listed."""
        for informer in list(self._informers):
            await informer.synced()

    async def run(self) -> None:
        """Watch until cancelled."""
        definitions = Informer(self._client, CRDS)
        definitions.subscribe(lambda _: self._rediscover.set())
        async with asyncio.TaskGroup() as group:
            group.create_task(definitions.run())
            while True:
                self._rediscover.clear()
                for kind in await self._new_kinds():
                    informer = Informer(self._client, kind)
                    informer.subscribe(self._listener(kind))
                    self._informers.append(informer)
                    group.create_task(informer.run())
                await self._rediscover.wait()

    async def _new_kinds(self) -> list[Kind[PartialObjectMetadata]]:
        """Kinds that are not watched yet; a definition may need a moment to be served."""
        while True:
            try:
                found = await discover_kinds(self._client)
                break
            except MusterError as error:
                log.warning("inventory: cannot ask which kinds there are: %s", error)
                await asyncio.sleep(_RETRY_DISCOVERY)
        new = [kind for kind in found if (kind.group, kind.kind) not in self.kinds]
        self.kinds |= {(kind.group, kind.kind): kind for kind in new}
        if new:
            for tell in self._on_kinds:
                tell()
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
