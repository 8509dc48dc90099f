"""The live clusters of all users: one per credentials, dropped when nobody has looked for a while.

A cluster is in use while a request or a stream of its user is open, and for some minutes after.
Then its informers end and its objects are freed: an idle dashboard costs nothing.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from kubekit.errors import MusterError, TooManyRequests
from kubekit.telemetry import metrics
from muster.web.cluster.live_cluster import LiveCluster

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from kubekit.client.transport.connection_pool import Connector
    from muster.web.identity import Identity

log = logging.getLogger(__name__)

IDLE_SECONDS = 300.0
MAX_CLUSTERS, MAX_OF_ONE_USER = 64, 8
_LIVE = metrics.gauge("web_clusters", "Sets of informers that the dashboard holds, one per user")
_DROPPED = metrics.counter("web_idle_drops_total", "Sets of informers that nobody used any more")


class _Entry:
    def __init__(self, cluster: LiveCluster, owner: str) -> None:
        self.cluster, self.owner = cluster, owner
        self.users = 0
        self.timer: asyncio.TimerHandle | None = None


class LiveClusters:
    """All live clusters of a server."""

    def __init__(
        self, idle_seconds: float = IDLE_SECONDS, connector: Connector | None = None
    ) -> None:
        self._idle_seconds, self._connector = idle_seconds, connector
        self._entries: dict[str, _Entry] = {}
        self._starts: set[asyncio.Task[None]] = set()
        self._drops: set[asyncio.Task[None]] = set()

    @contextmanager
    def use(self, identity: Identity) -> Iterator[LiveCluster]:
        """The cluster with a user's credentials, kept at least while the block runs."""
        user = identity.user
        entry = self._entries.get(user)
        if entry is None:
            self._make_room_of(identity.owner)
            if len(self._entries) >= MAX_CLUSTERS:
                raise TooManyRequests("Too many users look at this dashboard.", status=429)
            cluster = LiveCluster(identity.endpoint, self._connector, identity.namespaces)
            entry = self._entries[user] = _Entry(cluster, identity.owner)
            _LIVE.set(len(self._entries))
        if entry.timer is not None:
            entry.timer.cancel()
            entry.timer = None
        entry.users += 1
        try:
            yield entry.cluster
        finally:
            entry.users -= 1
            if not entry.users and self._entries.get(user) is entry:
                loop = asyncio.get_running_loop()
                entry.timer = loop.call_later(self._idle_seconds, self._drop, user)

    def _make_room_of(self, owner: str) -> None:
        """Let one user not occupy the clusters of all: a new token replaces one not in use."""
        own = {key: entry for key, entry in self._entries.items() if owner and entry.owner == owner}
        if len(own) < MAX_OF_ONE_USER:
            return
        idle = next((key for key, entry in own.items() if not entry.users), None)
        if idle is None:
            message = f"You look at this dashboard with {MAX_OF_ONE_USER} tokens at the same time."
            raise TooManyRequests(message, status=429, hint="Close the pages of one of them.")
        self.end(idle)

    def start(self, identity: Identity) -> None:
        """Get the objects of the first pages while the browser is on its way to one of them."""
        if identity.user not in self._entries:  # else they are here, or on their way
            _run(self._start(identity), self._starts)

    async def _start(self, identity: Identity) -> None:
        with suppress(MusterError), self.use(identity) as cluster:  # the page shows the error
            await cluster.start()

    def end(self, user: str) -> None:
        """Close the cluster of a user who has signed out, or whose token is no longer valid."""
        if entry := self._entries.get(user):
            if entry.timer is not None:
                entry.timer.cancel()
            self._close_entry(user)

    def _drop(self, user: str) -> None:
        _DROPPED.inc()
        log.info("dashboard: nobody looks; the watches end")
        self._close_entry(user)

    def _close_entry(self, user: str) -> None:
        entry = self._entries.pop(user)
        _LIVE.set(len(self._entries))
        _run(entry.cluster.close(), self._drops)

    def end_streams(self) -> None:
        """End all streams, so that the server can stop."""
        for entry in self._entries.values():
            entry.cluster.changes.close()

    async def close(self) -> None:
        for task in self._starts:
            task.cancel()
        await asyncio.gather(*self._starts, return_exceptions=True)
        entries, self._entries = list(self._entries.values()), {}
        _LIVE.set(0)
        for entry in entries:
            if entry.timer is not None:
                entry.timer.cancel()
            await entry.cluster.close()
        await asyncio.gather(*self._drops)


def _run(work: Coroutine[None, None, None], tasks: set[asyncio.Task[None]]) -> None:
    task = asyncio.create_task(work)  # owner: `LiveClusters.close` awaits it
    tasks.add(task)
    task.add_done_callback(tasks.discard)
