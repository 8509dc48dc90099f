"""Writes the Endpoints and EndpointSlices of services.

A service is visited shortly after its first change, so a burst of changes leads to one write:
nothing in the local cluster waits for these objects.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from kubekit.errors import AlreadyExists, NotFound
from kubekit.objects.kinds import Kind
from kubekit.objects.meta import Raw, key_of
from kubekit.watch.informer import Informer
from localkube.controllers.endpoints import endpoint_addresses
from localkube.controllers.endpoints.slice_writer import SliceWriter, service_of, updated
from localkube.controllers.informers import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kubekit.client.client import Client
    from kubekit.objects.core import Service
    from kubekit.objects.meta import Key
    from kubekit.watch.informer_cache import Change
    from localkube.controllers.informers import SharedInformers
    from localkube.controllers.workloads import Pod

ENDPOINTS: Kind[Raw] = Kind("", "v1", "endpoints", "Endpoints", dict)
BATCH_DELAY = 0.2
"""Seconds between the first change of a service and its visit."""


class EndpointsController:
    def __init__(self, client: Client, informers: SharedInformers) -> None:
        self._client = client
        self._informers = informers
        self.endpoints: Informer[Raw] = Informer(client, ENDPOINTS)
        self._writer = SliceWriter(client, endpoint_addresses.MANAGER)
        self.slices = self._writer.slices
        self._deleted: set[Key] = set()
        """Services that were deleted since their last visit."""

    def connect(self, wake: Callable[[Key], None]) -> None:
        """Wake a service when it, its pods or its endpoints change."""

        def on_service(change: Change[Service]) -> None:
            key = change.current.metadata.key
            if change.new is None:
                self._deleted.add(key)
            wake(key)

        self._informers.services.subscribe(on_service)
        self.endpoints.subscribe(lambda change: wake(key_of(change.current)))
        self.slices.subscribe(lambda change: wake(service_of(change.current)))

        def on_pod(change: Change[Pod]) -> None:
            for pod in (change.old, change.new):
                for key in self._services_of(pod) if pod is not None else ():
                    wake(key)

        self._informers.pods.subscribe(on_pod)

    def _services_of(self, pod: Pod) -> Iterable[Key]:
        labels = pod.metadata.labels.items()
        for service in self._informers.services.by(NAMESPACE, pod.metadata.namespace):
            if service.spec.selector and service.spec.selector.items() <= labels:
                yield service.metadata.key

    async def reconcile(self, key: Key) -> None:
        service = self._informers.services.get(key)
        if service is None:
            await self._delete_endpoints(key)
            return
        self._deleted.discard(key)
        if endpoint_addresses.selects(service) and service.metadata.deletion_timestamp is None:
            pods = self._informers.pods.by(NAMESPACE, key.namespace)
            groups = endpoint_addresses.pods_by_ports(service, pods)
            await self._write_endpoints(key, endpoint_addresses.endpoints(service, groups))
            await self._writer.write(key, endpoint_addresses.slices(service, groups))

    async def _delete_endpoints(self, key: Key) -> None:
        """Slices are deleted with their owner; Endpoints have no owner.

        Endpoints that were written by hand are deleted with their service too, but they may also
        exist before it.
        """
        stored, deleted = self.endpoints.get(key), key in self._deleted
        self._deleted.discard(key)
        if stored is not None and (deleted or endpoint_addresses.is_ours(stored)):
            with contextlib.suppress(NotFound):
                await self._client.delete(ENDPOINTS, key, uid=stored["metadata"]["uid"])

    async def _write_endpoints(self, key: Key, desired: Raw) -> None:
        stored = self.endpoints.get(key)
        if stored is None:
            with contextlib.suppress(AlreadyExists):  # its event is on the way
                await self._client.create(ENDPOINTS, desired)
        elif not endpoint_addresses.same(stored, desired):
            await self._client.replace(ENDPOINTS, updated(stored, desired))
