"""Keeps the virtual addresses of services leading to their endpoints.

The kernel's packet filter does it: its rules work while the daemon is restarted, and the first
write of a new daemon replaces them at once. If the kernel cannot, a proxy in this process does: it
listens at the address and port of every service that has an endpoint; where nothing listens, the
kernel refuses connections. Pods see the bridge's address as their client's. Only TCP is forwarded.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from kubekit.errors import describe
from localkube.node.network.forwarder import Forwarder
from localkube.node.network.pod_network import opened_in_thread
from localkube.node.network.service_addresses import service_ports
from localkube.node_interface import CannotRun

if TYPE_CHECKING:
    import socket

    from kubekit.objects.core import Service
    from kubekit.serving.acceptor import Acceptor
    from kubekit.watch.informer import Informer
    from kubekit.watch.informer_cache import Change
    from localkube.node.descriptors import Descriptors
    from localkube.node.network.pod_network import Network
    from localkube.node.network.service_addresses import Endpoint, EndpointSlice, ServicePort
    from localkube.node.runtime.container_runtime import Runtime

log = logging.getLogger(__name__)

Place = tuple[str, int]
"""A virtual address and a port."""


@dataclass
class ServiceRouter:
    _runtime: Runtime
    _services: Informer[Service]
    _slices: Informer[EndpointSlice]
    _changed: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _proxy: ServiceProxy | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._services.subscribe(self._on_change)
        self._slices.subscribe(self._on_change)

    async def run(self) -> None:
        """Follow services and endpoints until cancelled; the kernel's rules stay."""
        await self._services.synced()
        await self._slices.synced()
        try:
            network = self._runtime.network
            await asyncio.to_thread(network.open_services)
        except (OSError, CannotRun) as error:
            log.warning("the addresses of services do not work: %s", describe(error))
            return
        written: list[ServicePort] | None = None
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(asyncio.to_thread, network.close_services)
            while True:
                self._changed.clear()
                ports = service_ports(self._services.all(), self._slices.all())
                if ports != written:
                    await self._write(ports, stack)
                    written = ports
                await self._changed.wait()

    async def _write(self, ports: list[ServicePort], stack: contextlib.AsyncExitStack) -> None:
        if self._proxy is None:
            try:
                await asyncio.to_thread(self._runtime.network.write_service_rules, ports)
            except (OSError, CannotRun) as error:
                log.warning("services go through a proxy: %s", describe(error))
                self._proxy = ServiceProxy(self._runtime.network, self._runtime.descriptors)
                stack.push_async_callback(self._proxy.close)
        if self._proxy is not None:
            await self._proxy.serve(ports)

    def _on_change(self, change: Change[Service] | Change[EndpointSlice]) -> None:
        self._changed.set()


class ServiceProxy:
    def __init__(self, network: Network, descriptors: Descriptors) -> None:
        self._network = network
        self._forwarder = Forwarder(descriptors)
        self._listening: dict[Place, Acceptor] = {}
        self._endpoints: dict[Place, tuple[Endpoint, ...]] = {}
        self._turn = 0

    async def serve(self, ports: list[ServicePort]) -> None:
        """Listen for these ports, and for no others."""
        self._endpoints = {
            (port.address, port.port): port.endpoints
            for port in ports
            if port.endpoints and port.protocol == "TCP"
        }
        for place in self._listening.keys() - self._endpoints:
            self._listening.pop(place).close()
        for place in self._endpoints.keys() - self._listening:
            name = f"service {place[0]}:{place[1]}"
            try:
                sock = await opened_in_thread(partial(self._network.listen_at, *place))
            except (OSError, CannotRun) as error:  # the other services must work
                log.warning("%s: %s", name, describe(error))
                continue
            self._listening[place] = self._forwarder.listen(
                sock, name, partial(self._connect, place)
            )

    async def close(self) -> None:
        await self.serve([])
        await self._forwarder.close()

    async def _connect(self, place: Place) -> socket.socket:
        # Looked up for every connection: endpoints change while the socket stays open.
        endpoints = self._endpoints.get(place)
        if not endpoints:
            raise CannotRun(f"no endpoint for {place}")
        self._turn += 1
        return await self._network.connect(*endpoints[self._turn % len(endpoints)])
