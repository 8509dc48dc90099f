"""Services as the node reads them, and node ports: listened on here, passed on to the pods.

`NodePorts` is run by the agent. A service has no address of its own; one of type NodePort or
LoadBalancer has ports at 127.0.0.1, and each connection there goes to the next of its ready pods.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, NamedTuple

from muster.api import core
from muster.api.kinds import SERVICES
from muster.api.meta import condition_is_true
from muster.errors import CannotRun

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster.api.meta import Key
    from muster.kube.watch.informer import Informer
    from muster.kube.watch.informer_cache import Change
    from muster.local.node.pod import Pod
    from muster.local.node.runtime.interface import Runtime

log = logging.getLogger(__name__)

_LOOPBACK = "127.0.0.1"
_BLOCK = 64 * 1024
_CONNECTING = 5.0


class ServicePort(core.ServicePort, frozen=True):
    target_port: int | str = 0
    node_port: int = 0


class ServiceSpec(core.ServiceSpec, frozen=True):
    ports: tuple[ServicePort, ...] = ()


class Service(core.Service, frozen=True):
    spec: ServiceSpec = ServiceSpec()


SERVICES_TO_SERVE = SERVICES.read_as(Service)


class Target(NamedTuple):
    """What a node port leads to: a port of a service's pods."""

    service: Key
    port: int | str


def wanted_node_ports(services: Iterable[Service]) -> dict[int, Target]:
    """Every node port there should be."""
    return {
        port.node_port: Target(service.metadata.key, port.target_port or port.port)
        for service in services
        for port in service.spec.ports
        if port.node_port and port.protocol == "TCP"
    }


def ready_targets(service: Service, pods: Iterable[Pod], port: int | str) -> list[tuple[str, int]]:
    """The ready pods of a service, by uid, and the number that the port has there."""
    selector = service.spec.selector.items()
    found = []
    for pod in pods:
        same = pod.metadata.namespace == service.metadata.namespace
        if same and selector and selector <= pod.metadata.labels.items() and _ready(pod):
            number = port if isinstance(port, int) else _named(pod, port)
            if number:
                found.append((pod.metadata.uid, number))
    return sorted(found)


def _ready(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is None and condition_is_true(
        pod.status.conditions, "Ready"
    )


def _named(pod: Pod, name: str) -> int:
    if name.isdigit():
        return int(name)
    ports = (port for container in pod.spec.containers for port in container.ports)
    return next((port.container_port for port in ports if port.name == name), 0)


class NodePorts:
    def __init__(self, runtime: Runtime, pods: Informer[Pod], services: Informer[Service]) -> None:
        self._runtime = runtime
        self._pods = pods
        self._services = services
        self._changed = asyncio.Event()
        self._listening: dict[int, asyncio.Server] = {}
        self._turn = 0
        services.subscribe(self._service_changed)

    async def run(self) -> None:
        """Listen where services want it, until cancelled."""
        await self._services.synced()
        try:
            while True:
                await self._listen(set(wanted_node_ports(self._services.all())))
                await self._changed.wait()
                self._changed.clear()
        finally:
            await self._listen(set())

    async def _listen(self, ports: set[int]) -> None:
        for port in self._listening.keys() - ports:
            self._listening.pop(port).close()
        for port in ports - self._listening.keys():

            async def serve(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int = port
            ) -> None:
                await self._serve(port, reader, writer)

            try:
                self._listening[port] = await asyncio.start_server(serve, _LOOPBACK, port)
            except OSError as error:
                log.warning("node port %d: %s", port, error.strerror)

    async def _serve(
        self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Carry one connection to its end."""
        with contextlib.closing(writer), contextlib.suppress(OSError, CannotRun, TimeoutError):
            async with asyncio.timeout(_CONNECTING):
                theirs, ours = await self._connect(port)
            with contextlib.closing(ours):
                async with asyncio.TaskGroup() as group:
                    group.create_task(_carry(reader, ours))
                    group.create_task(_carry(theirs, writer))

    async def _connect(self, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        target = wanted_node_ports(self._services.all()).get(port)
        service = self._services.get(target.service) if target else None
        found = ready_targets(service, self._pods.all(), target.port) if service and target else []
        if not found:
            raise CannotRun(f"no ready pod for node port {port}")
        self._turn += 1
        sock = await self._runtime.reach(*found[self._turn % len(found)])
        return await asyncio.open_connection(sock=sock)

    def _service_changed(self, change: Change[Service]) -> None:
        self._changed.set()


async def _carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Bytes from one side to the other, then the end; a side that breaks off ends both."""
    try:
        while data := await source.read(_BLOCK):
            sink.write(data)
            await sink.drain()
        sink.write_eof()
    except OSError:
        sink.close()
