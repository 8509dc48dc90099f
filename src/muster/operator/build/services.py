"""The headless service of a replica, which gives its pod a host name before it is ready."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.objects.kinds import SERVICES
from muster.operator.build.host_ports import HOST_PORT_ANNOTATION
from muster.operator.build.labels import owned_manifest, replica_labels

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.objects.meta import Raw
    from muster.jobs.job import Job, Replica
    from muster.operator.build.addresses import Addresses


def service_manifest(job: Job, replica: Replica, hosts: Addresses) -> Raw:
    replica_spec = job.replica_spec(replica.role)
    main = replica_spec.main if replica_spec else {}
    own_port = {"name": job.job_kind.port_name, "port": hosts.port(replica.role, replica.index)}
    selector = replica_labels(job, replica)
    manifest = owned_manifest(job, SERVICES, replica.name, selector)
    if replica.name in hosts.host_ports:
        manifest["metadata"]["annotations"] = {HOST_PORT_ANNOTATION: str(own_port["port"])}
    ports = [own_port, *_other_ports(main.get("ports") or (), own_port)]
    return {**manifest, "spec": {**headless(selector), "ports": ports}}


def headless(selector: dict[str, str]) -> Raw:
    """The spec of a service that gives pods host names before they are ready."""
    return {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": selector}


def _other_ports(container_ports: Iterable[Raw], own_port: Raw) -> list[Raw]:
    """The container's other ports; a service may have each number once per protocol."""
    taken = {(own_port["port"], "TCP")}
    rows: list[Raw] = []
    for port in container_ports:
        number, protocol = port["containerPort"], port.get("protocol") or "TCP"
        if port.get("name") == own_port["name"] or (number, protocol) in taken:
            continue
        taken.add((number, protocol))
        default = f"port-{number}" if protocol == "TCP" else f"port-{number}-{protocol.lower()}"
        row = {"name": port.get("name") or default, "port": number}
        rows.append(row if protocol == "TCP" else {**row, "protocol": protocol})
    return rows
