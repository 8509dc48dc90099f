"""Virtual addresses of services: their endpoints, and their variables in pods.

Endpoints come from EndpointSlices, so the names of container ports are resolved already, and the
endpoints of a service without a selector are whatever its slices say.

The environment of a container has only the services that exist when it starts. The variables of the
service `kubernetes` are not among them: `ApiAddress` sets them.
"""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import TYPE_CHECKING, NamedTuple

from kubekit.objects.kinds import Kind
from kubekit.objects.meta import ApiObject, Key, Object
from kubekit.telemetry.unexpected_errors import isolated

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.objects.core import Service
    from localkube.node.pod import Pod

API_SERVICE = Key("default", "kubernetes")
SERVICE_NAME = "kubernetes.io/service-name"
NOT_HEADLESS = "!service.kubernetes.io/headless"
"""Label selector: jobs have many headless services, whose slices are not needed here."""


class Conditions(Object, frozen=True):
    ready: bool | None = None


class SliceEndpoint(Object, frozen=True):
    addresses: tuple[str, ...] = ()
    conditions: Conditions = Conditions()


class SlicePort(Object, frozen=True):
    name: str = ""
    port: int = 0
    protocol: str = "TCP"


class EndpointSlice(ApiObject, frozen=True):
    address_type: str = "IPv4"
    endpoints: tuple[SliceEndpoint, ...] = ()
    ports: tuple[SlicePort, ...] = ()


SLICES = Kind("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", EndpointSlice)


class Endpoint(NamedTuple):
    address: str
    port: int


class ServicePort(NamedTuple):
    """One port of a service's virtual address."""

    address: str
    port: int
    protocol: str
    endpoints: tuple[Endpoint, ...]
    by_client: bool = False
    """Whether all connections of a client go to the same endpoint."""


def has_address(service: Service) -> bool:
    """Whether the service has a virtual address."""
    return service.spec.type != "ExternalName" and service.spec.cluster_ip not in ("", "None")


def service_ports(
    services: Iterable[Service], slices: Iterable[EndpointSlice]
) -> list[ServicePort]:
    """All ports of all services with a virtual address, in a stable order."""
    by_service: dict[Key, list[EndpointSlice]] = {}
    for endpoint_slice in slices:
        meta = endpoint_slice.metadata
        key = Key(meta.namespace, meta.labels.get(SERVICE_NAME, ""))
        by_service.setdefault(key, []).append(endpoint_slice)
    found: list[ServicePort] = []
    for service in services:
        with isolated("services", service.metadata.key):
            found += _ports_of(service, by_service.get(service.metadata.key, ()))
    return sorted(found)


def _ports_of(service: Service, slices: Iterable[EndpointSlice]) -> list[ServicePort]:
    return [
        ServicePort(
            service.spec.cluster_ip,
            port.port,
            port.protocol,
            _endpoints(slices, port.name, port.protocol),
            service.spec.session_affinity == "ClientIP",
        )
        for port in (service.spec.ports if has_address(service) else ())
        if _leads_somewhere(Endpoint(service.spec.cluster_ip, port.port))
    ]


def _endpoints(slices: Iterable[EndpointSlice], name: str, protocol: str) -> tuple[Endpoint, ...]:
    """The ready endpoints of one port. A condition that is not known counts as true."""
    found = {
        Endpoint(endpoint.addresses[0], port.port)
        for endpoint_slice in slices
        if endpoint_slice.address_type == "IPv4"
        for port in endpoint_slice.ports
        if (port.name, port.protocol) == (name, protocol)
        for endpoint in endpoint_slice.endpoints
        if endpoint.addresses and endpoint.conditions.ready is not False
    }
    return tuple(sorted(filter(_leads_somewhere, found)))


def _leads_somewhere(endpoint: Endpoint) -> bool:
    """Whether it is an address and a port: who may write slices may write anything into them."""
    try:
        IPv4Address(endpoint.address)
    except ValueError:
        return False
    return 0 < endpoint.port < 2**16


def service_links(pod: Pod, services: Iterable[Service]) -> dict[str, str]:
    """The variables for all services in the pod's namespace that have a virtual address."""
    variables: dict[str, str] = {}
    if not pod.spec.enable_service_links:
        return variables
    for service in services:
        meta = service.metadata
        own = meta.namespace == pod.metadata.namespace and meta.key != API_SERVICE
        if own and has_address(service) and service.spec.ports:
            variables |= _variables(service)
    return variables


def _variables(service: Service) -> dict[str, str]:
    name, address = _variable_name(service.metadata.name), service.spec.cluster_ip
    first = service.spec.ports[0]
    variables = {
        f"{name}_SERVICE_HOST": address,
        f"{name}_SERVICE_PORT": str(first.port),
        f"{name}_PORT": f"{first.protocol.lower()}://{address}:{first.port}",
    }
    for port in service.spec.ports:
        protocol = port.protocol.lower()
        if port.name:
            variables[f"{name}_SERVICE_PORT_{_variable_name(port.name)}"] = str(port.port)
        link = f"{name}_PORT_{port.port}_{protocol.upper()}"
        variables |= {
            link: f"{protocol}://{address}:{port.port}",
            f"{link}_PROTO": protocol,
            f"{link}_PORT": str(port.port),
            f"{link}_ADDR": address,
        }
    return variables


def _variable_name(name: str) -> str:
    return name.replace("-", "_").upper()
