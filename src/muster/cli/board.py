"""Where a job's TensorBoard can be opened: read from the Service that goes with it.

Used by `get`, `list -o json` and `open`. Nothing here asks TensorBoard itself; whether it runs is
what its pod says.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

from muster.api.kinds import NODES, PODS, SERVICES
from muster.api.meta import Key, Raw, is_true, key_of
from muster.errors import Forbidden, NotFound
from muster.jobs import cause, tensorboard
from muster.jobs.view import instance

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster.api.core import Pod
    from muster.cli.cluster import Cluster
    from muster.kube.blocking import BlockingClient

INSTALL = "pip install 'muster-train[tensorboard]'"
_RAW = SERVICES.read_as(dict)
_ROLE = ",".join(f"{key}={value}" for key, value in tensorboard.ROLE.items())


def url(client: BlockingClient, cluster: Cluster, job: Key) -> str:
    """The address for a browser; empty if the job has no TensorBoard or nobody can reach it."""
    try:
        service = client.get(_RAW, Key(job.namespace, tensorboard.name(job.name)))
    except (NotFound, Forbidden):
        return ""
    return _balanced(service) or _by_node(service, partial(_node, client, cluster))


def trouble(client: BlockingClient, cluster: Cluster, job: Key) -> str:
    """Why a TensorBoard that has an address does not answer there; empty if it should."""
    try:
        pods = client.list(PODS, job.namespace, labels=f"release={job.name},{_ROLE}").items
    except Forbidden:
        return ""
    if any(is_true(pod.status.conditions, "Ready") for pod in pods):
        return ""
    if not pods:
        return "it has no pod yet"
    return _stuck(pods[-1], local=cluster.local)


def _stuck(pod: Pod, *, local: bool) -> str:
    row = instance(pod)
    why = row.reason or (cause.of(pod) if row.restarts else "")
    said = why if why.startswith(row.status) else f"{row.status}: {why}" if why else row.status
    mend = f"; if it is not installed: {INSTALL}" if local and row.restarts else ""
    return said + mend


def urls(client: BlockingClient, cluster: Cluster, namespace: str) -> dict[Key, str]:
    """The address of every TensorBoard in a namespace or in all, by the key of its Service."""
    try:
        services = client.list(_RAW, namespace, labels=_ROLE).items
    except Forbidden:
        return {}
    node = cache(partial(_node, client, cluster))
    return {key_of(service): _balanced(service) or _by_node(service, node) for service in services}


def _balanced(service: Raw) -> str:
    ingress: list[dict[str, Any]] = ((service.get("status") or {}).get("loadBalancer") or {}).get(
        "ingress"
    ) or []
    host = next((row.get("ip") or row.get("hostname") for row in ingress), "")
    ports = service["spec"].get("ports") or [{}]
    return f"http://{host}:{ports[0].get('port')}" if host else ""


def _by_node(service: Raw, node: Callable[[], str]) -> str:
    ports = service["spec"].get("ports") or [{}]
    port = ports[0].get("nodePort")
    return f"http://{host}:{port}" if port and (host := node()) else ""


def _node(client: BlockingClient, cluster: Cluster) -> str:
    """An address at which node ports answer."""
    if cluster.local:
        return "127.0.0.1"  # where the daemon listens for them, and nowhere else
    try:
        nodes = client.list(NODES).items
    except Forbidden:
        return ""
    ready = [node for node in nodes if is_true(node.status.conditions, "Ready")]
    addresses = [one for node in ready for one in node.status.addresses]
    return next((one.address for one in addresses if one.type == "InternalIP"), "")
