"""Virtual addresses of services without the kernel's packet filter: a proxy in this process.

It listens at the address and port of every service that has an endpoint; where nothing listens, the
kernel refuses connections. Pods see the bridge's address as their client's. Only TCP is forwarded.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from kubekit.errors import CannotRun, describe
from localkube.node.network.forwarding import Forwarder

if TYPE_CHECKING:
    import socket

    from kubekit.serving.acceptor import Acceptor
    from localkube.node.descriptors import Descriptors
    from localkube.node.network.pod_network import Network
    from localkube.node.network.services.ports import Endpoint, ServicePort

log = logging.getLogger(__name__)

Place = tuple[str, int]
"""A virtual address and a port."""


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
                sock = await asyncio.to_thread(self._network.listen_at, *place)
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
