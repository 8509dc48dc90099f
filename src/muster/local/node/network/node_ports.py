"""Node ports: listens at 127.0.0.1 for services of type NodePort or LoadBalancer.

Each connection is forwarded to the next ready pod of the service.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from muster.api.core import port_number
from muster.api.meta import condition_is_true
from muster.errors import CannotRun
from muster.local.acceptor import Acceptor
from muster.local.node.network.pod_network import LOOPBACK
from muster.telemetry.log_bounds import RepeatedLine

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster.api.core import Service
    from muster.api.meta import Key
    from muster.kube.watch.informer import Informer
    from muster.local.node.pod import Pod
    from muster.local.node.runtime.container_runtime import Runtime

log = logging.getLogger(__name__)

_BLOCK = 64 * 1024
_CONNECT_TIMEOUT = 5.0
_BACKLOG = 100
_LISTEN_AGAIN = 5.0
"""Seconds until a port is tried again at which listening failed."""
_refused = RepeatedLine(log, logging.WARNING)


class Target(NamedTuple):
    """The service of a node port, and the port of its pods."""

    service: Key
    port: int | str


def node_ports(services: Iterable[Service]) -> dict[int, Target]:
    """The node ports of all services."""
    return {
        port.node_port: Target(service.metadata.key, port.target_port or port.port)
        for service in services
        for port in service.spec.ports
        if port.node_port and port.protocol == "TCP"
    }


def ready_targets(service: Service, pods: Iterable[Pod], port: int | str) -> list[tuple[str, int]]:
    """The ready pods of a service, by uid, and the port's number in each."""
    selector = service.spec.selector.items()
    targets = []
    for pod in pods:
        same_namespace = pod.metadata.namespace == service.metadata.namespace
        matches = selector and selector <= pod.metadata.labels.items()
        if same_namespace and matches and _ready(pod):
            number = port_number(port, pod.spec.containers)
            if number:
                targets.append((pod.metadata.uid, number))
    return sorted(targets)


def _ready(pod: Pod) -> bool:
    return not pod.terminating and condition_is_true(pod.status.conditions, "Ready")


class NodePorts:
    def __init__(self, runtime: Runtime, pods: Informer[Pod], services: Informer[Service]) -> None:
        self._runtime = runtime
        self._pods = pods
        self._services = services
        self._changed = asyncio.Event()
        self._listening: dict[int, Acceptor] = {}
        self._failed: set[int] = set()
        self._forwards: set[asyncio.Task[None]] = set()
        self._turn = 0
        services.subscribe(lambda _: self._changed.set())

    async def run(self) -> None:
        """Listen on the node ports of all services, until cancelled."""
        await self._services.synced()
        try:
            while True:
                self._listen(set(node_ports(self._services.all())))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LISTEN_AGAIN if self._failed else None):
                        await self._changed.wait()
                self._changed.clear()
        finally:
            self._listen(set())
            for task in self._forwards:
                task.cancel()
            await asyncio.gather(*self._forwards, return_exceptions=True)

    def _listen(self, ports: set[int]) -> None:
        for port in self._listening.keys() - ports:
            self._listening.pop(port).close()
        for port in ports - self._listening.keys():
            try:
                sock = socket.create_server((LOOPBACK, port), backlog=_BACKLOG)
                self._listening[port] = Acceptor(sock, partial(self._serve, port), _refuse)
                self._failed.discard(port)
            except OSError as error:  # another program has the port: the rest must work
                if port not in self._failed:
                    log.warning("node port %d: %s", port, error.strerror)
                self._failed.add(port)
        self._failed &= ports

    def _serve(self, port: int, sock: socket.socket) -> None:
        """Forward a connection, or close it if there are no descriptors for it."""
        if not self._runtime.descriptors.has_room(2):
            _refused.log("node port %d refuses connections: the daemon has no descriptors", port)
            sock.close()
            return
        forward = self._forward(port, sock)
        task = asyncio.get_running_loop().create_task(forward)  # owner: this, until it is stopped
        self._forwards.add(task)
        task.add_done_callback(self._forwards.discard)

    async def _forward(self, port: int, sock: socket.socket) -> None:
        """Forward one connection until both sides are closed."""
        try:
            reader, writer = await asyncio.open_connection(sock=sock)
        except OSError:  # the client has disconnected
            sock.close()
            return
        with contextlib.closing(writer), contextlib.suppress(OSError, CannotRun, TimeoutError):
            async with asyncio.timeout(_CONNECT_TIMEOUT):
                pod_reader, pod_writer = await self._connect(port)
            with contextlib.closing(pod_writer):
                async with asyncio.TaskGroup() as group:
                    group.create_task(_copy(reader, pod_writer))
                    group.create_task(_copy(pod_reader, writer))

    async def _connect(self, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        # Looked up for every connection: services and pods change while the port stays open.
        target = node_ports(self._services.all()).get(port)
        service = self._services.get(target.service) if target else None
        pods = ready_targets(service, self._pods.all(), target.port) if service and target else []
        if not pods:
            raise CannotRun(f"no ready pod for node port {port}")
        self._turn += 1
        sock = await self._runtime.reach(*pods[self._turn % len(pods)])
        return await asyncio.open_connection(sock=sock)


def _refuse(error: OSError) -> bool:
    """No connection is closed for a new one."""
    _refused.log("a node port cannot accept connections: %s", error.strerror)
    return False


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Copy bytes until the source ends; an error closes the connection."""
    try:
        while data := await source.read(_BLOCK):
            sink.write(data)
            await sink.drain()
        sink.write_eof()  # only this direction ends: the other side may still send
    except OSError:
        sink.close()
