"""Resources of pods, nodes and jobs: used as metrics.k8s.io measures it, requested as specs say.

Without a metrics server the used amount is unknown (None); requested and allocatable amounts are
always known. Only a local cluster may have limits that it does not enforce.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubekit.objects import enforced_limits
from kubekit.objects.kinds import NODES, PODS, Kind
from kubekit.objects.meta import Key, Object, ObjectMeta, Raw, find_condition
from kubekit.objects.quantity import parse_milli, parse_whole, sum_resources
from kubekit.objects.status_column import status_column
from kubekit.request_errors import Forbidden, NotFound, ServerError
from muster.client import Notify, ignore
from muster.client.jobs import lookup
from muster.client.jobs.instances import named_instance
from muster.jobs.names import GPU_RESOURCES
from muster.jobs.view.instance import gpus
from muster.jobs.view.summary import JobSummary, limited_resources

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.core import Node, Pod

_ROLE = "node-role.kubernetes.io/"


class _Measured(Object, frozen=True):
    usage: dict[str, str | int | float] = {}


class Metrics(Object, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    usage: dict[str, str | int | float] = {}
    containers: tuple[_Measured, ...] = ()


_GPU, _GPU_MEMORY = "nvidia.com/gpu", "nvidia.com/gpu-memory"
_GROUP = ("metrics.k8s.io", "v1beta1")
POD_METRICS = Kind(*_GROUP, "pods", "PodMetrics", Metrics)
NODE_METRICS = Kind(*_GROUP, "nodes", "NodeMetrics", Metrics, namespaced=False)


@dataclass(frozen=True)
class Amount:
    """CPU in thousandths, memory in bytes, GPUs; the use of GPUs only where it is measured."""

    cpu: int = 0
    memory: int = 0
    gpus: int = 0
    gpu_load: int | None = None
    """Thousandths of GPUs that are busy."""
    gpu_memory: int | None = None
    """Bytes."""


def read_usage(client: BlockingClient, kind: Kind[Metrics], namespace: str) -> dict[Key, Amount]:
    """The amounts used now; empty if nothing is measured or the user may not read it."""
    try:
        rows = client.list(kind, namespace).items
    except (NotFound, Forbidden, ServerError):
        return {}
    return {row.metadata.key: amount_used(row) for row in rows}


def amount_used(row: Metrics) -> Amount:
    # NodeMetrics have one usage, PodMetrics one per container.
    parts = [row.usage, *(container.usage for container in row.containers)]
    return Amount(
        sum(parse_milli(part.get("cpu", 0)) for part in parts),
        sum(parse_whole(part.get("memory", 0)) for part in parts),
        gpu_load=_sum(parse_milli(part[_GPU]) for part in parts if _GPU in part),
        gpu_memory=_sum(parse_whole(part[_GPU_MEMORY]) for part in parts if _GPU_MEMORY in part),
    )


def requests_of(pod: Pod) -> Amount:
    """The requests of the pod's containers; a limit without a request counts as the request."""
    sums = sum_resources(
        {**container.resources.limits, **container.resources.requests}
        for container in pod.spec.containers
    )
    return Amount(sums.get("cpu", 0), sums.get("memory", 0), gpus(pod))


def allocatable(node: Node) -> Amount:
    """The amounts that a node has for pods."""
    amounts = node.status.allocatable
    return Amount(
        parse_milli(amounts.get("cpu", 0)),
        parse_whole(amounts.get("memory", 0)),
        sum(parse_whole(amounts.get(name, 0)) for name in GPU_RESOURCES),
    )


def sum_amounts(amounts: Iterable[Amount]) -> Amount:
    # GPU use is None where it is not measured: the sum counts the known amounts only.
    columns = zip(*(astuple(amount) for amount in (Amount(), *amounts)), strict=True)
    cpu, memory, gpus, *gpu_use = (_sum(value for value in c if value is not None) for c in columns)
    return Amount(cpu or 0, memory or 0, gpus or 0, *gpu_use)


def _sum(amounts: Iterable[int]) -> int | None:
    """The sum; None if there are no amounts."""
    known = list(amounts)
    return sum(known) if known else None


@dataclass(frozen=True)
class PodUsage:
    """One pod on a node."""

    namespace: str
    name: str
    status: str
    requested: Amount


@dataclass(frozen=True)
class NodeUsage:
    """One node: its total, allocated and used amounts; used is None if it is not measured."""

    name: str
    ip: str
    role: str
    status: str
    total: Amount
    allocated: Amount
    used: Amount | None
    instances: tuple[PodUsage, ...]


def node_usages(client: BlockingClient, names: Sequence[str]) -> list[NodeUsage]:
    """The named nodes, or all nodes; nodes without GPUs come first, as in arena's table."""
    nodes = client.list(NODES).items
    missing = sorted(set(names) - {node.metadata.name for node in nodes})
    if missing:
        raise NotFound(
            f"there is no node named {', '.join(missing)}",
            hint="`arena top node` lists the nodes.",
        )
    selected_nodes = [node for node in nodes if not names or node.metadata.name in names]
    used = read_usage(client, NODE_METRICS, "")
    pods_by_node: dict[str, list[Pod]] = {}
    for pod in client.list(PODS).items:
        if not pod.finished:  # a finished pod holds no resources any more
            pods_by_node.setdefault(pod.spec.node_name, []).append(pod)
    usages = [
        _node_usage(node, pods_by_node.get(node.metadata.name, []), used) for node in selected_nodes
    ]
    return sorted(usages, key=lambda use: (use.total.gpus > 0, use.name))


def _node_usage(node: Node, pods: Iterable[Pod], used: dict[Key, Amount]) -> NodeUsage:
    name, labels = node.metadata.name, sorted(node.metadata.labels)
    roles = [label.removeprefix(_ROLE) for label in labels if label.startswith(_ROLE)]
    rows = [
        PodUsage(*pod.metadata.key, status_column(pod), requests_of(pod))
        for pod in sorted(pods, key=lambda pod: pod.metadata.key)
    ]
    return NodeUsage(
        name=name,
        ip=next((row.address for row in node.status.addresses), "N/A"),
        role=",".join(roles) or node.metadata.labels.get("kubernetes.io/role", "<none>"),
        status=_status(node),
        total=allocatable(node),
        allocated=sum_amounts(row.requested for row in rows),
        used=used.get(Key("", name)),
        instances=tuple(rows),
    )


def _status(node: Node) -> str:
    ready = find_condition(node.status.conditions, "Ready")
    words = {"True": "Ready", "False": "NotReady"}
    word = words.get(ready.status, "Unknown") if ready is not None else "Unknown"
    return f"{word},SchedulingDisabled" if node.spec.unschedulable else word


@dataclass(frozen=True)
class JobUsage:
    """A job, and the amounts that its pods use, as far as they are measured."""

    job: JobSummary
    used: dict[str, Amount]
    now: datetime

    @property
    def sum(self) -> Amount | None:
        return sum_amounts(self.used.values()) if self.used else None

    def only(self, name: str) -> JobUsage:
        """The usage of the named instance alone; unchanged if the name is empty."""
        if not name:
            return self
        instance = named_instance(self.job, name)
        used = {key: amount for key, amount in self.used.items() if key == instance.name}
        return JobUsage(replace(self.job, instances=(instance,)), used, self.now)


def job_usages(
    client: BlockingClient, namespace: str, type_: str, now: datetime, notify: Notify = ignore
) -> list[JobUsage]:
    """Every job; jobs that request most GPUs come first."""
    jobs = lookup.list_jobs(client, namespace, type_, notify, now=now)
    used = read_usage(client, POD_METRICS, namespace) if jobs else {}
    return [
        JobUsage(job, _usage_of_pods(job, used), now)
        for job in sorted(jobs, key=lambda job: -job.requested_gpus)
    ]


def job_usage(client: BlockingClient, job: Key, type_: str, now: datetime) -> JobUsage:
    """One job."""
    summary = lookup.get_summary(client, job, type_, now)
    used = read_usage(client, POD_METRICS, job.namespace)
    return JobUsage(summary, _usage_of_pods(summary, used), now)


def _usage_of_pods(job: JobSummary, used: dict[Key, Amount]) -> dict[str, Amount]:
    keys = (Key(job.namespace, row.name) for row in job.instances)
    return {key.name: used[key] for key in keys if key in used}


def unenforced_limits(client: BlockingClient, job: Raw, *, local: bool) -> dict[str, str]:
    """The resources that the job limits and the cluster does not, and why not.

    Costs a request only for a job with limits on the local cluster.
    """
    resources = limited_resources(job) & enforced_limits.ANNOTATIONS.keys() if local else set()
    if not resources:
        return {}
    try:
        nodes = client.list(NODES).items
    except Forbidden:
        return {}  # a user without rights on nodes still submits and sees the job
    published = enforced_limits.enforcement(node.metadata.annotations for node in nodes)
    return enforced_limits.unenforced(published, resources)
