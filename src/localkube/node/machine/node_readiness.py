"""Waiting until the nodes in the API are those that this start declares.

Nodes of an earlier start are in the store. They look ready, with their former resources, until the
agent has registered the nodes again.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from kubekit.objects import limits
from kubekit.objects.kinds import NODES
from kubekit.objects.meta import condition_is_true
from localkube.node.machine import gpus
from localkube.node.machine.node_heartbeat import LOCAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kubekit.client.client import Client
    from kubekit.objects.core import Node

    Resources = Mapping[str, str]


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


def _is_ready(node: Node, resources: Resources, enforcement: dict[str, str]) -> bool:
    return (
        condition_is_true(node.status.conditions, "Ready")
        and _has_resources(node, resources)
        and limits.enforcement([node.metadata.annotations]) == enforcement
    )


def _has_resources(node: Node, resources: Resources) -> bool:
    """Whether the node has these resources; others, which somebody added, do not matter."""
    present = node.status.allocatable
    stale = gpus.RESOURCE in present and gpus.RESOURCE not in resources
    return not stale and resources.items() <= present.items()
