"""Environment variables with the services of a pod's namespace, as the kubelet sets them: pure.

Only services that exist when a container starts have variables. Those of the service `kubernetes`
are not among them: `ApiAddress` sets them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from localkube.node.network.services.ports import API_SERVICE, has_address

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.objects.core import Service
    from localkube.node.pod import Pod


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
