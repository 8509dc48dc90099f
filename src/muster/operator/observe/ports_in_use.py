"""The ports of hosts that pods use, read when a job on the host's network needs some.

The operator watches only pods of jobs. Other pods may hold host ports too, so all pods are listed
when a job has no ports yet; one list serves all jobs of the next few seconds. If the operator may
not list pods, it logs that once and chooses ports anyway. The ports of a job stay reserved
until informers surely show them.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from kubekit.objects.kinds import PODS
from kubekit.request_errors import Forbidden

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kubekit.client.client import Client
    from kubekit.objects.core import Pod

FRESH = 3.0
"""Seconds for which one list of all pods serves."""
KEEP = 60.0
"""Seconds after which informers surely show the ports that services record."""
# Finished pods no longer hold ports.
_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
log = logging.getLogger(__name__)


class PortsInUse:
    """Ports that pods hold, and ports that were just reserved for jobs."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._reserved: dict[str, tuple[float, frozenset[int]]] = {}
        self._pods: tuple[Pod, ...] = ()
        self._fresh_until = 0.0
        self._warned = False

    async def of_other_jobs(self, job: str) -> frozenset[int]:
        """The ports that pods of other owners held a moment ago."""
        now = asyncio.get_running_loop().time()
        if now >= self._fresh_until:
            self._pods = await self._list_pods()
            self._fresh_until = now + FRESH
        return frozenset(
            port
            for pod in self._pods
            if all(owner.uid != job for owner in pod.metadata.owner_references)
            for port in _host_ports(pod)
        )

    async def _list_pods(self) -> tuple[Pod, ...]:
        try:
            listing = await self._client.list(PODS, fields=_UNFINISHED)
        except Forbidden as error:
            if not self._warned:
                log.warning("%s; chosen host ports may be in use already", error)
            self._warned = True
            return ()
        return tuple(listing.items)

    def reserved(self, job: str) -> frozenset[int]:
        """The ports that are reserved for other jobs."""
        now = asyncio.get_running_loop().time()
        self._reserved = {uid: row for uid, row in self._reserved.items() if row[0] > now}
        rows = (ports for uid, (_, ports) in self._reserved.items() if uid != job)
        return frozenset().union(*rows)

    def reserve(self, job: str, ports: Iterable[int]) -> None:
        """Reserve further ports for the job, until its services show them."""
        _, earlier = self._reserved.get(job, (0.0, frozenset[int]()))
        until = asyncio.get_running_loop().time() + KEEP
        self._reserved[job] = (until, earlier | frozenset(ports))


def _host_ports(pod: Pod) -> Iterator[int]:
    """The ports of its host that a pod holds; on the host's network, every container port."""
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        for port in container.ports:
            number = port.host_port or (port.container_port if pod.spec.host_network else 0)
            if number:
                yield number
