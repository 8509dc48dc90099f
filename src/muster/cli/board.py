"""Where a job's TensorBoard can be opened: read from the Service that goes with it.

Used by `get`, `list -o json` and `open`. Nothing here asks TensorBoard itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.api.kinds import NODES, SERVICES
from muster.api.meta import Key, Raw, is_true
from muster.errors import Forbidden, NotFound

if TYPE_CHECKING:
    from muster.cli.cluster import Cluster
    from muster.kube.blocking import BlockingClient

_RAW = SERVICES.read_as(dict)


def name(job: str) -> str:
    """What the Service and the Deployment are called."""
    return f"{job}-tensorboard"


def url(client: BlockingClient, cluster: Cluster, job: Key) -> str:
    """The address for a browser; empty if the job has no TensorBoard or nobody can reach it."""
    try:
        service = client.get(_RAW, Key(job.namespace, name(job.name)))
    except (NotFound, Forbidden):
        return ""
    return _balanced(service) or _by_node(client, cluster, service)


def _balanced(service: Raw) -> str:
    ingress: list[dict[str, Any]] = ((service.get("status") or {}).get("loadBalancer") or {}).get(
        "ingress"
    ) or []
    host = next((row.get("ip") or row.get("hostname") for row in ingress), "")
    ports = service["spec"].get("ports") or [{}]
    return f"http://{host}:{ports[0].get('port')}" if host else ""


def _by_node(client: BlockingClient, cluster: Cluster, service: Raw) -> str:
    ports = service["spec"].get("ports") or [{}]
    port = ports[0].get("nodePort")
    if not port:
        return ""
    # The local cluster's daemon listens for node ports on loopback alone.
    host = "127.0.0.1" if cluster.local else _node(client)
    return f"http://{host}:{port}" if host else ""


def _node(client: BlockingClient) -> str:
    try:
        nodes = client.list(NODES).items
    except Forbidden:
        return ""
    ready = [node for node in nodes if is_true(node.status.conditions, "Ready")]
    addresses = [one for node in ready for one in node.status.addresses]
    return next((one.address for one in addresses if one.type == "InternalIP"), "")
