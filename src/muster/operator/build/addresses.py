"""Where the members of a job reach each other: host names and ports.

Used by the kinds for TF_CONFIG and the like. A member on the host's network has a port of its own,
which its service records, under an annotation that says it was chosen: services are settled before
pods are made, so that every pod is told the same.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from muster.jobs import names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster.jobs.job import Job, Replica
    from muster.operator.observed import Observed, Settings

HOST_PORT_ANNOTATION = "muster.dev/host-port"
"""On a service: the port that was chosen for its member. Others only say what a container has."""


@dataclass(frozen=True)
class Addresses:
    """The addresses of one job's members."""

    job: Job
    settings: Settings
    own_ports: Mapping[str, int]
    """Ports of members on the host's network, by member name."""

    def short(self, role: str, index: int) -> str:
        """The bare name, which pods of the same namespace resolve."""
        return self.settings.address or names.replica(self.job.name, role, index)

    def host(self, role: str, index: int) -> str:
        """The name with its namespace."""
        if self.settings.address:
            return self.settings.address
        name = f"{names.replica(self.job.name, role, index)}.{self.job.namespace}.svc"
        return f"{name}.{self.settings.domain}" if self.settings.domain else name

    def port(self, role: str, index: int) -> int:
        own = self.own_ports.get(names.replica(self.job.name, role, index))
        if own is not None:
            return own
        replica_spec = self.job.replica_spec(role)
        return replica_spec.port if replica_spec else self.job.job_kind.port

    @cached_property
    def addresses(self) -> dict[str, list[str]]:
        """Where everyone is, by role: found once, since everyone is told of everyone."""
        return {
            one.role: [
                f"{self.host(one.role, index)}:{self.port(one.role, index)}"
                for index in range(one.count)
            ]
            for one in self.job.replica_specs
        }

    @cached_property
    def listed(self) -> dict[str, str]:
        """The same as JSON: in a job of thousands, writing it out for each would take minutes."""
        return {
            role: json.dumps(everyone, separators=(",", ":"))
            for role, everyone in self.addresses.items()
        }


def addresses_of(job: Job, observed: Observed, settings: Settings) -> Addresses:
    """The job's addresses: ports from the services that record them, new ones where none does."""
    chosen: dict[str, int] = {}
    if not job.job_kind.port:
        return Addresses(job, settings, chosen)
    known = recorded_ports(job, observed)
    wanted = [replica for replica in job.replicas() if on_host_network(job, replica, settings)]
    for replica in wanted:
        if replica.name in known:
            chosen[replica.name] = known[replica.name]
    taken = set(observed.ports) | set(chosen.values()) | _listened_on(job)
    for replica in wanted:
        if replica.name not in chosen:
            chosen[replica.name] = _free(f"{job.uid}/{replica.name}", settings.host_ports, taken)
            taken.add(chosen[replica.name])
    return Addresses(job, settings, chosen)


def recorded_ports(job: Job, observed: Observed) -> dict[str, int]:
    """The ports that were chosen for members, by member name."""
    return {
        service.metadata.name: port.port
        for service in observed.services
        for port in service.spec.ports
        if port.name == job.job_kind.port_name
        and service.metadata.annotations.get(HOST_PORT_ANNOTATION) == str(port.port)
    }


def replicas_without_port(job: Job, observed: Observed, settings: Settings) -> list[Replica]:
    """The members on the host's network whose services record no port yet."""
    if not job.job_kind.port:
        return []
    known = recorded_ports(job, observed)
    return [
        replica
        for replica in job.replicas()
        if replica.name not in known and on_host_network(job, replica, settings)
    ]


def _listened_on(job: Job) -> set[int]:
    """Ports that containers of the job have on their host whatever is chosen."""
    return {
        int(port[field])
        for replica_spec in job.replica_specs
        for container in replica_spec.spec["containers"]
        for port in container.get("ports") or ()
        for field in ("containerPort", "hostPort")
        if isinstance(port.get(field), int)
    }


def on_host_network(job: Job, replica: Replica, settings: Settings) -> bool:
    replica_spec = job.replica_spec(replica.role)
    return bool(settings.address) or (replica_spec is not None and replica_spec.host_network)


def _free(seed: str, ports: range, taken: set[int]) -> int:
    """A free port, the same each time for the same member as long as it stays free."""
    start = zlib.crc32(seed.encode()) % len(ports)
    for step in range(len(ports)):
        port = ports[(start + step) % len(ports)]
        if port not in taken:
            return port
    return ports[start]
