"""Everything there is, as metadata alone: every kind the API has, kinds that appear later too.

Run by the garbage collector, which reads its graph and listens to it, as the namespace controller
does.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from muster.api.kinds import CRDS
from muster.errors import MusterError
from muster.kube.informer import Informer
from muster.local.workloads import discover
from muster.local.workloads.ownership import Graph, Item

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster.api.kinds import Kind, Partial
    from muster.api.meta import ObjectMeta
    from muster.kube.client import Client
    from muster.kube.store import Change

    Listener = Callable[[ObjectMeta, bool], None]
    """Told of every object that changed, and whether it is gone."""

log = logging.getLogger(__name__)

_RETRY_DISCOVERY = 1.0


class Inventory:
    def __init__(self, client: Client) -> None:
        self.graph = Graph()
        self.kinds: dict[tuple[str, str], Kind[Partial]] = {}
        """Those that are watched, by group and kind."""
        self._client = client
        self._listeners: list[Listener] = []
        self._on_kinds: list[Callable[[], None]] = []
        self._informers: list[Informer[Partial]] = []
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

    async def _new_kinds(self) -> list[Kind[Partial]]:
        """Kinds that are not watched yet; a definition may need a moment to be served."""
        while True:
            try:
                found = await discover.kinds(self._client)
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

    def _listener(self, kind: Kind[Partial]) -> Callable[[Change[Partial]], None]:
        def changed(change: Change[Partial]) -> None:
            meta, gone = change.current.metadata, change.new is None
            if gone:
                self.graph.remove(meta.uid)
            else:
                self.graph.put(Item(kind, meta))
            for listener in self._listeners:
                listener(meta, gone)

        return changed
