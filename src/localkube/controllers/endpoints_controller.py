"""Writes the Endpoints and EndpointSlices of services, and mirrors Endpoints written by hand.

A service is visited shortly after its first change, so a burst of changes leads to one write:
nothing in the local cluster waits for these objects.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import msgspec

from kubekit.objects.kinds import Kind
from kubekit.objects.meta import Key, ObjectMeta, Raw, key_of
from kubekit.request_errors import AlreadyExists, NotFound
from kubekit.watch.informer import Informer
from localkube.controllers import endpoint_slices
from localkube.controllers.pod_control import generate_name
from localkube.controllers.shared_informers import NAMESPACE, SharedInformers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kubekit.client.client import Client
    from kubekit.objects.core import Service
    from kubekit.watch.informer_cache import Change
    from localkube.controllers.workloads import Pod

SLICES: Kind[Raw] = Kind("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", dict)
_SERVICE = "service"
_WRITTEN = ("labels", "annotations", "generateName")


class SliceWriter:
    """The slices of one manager, as the label `managed-by` names it."""

    def __init__(self, client: Client, manager: str) -> None:
        self._client = client
        self.slices: Informer[Raw] = Informer(
            client,
            SLICES,
            labels=f"{endpoint_slices.MANAGED_BY}={manager}",
            indexes={_SERVICE: lambda endpoint_slice: (str(service_of(endpoint_slice)),)},
        )

    async def write(self, service: Key, desired: list[Raw]) -> None:
        """Make these the slices of the service."""
        # Sorted, so that every visit updates the same slice and no endpoint moves between slices.
        unused = sorted(self.slices.by(_SERVICE, str(service)), key=key_of)
        missing = []
        for new in desired:
            stored = next((s for s in unused if endpoint_slices.can_become(s, new)), None)
            if stored is None:
                missing.append(new)
                continue
            unused.remove(stored)
            if not endpoint_slices.same(stored, new):
                await self._client.replace(SLICES, updated(stored, new))
        for new in missing:
            base = f"{service.name}-"
            metadata = {**new["metadata"], "name": generate_name(base), "generateName": base}
            await self._client.create(SLICES, {**new, "metadata": metadata})
        for stored in unused:
            with contextlib.suppress(NotFound):
                await self._client.delete(SLICES, key_of(stored), uid=stored["metadata"]["uid"])


def updated(stored: Raw, desired: Raw) -> Raw:
    """The stored object with new content; its resourceVersion makes a lost race a conflict."""
    ours = {k: v for k, v in desired["metadata"].items() if k in _WRITTEN}
    return {**desired, "metadata": {**stored["metadata"], **ours}}


def service_of(endpoint_slice: Raw) -> Key:
    """The service that a slice belongs to."""
    labels = endpoint_slice["metadata"].get("labels") or {}
    name = labels.get(endpoint_slices.SERVICE_NAME, "")
    return key_of(endpoint_slice)._replace(name=name)


ENDPOINTS: Kind[Raw] = Kind("", "v1", "endpoints", "Endpoints", dict)
BATCH_DELAY = 0.2
"""Seconds between the first change of a service and its visit."""


class EndpointsController:
    def __init__(self, client: Client, informers: SharedInformers) -> None:
        self._client = client
        self._informers = informers
        self.endpoints: Informer[Raw] = Informer(client, ENDPOINTS)
        self._writer = SliceWriter(client, endpoint_slices.MANAGER)
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
        if endpoint_slices.selects(service) and service.metadata.deletion_timestamp is None:
            pods = self._informers.pods.by(NAMESPACE, key.namespace)
            groups = endpoint_slices.pods_by_ports(service, pods)
            await self._write_endpoints(key, endpoint_slices.endpoints(service, groups))
            await self._writer.write(key, endpoint_slices.slices(service, groups))

    async def _delete_endpoints(self, key: Key) -> None:
        """Slices are deleted with their owner; Endpoints have no owner.

        Endpoints that were written by hand are deleted with their service too, but they may also
        exist before it.
        """
        stored, deleted = self.endpoints.get(key), key in self._deleted
        self._deleted.discard(key)
        if stored is not None and (deleted or endpoint_slices.is_ours(stored)):
            with contextlib.suppress(NotFound):
                await self._client.delete(ENDPOINTS, key, uid=stored["metadata"]["uid"])

    async def _write_endpoints(self, key: Key, desired: Raw) -> None:
        stored = self.endpoints.get(key)
        if stored is None:
            with contextlib.suppress(AlreadyExists):  # its event is on the way
                await self._client.create(ENDPOINTS, desired)
        elif not endpoint_slices.same(stored, desired):
            await self._client.replace(ENDPOINTS, updated(stored, desired))


class MirroringController:
    def __init__(
        self, client: Client, informers: SharedInformers, endpoints: Informer[Raw]
    ) -> None:
        self._services = informers.services
        self._endpoints = endpoints
        self._writer = SliceWriter(client, endpoint_slices.MIRRORING_MANAGER)
        self.slices = self._writer.slices

    def connect(self, wake: Callable[[Key], None]) -> None:
        """Wake a service when it, its Endpoints or its mirrors change."""
        self._services.subscribe(lambda change: wake(change.current.metadata.key))
        self._endpoints.subscribe(lambda change: wake(key_of(change.current)))
        self.slices.subscribe(lambda change: wake(service_of(change.current)))

    async def reconcile(self, key: Key) -> None:
        endpoints = self._endpoints.get(key)
        desired: list[Raw] = []
        if endpoints is not None and endpoint_slices.is_mirrored(
            endpoints, self._services.get(key)
        ):
            meta = msgspec.convert(endpoints["metadata"], ObjectMeta)
            desired = endpoint_slices.mirrors(endpoints, ENDPOINTS, meta)
        await self._writer.write(key, desired)
