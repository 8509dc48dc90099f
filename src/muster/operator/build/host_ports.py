"""Choosing and recording a port for every replica on the host's network.

Two replicas on one node cannot listen on the same port, so every replica has its own port. Its
service records the port, and an annotation tells it from an ordinary container port. Services are
created before pods, so all pods are configured with the same ports.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from kubekit.objects.kinds import SERVICES
from muster.operator.decision_types import Create, Patch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster.jobs.job import Job, Replica
    from muster.operator.decision_types import Action, Observed, Settings

HOST_PORTS = range(20000, 30000)
"""Ports for replicas: below the node ports of services (from 30000) and the ephemeral ports of
Linux (from 32768)."""
HOST_PORT_ANNOTATION = "muster.dev/host-port"
"""On a service: the port chosen for its replica."""


def on_host_network(job: Job, replica: Replica, settings: Settings) -> bool:
    replica_spec = job.replica_spec(replica.role)
    return bool(settings.address) or (replica_spec is not None and replica_spec.host_network)


def host_ports_of(job: Job, observed: Observed, settings: Settings) -> dict[str, int]:
    """The port of every replica on the host's network, by replica name.

    A port that a service records is kept; other replicas get a free port.
    """
    recorded, wanted = recorded_ports(job, observed), _replicas_with_ports(job, settings)
    ports = {r.name: recorded[r.name] for r in wanted if r.name in recorded}
    # On the host's network every container port is a host port, so the job's own count too.
    taken = set(observed.ports) | set(ports.values()) | _declared_ports(job)
    for replica in wanted:
        if replica.name not in ports:
            ports[replica.name] = _free_port(f"{job.uid}/{replica.name}", settings, taken)
            taken.add(ports[replica.name])
    return ports


def _replicas_with_ports(job: Job, settings: Settings) -> list[Replica]:
    """The replicas on the host's network; none in a kind of job whose replicas have no port."""
    replicas = job.replicas() if job.job_kind.port else ()
    return [replica for replica in replicas if on_host_network(job, replica, settings)]


def recorded_ports(job: Job, observed: Observed) -> dict[str, int]:
    """The ports that services record, by replica name."""
    return {
        service.metadata.name: port.port
        for service in observed.services
        for port in service.spec.ports
        if port.name == job.job_kind.port_name
        and service.metadata.annotations.get(HOST_PORT_ANNOTATION) == str(port.port)
    }


def lacks_ports(job: Job, observed: Observed, settings: Settings) -> bool:
    """Whether the service of a replica on the host's network records no port yet."""
    recorded = recorded_ports(job, observed)
    return any(r.name not in recorded for r in _replicas_with_ports(job, settings))


def ports_in(actions: Iterable[Action]) -> set[int]:
    """The ports that these actions record in services."""
    writes = [a for a in actions if isinstance(a, Create | Patch) and a.kind == SERVICES]
    changes = (a.manifest if isinstance(a, Create) else a.change for a in writes)
    recorded = (change["metadata"].get("annotations") or {} for change in changes)
    return {int(row[HOST_PORT_ANNOTATION]) for row in recorded if HOST_PORT_ANNOTATION in row}


def _declared_ports(job: Job) -> set[int]:
    """Ports that the job's containers declare, and so hold on their host in any case."""
    return {
        int(port[field])
        for replica_spec in job.replica_specs
        for container in replica_spec.spec["containers"]
        for port in container.get("ports") or ()
        for field in ("containerPort", "hostPort")
        if isinstance(port.get(field), int)
    }


def _free_port(seed: str, settings: Settings, taken: set[int]) -> int:
    """A free port; the same seed gives the same port while that is free.

    So a decision repeated before the service exists chooses the same port again.
    """
    ports = settings.host_ports or HOST_PORTS
    # A hash spreads the replicas over the range, so that most find their first port free.
    start = zlib.crc32(seed.encode()) % len(ports)
    for step in range(len(ports)):
        port = ports[(start + step) % len(ports)]
        if port not in taken:
            return port
    # No port is free. The scheduler or the node rejects the pod with the reason.
    return ports[start]
