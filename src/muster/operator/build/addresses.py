"""The host names and ports at which replicas reach each other, and the services behind them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from kubekit.objects.kinds import SERVICES
from muster.jobs import names
from muster.operator.build.host_ports import HOST_PORT_ANNOTATION, host_ports_of
from muster.operator.build.labels import owned_manifest, replica_labels

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kubekit.objects.meta import Raw
    from muster.jobs.job import Job, Replica
    from muster.operator.decision_types import Observed, Settings


@dataclass(frozen=True)
class Addresses:
    """The addresses of one job's replicas."""

    job: Job
    settings: Settings
    host_ports: Mapping[str, int]
    """Ports of replicas on the host's network, by replica name."""

    def short(self, role: str, index: int) -> str:
        """The name without its namespace, which pods of the same namespace resolve."""
        return self.settings.address or names.replica(self.job.name, role, index)

    def host(self, role: str, index: int) -> str:
        """The name with its namespace."""
        # Without pod networks all replicas share one address and differ by port.
        if self.settings.address:
            return self.settings.address
        name = f"{names.replica(self.job.name, role, index)}.{self.job.namespace}.svc"
        return f"{name}.{self.settings.domain}" if self.settings.domain else name

    def port(self, role: str, index: int) -> int:
        host_port = self.host_ports.get(names.replica(self.job.name, role, index))
        if host_port is not None:
            return host_port
        replica_spec = self.job.replica_spec(role)
        return replica_spec.port if replica_spec else self.job.job_kind.port

    @cached_property
    def by_role(self) -> dict[str, list[str]]:
        """Host and port of every replica, by role."""
        return {
            spec.role: [
                f"{self.host(spec.role, index)}:{self.port(spec.role, index)}"
                for index in range(spec.count)
            ]
            for spec in self.job.replica_specs
        }

    @cached_property
    def by_role_json(self) -> dict[str, str]:
        """`by_role` as JSON, encoded once: every pod of a job carries the addresses of all pods."""
        return {
            role: json.dumps(addresses, separators=(",", ":"))
            for role, addresses in self.by_role.items()
        }


def addresses_of(job: Job, observed: Observed, settings: Settings) -> Addresses:
    return Addresses(job, settings, host_ports_of(job, observed, settings))


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
