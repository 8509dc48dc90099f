"""Which cluster a call uses, and its connections, which another thread can end.

Its arguments choose the cluster, else the open local cluster is used, else as the commands choose.
Inside `with muster.local_cluster()` that cluster is the default. The default belongs to the context
(a task, a thread) that opened it. A thread that the program starts has no such context: it
uses the one open cluster, and is refused if several are open, because a guess could be wrong.

`muster.aio` runs every call in a thread. A task that is cancelled cannot stop a thread, but it can
abort the thread's connections: the read that waits returns, and the next request raises `Aborted`.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict
from weakref import WeakSet

from kubekit.errors import UsageError
from muster.client.target import Cluster, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, MutableMapping

    from kubekit.client.blocking_client import BlockingClient
    from muster.client.home import Home
    from muster.sdk.local_cluster import LocalCluster


class ClusterChoice(TypedDict, total=False):
    """The arguments that choose the cluster and the namespace, as the options of a command do."""

    cluster: str | LocalCluster | None
    """`local`, `kube` or `kube:CONTEXT` as for `arena use`, or an open local cluster."""
    namespace: str | None
    kubeconfig: str | Path | None
    context: str | None


_default: ContextVar[Home | None] = ContextVar("default_cluster", default=None)
_open: list[Home] = []


@contextmanager
def default_cluster(home: Home) -> Iterator[None]:
    """Make the local cluster of this home the default within the block."""
    token = _default.set(home)
    _open.append(home)
    try:
        yield
    finally:
        _open.remove(home)
        try:
            _default.reset(token)
        except ValueError:  # closed in another context, for instance by a fixture of pytest
            _default.set(None)


def take_target(arguments: MutableMapping[str, Any]) -> Target:
    """The target that the arguments of a call choose; these arguments are removed from them."""
    return target_of(**{name: arguments.pop(name, None) for name in ClusterChoice.__annotations__})


def target_of(
    cluster: str | LocalCluster | None = None,
    namespace: str | None = None,
    kubeconfig: str | Path | None = None,
    context: str | None = None,
) -> Target:
    """The target that these arguments choose."""
    name = namespace or ""
    if cluster is not None and (kubeconfig or context):
        raise UsageError("cluster= cannot be used with kubeconfig= or context=")
    if isinstance(cluster, str):
        return Target(namespace=name, choice=cluster)
    if cluster is not None:
        if not hasattr(cluster, "home"):
            raise UsageError(
                f'cluster is {cluster!r}; write "local", "kube", "kube:CONTEXT" or a local cluster'
            )
        return Target(namespace=name, home=cluster.home)
    if kubeconfig or context:
        path = Path(kubeconfig).expanduser() if kubeconfig else None
        return Target(path, context, name)
    return Target(namespace=name, home=_default_home())


def _default_home() -> Home | None:
    home = _default.get()
    if home is not None or not _open:
        return home
    if len(_open) > 1:
        raise UsageError(
            f"{len(_open)} local clusters are open, and none of them in this thread",
            hint="Say which one: cluster=…, or call the methods of the cluster.",
        )
    return _open[0]


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
