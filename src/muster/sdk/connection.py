"""Connections of a call to its cluster, which another thread can end.

`muster.aio` runs every call in a thread. A task that is cancelled cannot stop a thread, but it can
abort the thread's connections: the read that waits returns, and the next request raises `Aborted`.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kubekit.client.blocking_client import BlockingClient
    from muster.client.target import Cluster


class Cancellation:
    """The connections of one call; after `cancel` all of them are aborted, also new ones."""

    def __init__(self) -> None:
        self._clients: WeakSet[BlockingClient] = WeakSet()
        self._lock = threading.Lock()
        self.cancelled = False

    def cancel(self) -> None:
        with self._lock:
            self.cancelled = True
            for client in self._clients:
                client.abort()

    def add(self, client: BlockingClient) -> None:
        with self._lock:
            self._clients.add(client)
            if self.cancelled:
                client.abort()


_current: ContextVar[Cancellation | None] = ContextVar("cancellation", default=None)


@contextmanager
def cancelled_by(cancellation: Cancellation) -> Iterator[None]:
    """Let this cancellation end the connections that are opened within the block."""
    token = _current.set(cancellation)
    try:
        yield
    finally:
        _current.reset(token)


def connector(cluster: Cluster) -> Callable[[], BlockingClient]:
    """A function that opens connections to the cluster, in whatever thread it is called."""
    cancellation = _current.get()

    def connect() -> BlockingClient:
        client = cluster.connect()
        if cancellation is not None:
            cancellation.add(client)
        return client

    return connect
