"""The service `kubernetes`, by which pods find the API server, and services of another range.

The real server writes the service and its endpoints too, each time it starts. The range of services
belongs to the machine's free networks: if it had to change, the stored services get new addresses.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kubekit.errors import ApiError
from localkube.apiserver import codec
from localkube.apiserver.http.requests import Call
from localkube.apiserver.kinds.services import service_addresses, service_node_ports
from localkube.apiserver.kinds.services.endpoints import ENDPOINT_SLICES, ENDPOINTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ipaddress import IPv4Network

    from kubekit.objects.meta import Raw
    from localkube.apiserver.resource import Resource
    from localkube.apiserver.store.changes import Entry
    from localkube.apiserver.store.store import Store
    from localkube.apiserver.verbs import Verbs

log = logging.getLogger(__name__)

_NAME, _NAMESPACE, _PORT = "kubernetes", "default", 443
_AGENT = "kube-apiserver"


async def renumber(store: Store, services: Resource, service_range: IPv4Network) -> None:
    """Give an address of the range to every service that should have one and has not.

    That are services of a former range, and those with node ports that an earlier version of Muster
    stored without an address.
    """
    own_key, own = f"services/{_NAMESPACE}/{_NAME}", str(service_range[1])
    # `kubernetes` comes first: no other service may draw its address.
    found = sorted(_without_address(store, service_range), key=lambda pair: pair[0].key != own_key)
    for entry, service in found:
        address = own if entry.key == own_key else ""
        service["spec"] |= {"clusterIP": address, "clusterIPs": [address] if address else []}
        try:
            service_addresses.allocate(service, store, service_range)
            encode = codec.stored_encoder(service, services)
            await store.update(entry.key, encode, entry.revision)
        except ApiError as error:  # the range or the disk is full; the server must start
            log.warning("%s got no address: %s", entry.key, error)


def _without_address(store: Store, service_range: IPv4Network) -> Iterator[tuple[Entry, Raw]]:
    for entry in store.scan("services/"):
        headless = b'"clusterIP":"None"' in entry.value
        # Jobs have many headless services: those are not decoded.
        if headless and not any(kind.encode() in entry.value for kind in service_node_ports.TYPES):
            continue
        service = codec.decode(entry.value)
        spec = service["spec"]
        if spec["type"] == "ExternalName" or (
            headless and spec["type"] not in service_node_ports.TYPES
        ):
            continue
        if not service_addresses.is_usable(spec.get("clusterIP") or "", service_range):
            yield entry, service


async def publish(
    verbs: Verbs, services: Resource, service_address: str, address: str, port: int
) -> None:
    """Write the service and, if pods have a network of their own, its endpoints: the address and
    the port at which pods reach this server."""
    objects = [(services, _service(service_address, port))]
    if address and not address.startswith("127."):  # no Endpoints object may contain loopback
        endpoint_port = {"name": "https", "port": port, "protocol": "TCP"}
        objects += [
            (ENDPOINTS, _endpoints(address, endpoint_port)),
            (ENDPOINT_SLICES, _slice(address, endpoint_port)),
        ]
    try:
        for resource, obj in objects:
            stored = verbs.store.get(codec.key(resource, _NAMESPACE, _NAME))
            if stored is None:
                await verbs.create(Call.internal(resource, "create", obj, agent=_AGENT))
            else:
                await verbs.update(Call.internal(resource, "update", obj, agent=_AGENT))
    except ApiError as error:  # the disk is full, and the server must start all the same
        log.warning("the service %s was not written: %s", _NAME, error)


def _metadata(**labels: str) -> Raw:
    return {"name": _NAME, "namespace": _NAMESPACE, "labels": labels}


def _service(address: str, port: int) -> Raw:
    row = {"name": "https", "port": _PORT, "protocol": "TCP", "targetPort": port}
    metadata = _metadata(component="apiserver", provider="kubernetes")
    spec = {"clusterIP": address, "ipFamilyPolicy": "SingleStack", "ports": [row]}
    return {"metadata": metadata, "spec": {"type": "ClusterIP", **spec}}


def _endpoints(address: str, port: Raw) -> Raw:
    return {
        "metadata": _metadata(**{"endpointslice.kubernetes.io/skip-mirror": "true"}),
        "subsets": [{"addresses": [{"ip": address}], "ports": [port]}],
    }


def _slice(address: str, port: Raw) -> Raw:
    return {
        "metadata": _metadata(**{"kubernetes.io/service-name": _NAME}),
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [port],
    }
