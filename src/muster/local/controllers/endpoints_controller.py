"""Writes the Endpoints and EndpointSlices of services.

A service is visited shortly after its first change, so a burst of changes leads to one write:
nothing in the local cluster waits for these objects.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from muster.api.kinds import Kind
from muster.api.meta import Raw, key_of
from muster.errors import AlreadyExists, NotFound
from muster.kube.watch.informer import Informer
from muster.local.controllers import endpoint_addresses
from muster.local.controllers.informers import NAMESPACE
from muster.local.controllers.pod_control import generate_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from muster.api.core import Service
    from muster.api.meta import Key
    from muster.kube.client import Client
    from muster.kube.watch.informer_cache import Change
    from muster.local.controllers.informers import SharedInformers
    from muster.local.controllers.workloads import Pod

ENDPOINTS: Kind[Raw] = Kind("", "v1", "endpoints", "Endpoints", dict)
SLICES: Kind[Raw] = Kind("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", dict)
BATCH_DELAY = 0.2
"""Seconds between the first change of a service and its visit."""
_SERVICE = "service"


class EndpointsController:
    def __init__(self, client: Client, informers: SharedInformers) -> None:
        self._client = client
        self._informers = informers
        self.endpoints: Informer[Raw] = Informer(client, ENDPOINTS)
        self.slices: Informer[Raw] = Informer(
            client,
            SLICES,
            labels=f"{endpoint_addresses.MANAGED_BY}={endpoint_addresses.MANAGER}",
            indexes={_SERVICE: lambda endpoint_slice: (str(_service(endpoint_slice)),)},
        )

    def connect(self, wake: Callable[[Key], None]) -> None:
        """Wake a service when it, its pods or its endpoints change."""
        self._informers.services.subscribe(lambda change: wake(change.current.metadata.key))
        self.endpoints.subscribe(lambda change: wake(key_of(change.current)))
        self.slices.subscribe(lambda change: wake(_service(change.current)))

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
        elif endpoint_addresses.selects(service) and service.metadata.deletion_timestamp is None:
            pods = self._informers.pods.by(NAMESPACE, key.namespace)
            groups = endpoint_addresses.pods_by_ports(service, pods)
            await self._write_endpoints(key, endpoint_addresses.endpoints(service, groups))
            await self._write_slices(service, endpoint_addresses.slices(service, groups))

    async def _delete_endpoints(self, key: Key) -> None:
        """Slices are deleted with their owner; Endpoints have no owner."""
        stored = self.endpoints.get(key)
        if stored is not None and endpoint_addresses.is_ours(stored):
            with contextlib.suppress(NotFound):
                await self._client.delete(ENDPOINTS, key, uid=stored["metadata"]["uid"])

    async def _write_endpoints(self, key: Key, desired: Raw) -> None:
        stored = self.endpoints.get(key)
        if stored is None:
            with contextlib.suppress(AlreadyExists):  # its event is on the way
                await self._client.create(ENDPOINTS, desired)
        elif not endpoint_addresses.same(stored, desired):
            await self._client.replace(ENDPOINTS, _updated(stored, desired))

    async def _write_slices(self, service: Service, desired: list[Raw]) -> None:
        """Update stored slices where they can become a desired one; create and delete the rest."""
        # Sorted, so that every visit updates the same slice and no endpoint moves between slices.
        unused = sorted(self.slices.by(_SERVICE, str(service.metadata.key)), key=key_of)
        missing = []
        for new in desired:
            stored = next((s for s in unused if endpoint_addresses.can_become(s, new)), None)
            if stored is None:
                missing.append(new)
                continue
            unused.remove(stored)
            if not endpoint_addresses.same(stored, new):
                await self._client.replace(SLICES, _updated(stored, new))
        for new in missing:
            await self._create_slice(service, new)
        for stored in unused:
            with contextlib.suppress(NotFound):
                await self._client.delete(SLICES, key_of(stored), uid=stored["metadata"]["uid"])

    async def _create_slice(self, service: Service, body: Raw) -> None:
        base = f"{service.metadata.name}-"
        metadata = {**body["metadata"], "name": generate_name(base), "generateName": base}
        await self._client.create(SLICES, {**body, "metadata": metadata})


def _updated(stored: Raw, desired: Raw) -> Raw:
    """The stored object with new content; its resourceVersion makes a lost race a conflict."""
    return {**desired, "metadata": {**stored["metadata"], "labels": desired["metadata"]["labels"]}}


def _service(endpoint_slice: Raw) -> Key:
    labels = endpoint_slice["metadata"].get("labels") or {}
    name = labels.get(endpoint_addresses.SERVICE_NAME, "")
    return key_of(endpoint_slice)._replace(name=name)
