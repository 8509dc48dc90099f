"""Registers the agent's nodes and writes their heartbeats.

A heartbeat renews a Lease in `kube-node-lease`, as the kubelet does; the Node itself is written at
the start and every few minutes.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from kubekit.errors import AlreadyExists, MusterError, NotFound
from kubekit.objects.kinds import LEASES, NAMESPACES, NODES
from kubekit.objects.limits import ANNOTATIONS
from kubekit.objects.meta import Key, timestamp
from localkube.node.machine import capacity, gpus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from kubekit.client.client import Client
    from kubekit.objects.meta import Raw
    from localkube.node.machine.capacity import NodeSpec

log = logging.getLogger(__name__)

LEASE_NAMESPACE = "kube-node-lease"
LOCAL = "muster.dev/local"
_BEAT = 10.0
"""Seconds between heartbeats, as of the kubelet."""
_BEATS_PER_STATUS = 30


def node_object(node: NodeSpec, enforcement: Mapping[str, str]) -> Raw:
    """The Node, without its status; `enforcement` says which limits it enforces."""
    arch = capacity.architecture()
    return {
        "metadata": {
            "name": node.name,
            "labels": {
                "kubernetes.io/hostname": node.name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": arch,
                "node.kubernetes.io/instance-type": "local",
                LOCAL: "true",
            },
            "annotations": {
                annotation: enforcement[resource] for resource, annotation in ANNOTATIONS.items()
            },
        },
        "spec": {"providerID": f"muster://{node.name}"},
    }


def node_status(node: NodeSpec, address: str, since: datetime, now: datetime) -> Raw:
    """The Node's status: ready, with its resources."""
    reasons = {
        "MemoryPressure": ("False", "KubeletHasSufficientMemory"),
        "DiskPressure": ("False", "KubeletHasNoDiskPressure"),
        "PIDPressure": ("False", "KubeletHasSufficientPID"),
        "Ready": ("True", "KubeletReady"),
    }
    return {
        "capacity": node.resources,
        "allocatable": node.resources,
        "addresses": [
            {"type": "InternalIP", "address": address},
            {"type": "Hostname", "address": node.name},
        ],
        "nodeInfo": capacity.node_info(),
        "conditions": [
            {
                "type": kind,
                "status": value,
                "reason": reason,
                "message": "the node agent is running" if kind == "Ready" else "",
                "lastHeartbeatTime": timestamp(now),
                "lastTransitionTime": timestamp(since),
            }
            for kind, (value, reason) in reasons.items()
        ],
    }


class NodeHeartbeat:
    def __init__(
        self,
        client: Client,
        nodes: list[NodeSpec],
        address: str,
        clock: Callable[[], datetime],
        enforcement: Mapping[str, str],
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._address = address
        self._clock = clock
        self._enforcement = enforcement
        self._since = clock()

    async def run(self) -> None:
        """Write heartbeats until cancelled; retry while the API server does not answer."""
        beats, last = 0, self._clock()
        while True:
            try:
                missed = self._clock() - last > timedelta(seconds=2 * _BEAT)
                last = self._clock()
                # After a gap (the machine slept) the node may count as lost: write it again.
                if missed or beats % _BEATS_PER_STATUS == 0:
                    await self._register()
                for node in self._nodes:
                    await self._beat(node)
                beats += 1
                await asyncio.sleep(_BEAT)
            except MusterError as error:
                log.warning("heartbeat: %s", error)
                beats = 0  # the next beat registers the nodes again
                await asyncio.sleep(1.0)

    async def _register(self) -> None:
        for node in self._nodes:
            declared = node_object(node, self._enforcement)
            try:
                await self._client.create(NODES, declared)
            except AlreadyExists:
                await self._client.patch(NODES, Key("", node.name), declared)
            status = node_status(node, self._address, self._since, self._clock())
            # A merge patch keeps the GPUs of an earlier start unless it removes them.
            amounts = {gpus.RESOURCE: None, **node.resources}
            status |= {"capacity": amounts, "allocatable": amounts}
            await self._client.patch(
                NODES, Key("", node.name), {"status": status}, subresource="status"
            )
        await self._remove_undeclared()

    async def _remove_undeclared(self) -> None:
        """Delete nodes of an earlier start that are not declared any more."""
        listing = await self._client.list(NODES, labels=f"{LOCAL}=true")
        names = {node.name for node in self._nodes}
        for node in listing.items:
            if node.metadata.name not in names:
                await self._client.delete(NODES, node.metadata.key)

    async def _beat(self, node: NodeSpec) -> None:
        key = Key(LEASE_NAMESPACE, node.name)
        now = timestamp(self._clock(), micro=True)
        spec = {"holderIdentity": node.name, "leaseDurationSeconds": 40, "renewTime": now}
        try:
            await self._client.patch(LEASES, key, {"spec": spec})
        except NotFound:
            body = {"metadata": {"name": key.name, "namespace": key.namespace}, "spec": spec}
            try:
                await self._client.create(LEASES, body)
            except NotFound:  # a new cluster does not have the namespace yet
                await self._client.create(NAMESPACES, {"metadata": {"name": key.namespace}})
                await self._client.create(LEASES, body)
