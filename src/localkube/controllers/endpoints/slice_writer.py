"""Writes the EndpointSlices of a service: updates those that fit, creates and deletes the rest."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from kubekit.errors import NotFound
from kubekit.objects.kinds import Kind
from kubekit.objects.meta import Raw, key_of
from kubekit.watch.informer import Informer
from localkube.controllers.endpoints import endpoint_addresses
from localkube.controllers.pod_control import generate_name

if TYPE_CHECKING:
    from kubekit.client.client import Client
    from kubekit.objects.meta import Key

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
            labels=f"{endpoint_addresses.MANAGED_BY}={manager}",
            indexes={_SERVICE: lambda endpoint_slice: (str(service_of(endpoint_slice)),)},
        )

    async def write(self, service: Key, desired: list[Raw]) -> None:
        """Make these the slices of the service."""
        # Sorted, so that every visit updates the same slice and no endpoint moves between slices.
        unused = sorted(self.slices.by(_SERVICE, str(service)), key=key_of)
        missing = []
        for new in desired:
            stored = next((s for s in unused if endpoint_addresses.can_become(s, new)), None)
            if stored is None:
                missing.append(new)
                continue
            unused.remove(stored)
            if not endpoint_addresses.same(stored, new):
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
    name = labels.get(endpoint_addresses.SERVICE_NAME, "")
    return key_of(endpoint_slice)._replace(name=name)
