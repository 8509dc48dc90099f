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
from muster.local.node.network.forwarding import Forwarder
from muster.local.node.network.pod_network import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster.api.core import Service
    from muster.api.meta import Key
    from muster.kube.watch.informer import Informer
    from muster.local.acceptor import Acceptor
    from muster.local.node.pod import Pod
    from muster.local.node.runtime.container_runtime import Runtime

log = logging.getLogger(__name__)

_BACKLOG = 100
_LISTEN_AGAIN = 5.0
"""Seconds until a port is tried again at which listening failed."""


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
        self._forwarder = Forwarder(runtime.descriptors)
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
            await self._forwarder.close()

    def _listen(self, ports: set[int]) -> None:
        for port in self._listening.keys() - ports:
            self._listening.pop(port).close()
        for port in ports - self._listening.keys():
            try:
                sock = socket.create_server((LOOPBACK, port), backlog=_BACKLOG)
                self._listening[port] = self._forwarder.listen(
                    sock, f"node port {port}", partial(self._connect, port)
                )
                self._failed.discard(port)
            except OSError as error:  # another program has the port: the rest must work
                if port not in self._failed:
                    log.warning("node port %d: %s", port, error.strerror)
                self._failed.add(port)
        self._failed &= ports

    async def _connect(self, port: int) -> socket.socket:
        # Looked up for every connection: services and pods change while the port stays open.
        target = node_ports(self._services.all()).get(port)
        service = self._services.get(target.service) if target else None
        pods = ready_targets(service, self._pods.all(), target.port) if service and target else []
        if not pods:
            raise CannotRun(f"no ready pod for node port {port}")
        self._turn += 1
        return await self._runtime.reach(*pods[self._turn % len(pods)])
