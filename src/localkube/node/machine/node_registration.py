"""Registers the agent's nodes, writes their heartbeats, and waits until they are as declared.

A heartbeat renews a Lease in `kube-node-lease`, as the kubelet does; the Node itself is written at
the start and every few minutes. Nodes of an earlier start are in the store. They look ready, with
their former resources, until the agent has registered the nodes again.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from kubekit.errors import MusterError
from kubekit.objects import enforced_limits
from kubekit.objects.enforced_limits import ANNOTATIONS
from kubekit.objects.kinds import LEASES, NAMESPACES, NODES
from kubekit.objects.meta import Key, Raw, condition_is_true, timestamp
from kubekit.request_errors import AlreadyExists, NotFound
from localkube.node.machine import capacity, gpus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kubekit.client.client import Client
    from kubekit.objects.core import Node
    from localkube.node.machine.capacity import NodeSpec

    Resources = Mapping[str, str]

log = logging.getLogger(__name__)

LEASE_NAMESPACE = "kube-node-lease"
LOCAL = "muster.dev/local"
_BEAT = 10.0
"""Seconds between heartbeats, as of the kubelet."""
_BEATS_PER_STATUS = 30


@dataclass
class NodeHeartbeat:
    client: Client
    nodes: list[NodeSpec]
    address: str
    clock: Callable[[], datetime]
    enforcement: Mapping[str, str]

    def __post_init__(self) -> None:
        self._since = self.clock()

    async def run(self) -> None:
        """Write heartbeats until cancelled; retry while the API server does not answer."""
        beats, last = 0, self.clock()
        while True:
            try:
                missed = self.clock() - last > timedelta(seconds=2 * _BEAT)
                last = self.clock()
                # After a gap (the machine slept) the node may count as lost: write it again.
                if missed or beats % _BEATS_PER_STATUS == 0:
                    await self._register()
                for node in self.nodes:
                    await self._beat(node)
                beats += 1
                await asyncio.sleep(_BEAT)
            except MusterError as error:
                log.warning("heartbeat: %s", error)
                beats = 0  # the next beat registers the nodes again
                await asyncio.sleep(1.0)

    async def _register(self) -> None:
        for node in self.nodes:
            declared = node_object(node, self.enforcement)
            try:
                await self.client.create(NODES, declared)
            except AlreadyExists:
                await self.client.patch(NODES, Key("", node.name), declared)
            status = node_status(node, self.address, self._since, self.clock())
            # A merge patch keeps the GPUs of an earlier start unless it removes them.
            amounts = {gpus.RESOURCE: None, **node.resources}
            status |= {"capacity": amounts, "allocatable": amounts}
            await self.client.patch(
                NODES, Key("", node.name), {"status": status}, subresource="status"
            )
        names = {node.name for node in self.nodes}
        for former in (await self.client.list(NODES, labels=f"{LOCAL}=true")).items:
            if former.metadata.name not in names:  # of an earlier start, and not declared any more
                await self.client.delete(NODES, former.metadata.key)

    async def _beat(self, node: NodeSpec) -> None:
        key = Key(LEASE_NAMESPACE, node.name)
        now = timestamp(self.clock(), micro=True)
        spec = {"holderIdentity": node.name, "leaseDurationSeconds": 40, "renewTime": now}
        try:
            await self.client.patch(LEASES, key, {"spec": spec})
        except NotFound:
            body = {"metadata": {"name": key.name, "namespace": key.namespace}, "spec": spec}
            try:
                await self.client.create(LEASES, body)
            except NotFound:  # a new cluster does not have the namespace yet
                await self.client.create(NAMESPACES, {"metadata": {"name": key.namespace}})
                await self.client.create(LEASES, body)


async def wait_for_nodes(
    client: Client, declared: Mapping[str, Resources], enforcement: dict[str, str]
) -> None:
    """Return when exactly the declared nodes are ready, with their resources and limits."""

    def are_ready(present: Mapping[str, Node]) -> bool:
        own = {name for name, node in present.items() if LOCAL in node.metadata.labels}
        return own == declared.keys() and all(
            _is_ready(present[name], resources, enforcement) for name, resources in declared.items()
        )

    while True:
        listing = await client.list(NODES)  # again whenever the watch ends
        present = {node.metadata.name: node for node in listing.items}
        if are_ready(present):
            return
        async with aclosing(client.watch(NODES, since=listing.resource_version)) as events:
            async for event in events:
                if event.type == "DELETED":
                    present.pop(event.object.metadata.name, None)
                elif event.type != "BOOKMARK":
                    present[event.object.metadata.name] = event.object
                if are_ready(present):
                    return


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


def _is_ready(node: Node, resources: Resources, enforcement: dict[str, str]) -> bool:
    return (
        condition_is_true(node.status.conditions, "Ready")
        and _has_resources(node, resources)
        and enforced_limits.enforcement([node.metadata.annotations]) == enforcement
    )


def _has_resources(node: Node, resources: Resources) -> bool:
    """Whether the node has these resources; others, which somebody added, do not matter."""
    present = node.status.allocatable
    stale = gpus.RESOURCE in present and gpus.RESOURCE not in resources
    return not stale and resources.items() <= present.items()
