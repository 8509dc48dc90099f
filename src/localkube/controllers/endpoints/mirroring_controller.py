"""Mirrors Endpoints of services without a selector to EndpointSlices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kubekit.objects.meta import ObjectMeta, Raw, key_of
from localkube.controllers.endpoints import endpoint_mirroring
from localkube.controllers.endpoints.controller import ENDPOINTS
from localkube.controllers.endpoints.slice_writer import SliceWriter, service_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubekit.client.client import Client
    from kubekit.objects.meta import Key
    from kubekit.watch.informer import Informer
    from localkube.controllers.informers import SharedInformers


class MirroringController:
    def __init__(
        self, client: Client, informers: SharedInformers, endpoints: Informer[Raw]
    ) -> None:
        self._services = informers.services
        self._endpoints = endpoints
        self._writer = SliceWriter(client, endpoint_mirroring.MANAGER)
        self.slices = self._writer.slices

    def connect(self, wake: Callable[[Key], None]) -> None:
        """Wake a service when it, its Endpoints or its mirrors change."""
        self._services.subscribe(lambda change: wake(change.current.metadata.key))
        self._endpoints.subscribe(lambda change: wake(key_of(change.current)))
        self.slices.subscribe(lambda change: wake(service_of(change.current)))

    async def reconcile(self, key: Key) -> None:
        endpoints = self._endpoints.get(key)
        desired: list[Raw] = []
        if endpoints is not None and endpoint_mirroring.is_mirrored(
            endpoints, self._services.get(key)
        ):
            meta = msgspec.convert(endpoints["metadata"], ObjectMeta)
            desired = endpoint_mirroring.mirrors(endpoints, ENDPOINTS, meta)
        await self._writer.write(key, desired)
