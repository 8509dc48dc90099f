"""Where the members of a job reach each other: host names and ports.

Used by the kinds for TF_CONFIG and the like. A member on the host's network has a port of its own,
which its service records: services are created before pods, so that every pod is told the same.
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

    from muster.jobs.job import Job, Member
    from muster.operator.seen import Seen, Settings


@dataclass(frozen=True)
class Hosts:
    """The addresses of one job's members."""

    job: Job
    settings: Settings
    own_ports: Mapping[str, int]
    """Ports of members on the host's network, by member name."""

    def short(self, role: str, index: int) -> str:
        """The bare name, which pods of the same namespace resolve."""
        return self.settings.address or names.member(self.job.name, role, index)

    def host(self, role: str, index: int) -> str:
        """The name with its namespace."""
        if self.settings.address:
            return self.settings.address
        name = f"{names.member(self.job.name, role, index)}.{self.job.namespace}.svc"
        return f"{name}.{self.settings.domain}" if self.settings.domain else name

    def port(self, role: str, index: int) -> int:
        own = self.own_ports.get(names.member(self.job.name, role, index))
        if own is not None:
            return own
        replica = self.job.replica(role)
        return replica.port if replica else self.job.shape.port

    @cached_property
    def addresses(self) -> dict[str, list[str]]:
        """Where everyone is, by role: found once, since everyone is told of everyone."""
        return {
            one.role: [
                f"{self.host(one.role, index)}:{self.port(one.role, index)}"
                for index in range(one.count)
            ]
            for one in self.job.replicas
        }

    @cached_property
    def listed(self) -> dict[str, str]:
        """The same as JSON: in a job of thousands, writing it out for each would take minutes."""
        return {
            role: json.dumps(everyone, separators=(",", ":"))
            for role, everyone in self.addresses.items()
        }


def find(job: Job, seen: Seen, settings: Settings) -> Hosts:
    """The job's addresses: ports from the services that exist, new ones where none does."""
    chosen: dict[str, int] = {}
    if not job.shape.port:
        return Hosts(job, settings, chosen)
    recorded = {
        service.metadata.name: port.port
        for service in seen.services
        for port in service.spec.ports
        if port.name == job.shape.port_name
    }
    wanted = [member for member in job.members() if on_host_network(job, member, settings)]
    for member in wanted:
        if member.name in recorded:
            chosen[member.name] = recorded[member.name]
    taken = set(seen.ports) | set(chosen.values())
    for member in wanted:
        if member.name not in chosen:
            chosen[member.name] = _free(f"{job.uid}/{member.name}", settings.host_ports, taken)
            taken.add(chosen[member.name])
    return Hosts(job, settings, chosen)


def on_host_network(job: Job, member: Member, settings: Settings) -> bool:
    replica = job.replica(member.role)
    return bool(settings.address) or (replica is not None and replica.host_network)


def _free(seed: str, ports: range, taken: set[int]) -> int:
    """A free port, the same each time for the same member as long as it stays free."""
    start = zlib.crc32(seed.encode()) % len(ports)
    for step in range(len(ports)):
        port = ports[(start + step) % len(ports)]
        if port not in taken:
            return port
    return ports[start]
