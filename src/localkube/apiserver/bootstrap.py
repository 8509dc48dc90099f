"""What the server writes when it starts: the first objects, and the service `kubernetes`.

The first objects are namespaces, default roles and system priority classes. Only missing ones are
created, so the changes of an admin stay. Pods find the API server by the service `kubernetes`; as
on the real server, it and its endpoints are written at each start. The range of services belongs to
the machine's free networks: if it had to change, the stored services get new addresses.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from kubekit.request_errors import ApiError
from localkube.apiserver import codec
from localkube.apiserver.access import default_roles
from localkube.apiserver.http.requests import Call
from localkube.apiserver.kinds import service_addresses
from localkube.apiserver.kinds.namespaces_nodes_events import NAMESPACES
from localkube.apiserver.kinds.priority_classes import PRIORITY_CLASSES, system_classes
from localkube.apiserver.kinds.roles_and_accounts import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from localkube.apiserver.kinds.services import ENDPOINT_SLICES, ENDPOINTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from ipaddress import IPv4Network

    from kubekit.objects.meta import Raw
    from localkube.apiserver.resource import Resource
    from localkube.apiserver.store.collection import Entry
    from localkube.apiserver.store.store import Store
    from localkube.apiserver.verbs import Verbs


log = logging.getLogger(__name__)
_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_NAME, _NAMESPACE, _PORT = "kubernetes", "default", 443
_AGENT = "kube-apiserver"


async def create_missing(verbs: Verbs, roles: Iterable[Raw]) -> None:
    """Create the missing objects, with these cluster roles."""
    # All at once, so that the store writes them in one commit.
    async with asyncio.TaskGroup() as group:
        for resource, obj in _initial_objects(roles):
            if verbs.store.get(codec.key(resource, "", obj["metadata"]["name"])) is None:
                call = Call.internal(resource, "create", obj, agent=_AGENT)
                group.create_task(verbs.create(call))


def _initial_objects(roles: Iterable[Raw]) -> Iterator[tuple[Resource, Raw]]:
    for name in _NAMESPACES:
        yield NAMESPACES, {"metadata": {"name": name}}
    for role in (*default_roles.cluster_roles(), *roles):
        yield CLUSTER_ROLES, role
    for binding in default_roles.cluster_role_bindings():
        yield CLUSTER_ROLE_BINDINGS, binding
    for priority_class in system_classes():
        yield PRIORITY_CLASSES, priority_class


# -- the service `kubernetes` ----------------------------------------------------------------------


async def publish(
    verbs: Verbs, services: Resource, service_address: str, address: str, port: int
) -> None:
    """Write the service and, if pods have their own network, its endpoints: the address and
    the port at which pods reach this server."""
    objects = [(services, _service(service_address, port))]
    if address and not address.startswith("127."):  # no Endpoints object may contain loopback
        ports = [{"name": "https", "port": port, "protocol": "TCP"}]
        endpoints = {
            "metadata": _metadata(**{"endpointslice.kubernetes.io/skip-mirror": "true"}),
            "subsets": [{"addresses": [{"ip": address}], "ports": ports}],
        }
        endpoint_slice = {
            "metadata": _metadata(**{"kubernetes.io/service-name": _NAME}),
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
            "ports": ports,
        }
        objects += [(ENDPOINTS, endpoints), (ENDPOINT_SLICES, endpoint_slice)]
    try:
        for resource, obj in objects:
            stored = verbs.store.get(codec.key(resource, _NAMESPACE, _NAME))
            verb = "create" if stored is None else "update"
            await verbs.by_name[verb](Call.internal(resource, verb, obj, agent=_AGENT))
    except ApiError as error:  # the disk is full, but the server must start anyway
        log.warning("the service %s was not written: %s", _NAME, error)


def _metadata(**labels: str) -> Raw:
    return {"name": _NAME, "namespace": _NAMESPACE, "labels": labels}


def _service(address: str, port: int) -> Raw:
    row = {"name": "https", "port": _PORT, "protocol": "TCP", "targetPort": port}
    metadata = _metadata(component="apiserver", provider="kubernetes")
    spec = {"clusterIP": address, "ipFamilyPolicy": "SingleStack", "ports": [row]}
    return {"metadata": metadata, "spec": {"type": "ClusterIP", **spec}}


# -- services of another range ---------------------------------------------------------------------


async def renumber_services(store: Store, services: Resource, service_range: IPv4Network) -> None:
    """Give an address of the range to every service of a former range."""
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
        if b'"clusterIP":"None"' in entry.value:
            continue  # jobs have many headless services: those are not decoded
        service = codec.decode(entry.value)
        address = service["spec"].get("clusterIP") or ""
        if service["spec"]["type"] != "ExternalName" and not service_addresses.is_usable(
            address, service_range
        ):
            yield entry, service
