"""Nodes as `arena top node` shows them: a table, or each with the pods on it.

Jobs as `arena top job` shows them: all in a table, or one with each of its instances.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from muster.api.kinds import NODES, PODS
from muster.api.meta import Key, find_condition
from muster.cli.show import job_details
from muster.cli.show.table import table, underlined_table
from muster.cli.verbs import list as listed
from muster.client.jobs import lookup
from muster.client.jobs.usage import (
    NODE_METRICS,
    POD_METRICS,
    Amount,
    allocatable,
    asked,
    format_cpu,
    format_memory,
    measured,
    sum_amounts,
)
from muster.errors import NotFound, UsageError
from muster.jobs import pod_status
from muster.jobs.summary import RUNNING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from muster.api.core import Node, Pod
    from muster.api.meta import Raw
    from muster.jobs.summary import Instance, JobSummary
    from muster.kube.blocking_client import BlockingClient


NODE_HEADER = (
    "NAME", "IPADDRESS", "ROLE", "STATUS", "GPU(Total)", "GPU(Allocated)",
    "CPU(Used/Requested/Total)", "MEMORY(Used/Requested/Total)",
)  # fmt: skip
_ROLE = "node-role.kubernetes.io/"


@dataclass(frozen=True)
class PodUsage:
    """One pod on a node."""

    namespace: str
    name: str
    status: str
    asked: Amount


@dataclass(frozen=True)
class NodeUsage:
    """One node: what it has, what is given away, and what is used if somebody measures."""

    name: str
    ip: str
    role: str
    status: str
    total: Amount
    allocated: Amount
    used: Amount | None
    instances: tuple[PodUsage, ...]


def node_usages(client: BlockingClient, names: Sequence[str]) -> list[NodeUsage]:
    """Those nodes, or all; nodes without GPUs come first, as in arena's table."""
    nodes = client.list(NODES).items
    missing = sorted(set(names) - {node.metadata.name for node in nodes})
    if missing:
        raise NotFound(
            f"there is no node named {', '.join(missing)}",
            status=404,
            hint="`arena top node` lists those that are there.",
        )
    wanted = [node for node in nodes if not names or node.metadata.name in names]
    used = measured(client, NODE_METRICS, "")
    placed: dict[str, list[Pod]] = {}
    for pod in client.list(PODS).items:
        if pod.spec.node_name and not pod.finished:
            placed.setdefault(pod.spec.node_name, []).append(pod)
    found = [_node_usage(node, placed.get(node.metadata.name, []), used) for node in wanted]
    return sorted(found, key=lambda use: (use.total.gpus > 0, use.name))


def _node_usage(node: Node, pods: Iterable[Pod], used: dict[Key, Amount]) -> NodeUsage:
    name = node.metadata.name
    rows = sorted((_pod_usage(pod) for pod in pods), key=lambda row: (row.namespace, row.name))
    return NodeUsage(
        name=name,
        ip=next((one.address for one in node.status.addresses), "N/A"),
        role=_role(node),
        status=_status(node),
        total=allocatable(node),
        allocated=sum_amounts(row.asked for row in rows),
        used=used.get(Key("", name)),
        instances=tuple(rows),
    )


def _pod_usage(pod: Pod) -> PodUsage:
    key = pod.metadata.key
    return PodUsage(key.namespace, key.name, pod_status.status_column(pod), asked(pod))


def _role(node: Node) -> str:
    labels = node.metadata.labels
    roles = [key.removeprefix(_ROLE) for key in sorted(labels) if key.startswith(_ROLE)]
    return ",".join(roles) or labels.get("kubernetes.io/role", "<none>")


def _status(node: Node) -> str:
    ready = find_condition(node.status.conditions, "Ready")
    words = {"True": "Ready", "False": "NotReady"}
    word = words.get(ready.status, "Unknown") if ready is not None else "Unknown"
    return f"{word},SchedulingDisabled" if node.spec.unschedulable else word


def node_table(nodes: Sequence[NodeUsage]) -> str:
    """The table, and under it the GPUs of the whole cluster."""
    rows = [
        (
            use.name, use.ip, use.role, use.status,
            str(use.total.gpus), str(use.allocated.gpus), _cpu(use), _memory(use),
        )
        for use in nodes
    ]  # fmt: skip
    text = table([NODE_HEADER, *rows])
    given, there = (
        sum(use.allocated.gpus for use in nodes),
        sum(use.total.gpus for use in nodes),
    )
    if not there:
        return text
    share = f"{given}/{there} ({100 * given / there:.1f}%)"
    return f"{text}\n{'-' * 99}\nAllocated/Total GPUs In Cluster:\n{share}"


def node_details(nodes: Sequence[NodeUsage]) -> str:
    """Every node by itself, with its pods."""
    return "\n\n".join(map(_node_detail, nodes))


def _node_detail(use: NodeUsage) -> str:
    facts = [
        ("Name:", use.name),
        ("Status:", use.status),
        ("Role:", use.role),
        ("Address:", use.ip),
        ("CPU:", f"{_cpu(use)} (used/requested/total)"),
        ("Memory:", f"{_memory(use)} (used/requested/total)"),
        ("GPUs:", f"{use.allocated.gpus}/{use.total.gpus} (allocated/total)"),
    ]
    head = ("NAMESPACE", "NAME", "STATUS", "GPU(Requested)", "CPU(Requested)", "MEMORY(Requested)")
    rows = [
        (
            row.namespace, row.name, row.status,
            str(row.asked.gpus), format_cpu(row.asked), format_memory(row.asked),
        )
        for row in use.instances
    ]  # fmt: skip
    return f"{table(facts)}\n\nInstances:\n{underlined_table(head, rows, indent='  ')}"


def _cpu(use: NodeUsage) -> str:
    return "/".join(map(format_cpu, (use.used, use.allocated, use.total)))


def _memory(use: NodeUsage) -> str:
    return "/".join(map(format_memory, (use.used, use.allocated, use.total)))


JOB_HEADER = (
    "NAME", "STATUS", "TRAINER", "AGE", "GPU(Requested)", "GPU(Allocated)", "NODE",
    "CPU(Used)", "MEMORY(Used)",
)  # fmt: skip
INSTANCES = ("NAME", "STATUS", "GPU(Request)", "NODE", "CPU(Used)", "MEMORY(Used)")


@dataclass(frozen=True)
class JobUsage:
    """A job, and what each of its pods uses as far as somebody measures."""

    job: JobSummary
    used: dict[str, Amount]
    now: datetime

    @property
    def sum(self) -> Amount | None:
        return sum_amounts(self.used.values()) if self.used else None

    def only(self, instance: str) -> JobUsage:
        """The same with one instance alone; with all if none is named."""
        if not instance:
            return self
        kept = tuple(row for row in self.job.instances if row.name == instance)
        if not kept:
            raise UsageError(
                f"invalid instance name {instance} in job {self.job.name}",
                hint=f"`arena get {self.job.name}` lists its instances.",
            )
        used = {name: amount for name, amount in self.used.items() if name == instance}
        return JobUsage(replace(self.job, instances=kept), used, self.now)

    def as_data(self) -> Raw:
        data = job_details.as_data(self.job, self.now)
        for row in data["instances"]:
            row["used"] = _data(self.used.get(row["name"]))
        return {**data, "used": _data(self.sum)}


def _data(amount: Amount | None) -> Raw | None:
    return None if amount is None else {"cpu": f"{amount.cpu}m", "memory": amount.memory}


def job_usages(client: BlockingClient, namespace: str, type_: str) -> list[JobUsage]:
    """Every job, those with most GPUs first."""
    jobs = lookup.list_jobs(client, namespace, type_)
    used = measured(client, POD_METRICS, namespace) if jobs else {}
    now = datetime.now(UTC)
    return [
        JobUsage(job, _usage_of_pods(job, used), now)
        for job in sorted(jobs, key=lambda job: -job.requested_gpus)
    ]


def job_usage(client: BlockingClient, namespace: str, name: str, type_: str) -> JobUsage:
    """One job."""
    job = lookup.get_view(client, Key(namespace, name), type_)
    return JobUsage(
        job, _usage_of_pods(job, measured(client, POD_METRICS, namespace)), datetime.now(UTC)
    )


def _usage_of_pods(job: JobSummary, used: dict[Key, Amount]) -> dict[str, Amount]:
    keys = (Key(job.namespace, row.name) for row in job.instances)
    return {key.name: used[key] for key in keys if key in used}


def job_table(jobs: Sequence[JobUsage], *, spaces: bool) -> str:
    """The table, and under it the GPUs of the jobs that run."""
    rows = [JOB_HEADER, *(_job_row(use) for use in jobs)]
    if spaces:
        rows = listed.with_namespaces(rows, [use.job for use in jobs])
    running = [use.job for use in jobs if use.job.status == RUNNING]
    given, wanted = (
        sum(job.allocated_gpus for job in running),
        sum(job.requested_gpus for job in running),
    )
    return f"{table(rows)}\n\nTotal Allocated/Requested GPUs of Training Jobs: {given}/{wanted}"


def _job_row(use: JobUsage) -> tuple[str, ...]:
    return (*listed.row(use.job, use.job.age(use.now)), format_cpu(use.sum), format_memory(use.sum))


def job_detail(use: JobUsage) -> str:
    """The head of `arena get`, then what every instance uses."""
    rows = [_instance_row(row, use.used.get(row.name)) for row in use.job.instances]
    given = f"{use.job.allocated_gpus}/{use.job.requested_gpus}"
    return (
        f"{job_details.header(use.job, use.now)}\n\nInstances:\n"
        f"{underlined_table(INSTANCES, rows, indent='  ')}\n\n"
        f"GPUs:\n  Allocated/Requested GPUs of Job: {given}"
    )


def _instance_row(row: Instance, used: Amount | None) -> tuple[str, ...]:
    node = row.node_ip if row.phase != "Pending" and row.node_ip else "N/A"
    return (row.name, row.status, str(row.gpus), node, format_cpu(used), format_memory(used))
