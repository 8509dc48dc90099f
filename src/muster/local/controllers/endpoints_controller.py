"""The controller of services: keeps Endpoints and EndpointSlices as the pods are.

Run by `run.py`. A burst of changes leads to one write: a service is looked at a moment after its
first change, because nothing in the local cluster waits for these objects.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from muster.api.kinds import Kind
from muster.api.meta import Raw, key_of
from muster.errors import AlreadyExists, NotFound
from muster.kube.watch.informer import Informer
from muster.local.controllers import endpoints
from muster.local.controllers.informers import NAMESPACE
from muster.local.controllers.pod_control import generate_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from muster.api.meta import Key
    from muster.kube.client import Client
    from muster.kube.watch.informer_cache import Change
    from muster.local.controllers.informers import SharedInformers
    from muster.local.controllers.kinds import Pod, Service

ENDPOINTS: Kind[Raw] = Kind("", "v1", "endpoints", "Endpoints", dict)
SLICES: Kind[Raw] = Kind("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", dict)
BATCH_DELAY = 0.2
_OF = "service"


class EndpointsController:
    def __init__(self, client: Client, watched: SharedInformers) -> None:
        self._client = client
        self._watched = watched
        self.endpoints: Informer[Raw] = Informer(client, ENDPOINTS)
        self.slices: Informer[Raw] = Informer(
            client,
            SLICES,
            labels=f"{endpoints.MANAGED_BY}={endpoints.MANAGER}",
            indexes={_OF: lambda one: (str(_service(one)),)},
        )

    def connect(self, wake: Callable[[Key], None]) -> None:
        """Wake a service when it changes, its pods do, or somebody touches what we wrote."""
        self._watched.services.subscribe(lambda change: wake(change.current.metadata.key))
        self.endpoints.subscribe(lambda change: wake(key_of(change.current)))
        self.slices.subscribe(lambda change: wake(_service(change.current)))

        def on_pod(change: Change[Pod]) -> None:
            for pod in (change.old, change.new):
                for key in self._with(pod) if pod is not None else ():
                    wake(key)

        self._watched.pods.subscribe(on_pod)

    def _with(self, pod: Pod) -> Iterable[Key]:
        """The services that this pod is behind."""
        labels = pod.metadata.labels.items()
        for service in self._watched.services.by(NAMESPACE, pod.metadata.namespace):
            if service.spec.selector and service.spec.selector.items() <= labels:
                yield service.metadata.key

    async def __call__(self, key: Key) -> None:
        service = self._watched.services.get(key)
        if service is None:
            await self._forget(key)
        elif endpoints.selects(service) and service.metadata.deletion_timestamp is None:
            pods = self._watched.pods.by(NAMESPACE, key.namespace)
            groups = endpoints.pods_by_ports(service, pods)
            await self._write_endpoints(key, endpoints.endpoints(service, groups))
            await self._write_slices(service, endpoints.slices(service, groups))

    async def _forget(self, key: Key) -> None:
        """The slices go with their owner; Endpoints have none, and go if they were ours."""
        found = self.endpoints.get(key)
        if found is not None and endpoints.is_ours(found):
            with contextlib.suppress(NotFound):
                await self._client.delete(ENDPOINTS, key, uid=found["metadata"]["uid"])

    async def _write_endpoints(self, key: Key, wanted: Raw) -> None:
        found = self.endpoints.get(key)
        if found is None:
            with contextlib.suppress(AlreadyExists):  # its event is on its way
                await self._client.create(ENDPOINTS, wanted)
        elif not endpoints.same(found, wanted):
            await self._client.replace(ENDPOINTS, _over(found, wanted))

    async def _write_slices(self, service: Service, wanted: list[Raw]) -> None:
        """Give each wanted slice a stored one of the same form, if there is one."""
        stored = sorted(
            self.slices.by(_OF, str(service.metadata.key)), key=lambda one: key_of(one).name
        )
        missing = []
        for one in wanted:
            found = next((s for s in stored if endpoints.can_become(s, one)), None)
            if found is None:
                missing.append(one)
                continue
            stored.remove(found)
            if not endpoints.same(found, one):
                await self._client.replace(SLICES, _over(found, one))
        for one in missing:
            await self._create_slice(service, one)
        for left in stored:
            with contextlib.suppress(NotFound):
                await self._client.delete(SLICES, key_of(left), uid=left["metadata"]["uid"])

    async def _create_slice(self, service: Service, body: Raw) -> None:
        base = f"{service.metadata.name}-"
        named = {**body["metadata"], "name": generate_name(base), "generateName": base}
        await self._client.create(SLICES, {**body, "metadata": named})


def _over(found: Raw, wanted: Raw) -> Raw:
    """The stored object with our content: its version makes a lost race a conflict."""
    return {**wanted, "metadata": {**found["metadata"], "labels": wanted["metadata"]["labels"]}}


def _service(one: Raw) -> Key:
    key = key_of(one)
    labels = one["metadata"].get("labels") or {}
    return key._replace(name=labels.get(endpoints.SERVICE_NAME, ""))
