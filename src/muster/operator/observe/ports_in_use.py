"""Which ports of the hosts are taken, at the moment at which a job is to be given some.

Used by `reconcile` for jobs on the host's network whose services do not show their ports yet. Pods
that are not ours are not watched: they are looked at then, for all jobs of the next few seconds.
Where they may not be listed a port is chosen all the same, and the log says so once.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from muster.api.core import Container  # noqa: TC001
from muster.api.kinds import PODS
from muster.api.meta import Object, OwnerReference
from muster.errors import Forbidden

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from muster.kube.client import Client

FRESH = 3.0
"""Seconds for which one look at all pods will do."""
KEEP = 60.0
"""Seconds after which watches surely show what was promised."""
_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
log = logging.getLogger(__name__)


class _Spec(Object, frozen=True):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    host_network: bool = False


class _Meta(Object, frozen=True):
    owner_references: tuple[OwnerReference, ...] = ()


class PodPorts(Object, frozen=True):
    """A pod, as far as it may hold ports of its host."""

    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()


class PortsInUse:
    """Ports that foreign pods hold, and those just promised to jobs."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._reserved: dict[str, tuple[float, frozenset[int]]] = {}
        self._pods: tuple[PodPorts, ...] = ()
        self._until = 0.0
        self._told = False

    async def held(self, job: str) -> frozenset[int]:
        """What all pods but those of this job hold, as of a moment ago."""
        now = asyncio.get_running_loop().time()
        if now >= self._until:
            self._pods = await self._look()
            self._until = now + FRESH
        return frozenset(port for pod in self._pods if not _is_of(job, pod) for port in _ports(pod))

    async def _look(self) -> tuple[PodPorts, ...]:
        try:
            found = await self._client.list(PODS.read_as(PodPorts), fields=_UNFINISHED)
        except Forbidden:
            if not self._told:
                log.warning("pods may not be listed: host ports are chosen that others may hold")
            self._told = True
            return ()
        return tuple(found.items)

    def reserved(self, job: str) -> frozenset[int]:
        """What other jobs were promised of late."""
        now = asyncio.get_running_loop().time()
        self._reserved = {uid: row for uid, row in self._reserved.items() if row[0] > now}
        rows = (ports for uid, (_, ports) in self._reserved.items() if uid != job)
        return frozenset().union(*rows)

    def reserve(self, job: str, ports: Iterable[int]) -> None:
        """These are that job's, although nothing shows it yet."""
        until = asyncio.get_running_loop().time() + KEEP
        self._reserved[job] = (until, frozenset(ports))


def _is_of(job: str, pod: PodPorts) -> bool:
    return any(owner.uid == job for owner in pod.metadata.owner_references)


def _ports(pod: PodPorts) -> Iterator[int]:
    """Those of its host that a pod holds; on the host's network whatever it listens on."""
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        for port in container.ports:
            number = port.host_port or (port.container_port if pod.spec.host_network else 0)
            if number:
                yield number
