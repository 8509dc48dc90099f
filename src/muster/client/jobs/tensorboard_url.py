"""The address of a job's TensorBoard, read from its Service, and why it does not answer.

TensorBoard itself is not contacted: its pod says whether it runs. A node port answers on every
node. The node of the pod is preferred: the pod's status has its address, so that the user need not
be allowed to list nodes.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from kubekit.objects.kinds import NODES, PODS, SERVICES
from kubekit.objects.meta import Key, Raw, condition_is_true, key_of
from kubekit.request_errors import Forbidden
from muster.jobs import names, pod_status
from muster.jobs.view.instance import instance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.core import Pod

_RAW = SERVICES.read_as(dict)
_ROLE = ",".join(f"{key}={value}" for key, value in names.TENSORBOARD_LABEL.items())


class TensorBoard(NamedTuple):
    """A job's TensorBoard."""

    url: str
    """The address for a browser; empty if it is not known."""
    problem: str
    """Why it does not answer there, or has no address; empty if it should answer."""


def of_job(client: BlockingClient, job: Key, *, local: bool) -> TensorBoard | None:
    """The job's TensorBoard; None if it has none. `local`: the cluster runs on this machine."""
    service = client.find(_RAW, Key(job.namespace, names.tensorboard(job.name)))
    if service is None:
        return None
    pods = _pods(client, job.namespace, f"release={job.name},{_ROLE}")
    hosts = _Hosts(client, local=local)
    url = _url(service, pods or (), hosts)
    if not url:
        return TensorBoard("", hosts.problem or "its Service has no port outside the cluster")
    return TensorBoard(url, "" if pods is None else _problem(pods))


def by_service(client: BlockingClient, namespace: str, *, local: bool) -> dict[Key, TensorBoard]:
    """The TensorBoards of a namespace or of all, by their Service; problems are not looked for."""
    try:
        services = client.list(_RAW, namespace, labels=_ROLE).items
    except Forbidden:
        return {}
    pods: dict[Key, list[Pod]] = {}
    for pod in (_pods(client, namespace, _ROLE) or ()) if services else ():
        name = names.tensorboard(pod.metadata.labels.get("release", ""))
        pods.setdefault(Key(pod.metadata.namespace, name), []).append(pod)
    hosts = _Hosts(client, local=local)
    by_key = {key_of(service): service for service in services}
    return {
        key: TensorBoard(_url(service, pods.get(key, ()), hosts), "")
        for key, service in by_key.items()
    }


def _pods(client: BlockingClient, namespace: str, labels: str) -> list[Pod] | None:
    """The pods with these labels; None if the user may not list pods."""
    try:
        return client.list(PODS, namespace, labels=labels).items
    except Forbidden:
        return None


def _problem(pods: Sequence[Pod]) -> str:
    if any(condition_is_true(pod.status.conditions, "Ready") for pod in pods):
        return ""
    if not pods:
        return "it has no pod yet"
    row = instance(pods[-1])
    if row.status == "Running":
        return "it has started and is loading"
    reason = row.reason or (pod_status.failure(pods[-1]) if row.restarts else "")
    if not reason.startswith(row.status):
        reason = f"{row.status}: {reason}" if reason else row.status
    return reason


def _url(service: Raw, pods: Sequence[Pod], hosts: _Hosts) -> str:
    ingress: list[dict[str, Any]] = ((service.get("status") or {}).get("loadBalancer") or {}).get(
        "ingress"
    ) or []
    port = (service["spec"].get("ports") or [{}])[0]
    if address := next((row.get("ip") or row.get("hostname") for row in ingress), ""):
        return f"http://{address}:{port.get('port')}"
    if not port.get("nodePort"):
        return ""
    host = hosts.of(pods)
    return f"http://{host}:{port['nodePort']}" if host else ""


class _Hosts:
    """Addresses where node ports answer; nodes are listed at most once, and only if needed."""

    def __init__(self, client: BlockingClient, *, local: bool) -> None:
        self._client, self._local = client, local
        self.problem = ""
        """Why there is no address; set when none was found."""

    def of(self, pods: Sequence[Pod]) -> str:
        """An address for a node port that these pods serve."""
        if self._local:
            return "127.0.0.1"  # the daemon listens for node ports there only
        return next((pod.status.host_ip for pod in pods if pod.status.host_ip), "") or self._any

    @cached_property
    def _any(self) -> str:
        try:
            nodes = self._client.list(NODES).items
        except Forbidden:
            self.problem = "it has no node yet, and you may not list others"
            return ""
        ready = [node for node in nodes if condition_is_true(node.status.conditions, "Ready")]
        addresses = [row for node in ready for row in node.status.addresses if row.address]
        addresses.sort(key=lambda row: row.type != "InternalIP")
        if not addresses:
            self.problem = "no ready node has an address"
        return addresses[0].address if addresses else ""
