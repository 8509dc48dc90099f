"""Keeps the virtual addresses of services leading to their endpoints.

The kernel's packet filter does it: its rules work while the daemon is restarted, and the first
write of a new daemon replaces them at once. If the kernel cannot, a proxy in this process does.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from kubekit.errors import CannotRun, describe
from localkube.node.network.services.ports import service_ports
from localkube.node.network.services.proxy import ServiceProxy

if TYPE_CHECKING:
    from kubekit.objects.core import Service
    from kubekit.watch.informer import Informer
    from kubekit.watch.informer_cache import Change
    from localkube.node.descriptors import Descriptors
    from localkube.node.network.pod_network import Network
    from localkube.node.network.services.ports import EndpointSlice, ServicePort

log = logging.getLogger(__name__)


class ServiceRouter:
    def __init__(
        self,
        network: Network,
        descriptors: Descriptors,
        services: Informer[Service],
        slices: Informer[EndpointSlice],
    ) -> None:
        self._network = network
        self._descriptors = descriptors
        self._services = services
        self._slices = slices
        self._changed = asyncio.Event()
        self._proxy: ServiceProxy | None = None
        services.subscribe(self._on_change)
        slices.subscribe(self._on_change)

    async def run(self) -> None:
        """Follow services and endpoints until cancelled; the kernel's rules stay."""
        await self._services.synced()
        await self._slices.synced()
        try:
            await asyncio.to_thread(self._network.open_services)
        except (OSError, CannotRun) as error:
            log.warning("the addresses of services lead nowhere: %s", describe(error))
            return
        written: list[ServicePort] | None = None
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(asyncio.to_thread, self._network.close_services)
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
                await asyncio.to_thread(self._network.write_service_rules, ports)
            except (OSError, CannotRun) as error:
                log.warning("services go through a proxy: %s", describe(error))
                self._proxy = ServiceProxy(self._network, self._descriptors)
                stack.push_async_callback(self._proxy.close)
        if self._proxy is not None:
            await self._proxy.serve(ports)

    def _on_change(self, change: Change[Service] | Change[EndpointSlice]) -> None:
        self._changed.set()
