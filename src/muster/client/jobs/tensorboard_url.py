"""Where a job's TensorBoard can be opened: read from the Service that goes with it.

Used by `get`, `list -o json` and `open`. Nothing here asks TensorBoard itself; whether it runs is
what its pod says. A port of the nodes answers at each of them: the pod's own is the one that a
person may know of who may not list nodes.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from muster.api.kinds import NODES, PODS, SERVICES
from muster.api.meta import Key, Raw, condition_is_true, key_of
from muster.errors import Forbidden, NotFound
from muster.jobs import names, pod_status
from muster.jobs.summary import instance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.api.core import Pod
    from muster.client.target import Cluster
    from muster.kube.blocking_client import BlockingClient

INSTALL = "pip install 'muster-train[tensorboard]'"
_RAW = SERVICES.read_as(dict)
_ROLE = ",".join(f"{key}={value}" for key, value in names.TENSORBOARD_LABEL.items())


class TensorBoard(NamedTuple):
    """A job's TensorBoard."""

    url: str
    """The address for a browser; empty if it is not known."""
    trouble: str
    """Why it does not answer there, or has no address; empty if it should answer."""


def of_job(client: BlockingClient, cluster: Cluster, job: Key) -> TensorBoard | None:
    """The job's TensorBoard; None if it has none."""
    try:
        service = client.get(_RAW, Key(job.namespace, names.tensorboard(job.name)))
    except NotFound:
        return None
    pods = _pods(client, job.namespace, f"release={job.name},{_ROLE}")
    hosts = _Hosts(client, cluster)
    url = _url(service, pods or (), hosts)
    if not url:
        return TensorBoard("", hosts.trouble or "its Service has no port outside the cluster")
    return TensorBoard(url, "" if pods is None else _trouble(pods, local=cluster.local))


def by_service(client: BlockingClient, cluster: Cluster, namespace: str) -> dict[Key, str]:
    """The address of every TensorBoard in a namespace or in all, by the key of its Service."""
    try:
        services = client.list(_RAW, namespace, labels=_ROLE).items
    except Forbidden:
        return {}
    pods: dict[Key, list[Pod]] = {}
    for pod in (_pods(client, namespace, _ROLE) or ()) if services else ():
        name = names.tensorboard(pod.metadata.labels.get("release", ""))
        pods.setdefault(Key(pod.metadata.namespace, name), []).append(pod)
    hosts = _Hosts(client, cluster)
    return {key: _url(row, pods.get(key, ()), hosts) for row in services for key in (key_of(row),)}


def _pods(client: BlockingClient, namespace: str, labels: str) -> list[Pod] | None:
    """None where they may not be listed."""
    try:
        return client.list(PODS, namespace, labels=labels).items
    except Forbidden:
        return None


def _trouble(pods: Sequence[Pod], *, local: bool) -> str:
    if any(condition_is_true(pod.status.conditions, "Ready") for pod in pods):
        return ""
    if not pods:
        return "it has no pod yet"
    return _pod_trouble(pods[-1], local=local)


def _pod_trouble(pod: Pod, *, local: bool) -> str:
    row = instance(pod)
    why = row.reason or (pod_status.failure(pod) if row.restarts else "")
    said = why if why.startswith(row.status) else f"{row.status}: {why}" if why else row.status
    mend = f"; if it is not installed: {INSTALL}" if local and row.restarts else ""
    return said + mend


def _url(service: Raw, pods: Sequence[Pod], hosts: _Hosts) -> str:
    ingress: list[dict[str, Any]] = ((service.get("status") or {}).get("loadBalancer") or {}).get(
        "ingress"
    ) or []
    port = (service["spec"].get("ports") or [{}])[0]
    if balanced := next((row.get("ip") or row.get("hostname") for row in ingress), ""):
        return f"http://{balanced}:{port.get('port')}"
    if not port.get("nodePort"):
        return ""
    host = hosts.of(pods)
    return f"http://{host}:{port['nodePort']}" if host else ""


class _Hosts:
    """Where ports of the nodes answer; nodes are asked for at most once, and only if need be."""

    def __init__(self, client: BlockingClient, cluster: Cluster) -> None:
        self._client, self._local = client, cluster.local
        self.trouble = ""
        """Why there is none, once that was found out."""

    def of(self, pods: Sequence[Pod]) -> str:
        """An address for what these pods serve."""
        if self._local:
            return "127.0.0.1"  # where the daemon listens for them, and nowhere else
        return next((pod.status.host_ip for pod in pods if pod.status.host_ip), "") or self._any

    @cached_property
    def _any(self) -> str:
        try:
            nodes = self._client.list(NODES).items
        except Forbidden:
            self.trouble = "it has no node yet, and you may not list others"
            return ""
        ready = [node for node in nodes if condition_is_true(node.status.conditions, "Ready")]
        known = [one for node in ready for one in node.status.addresses if one.address]
        known.sort(key=lambda one: one.type != "InternalIP")
        if not known:
            self.trouble = "no node that is ready has an address"
        return known[0].address if known else ""
