"""The host names and ports at which the replicas of a job reach each other."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from muster.jobs import names
from muster.operator.build.host_ports import host_ports_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster.jobs.job import Job
    from muster.operator.observed_job import Observed
    from muster.operator.settings import Settings


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
