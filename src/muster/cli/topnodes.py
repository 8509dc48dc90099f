"""Nodes as `arena top node` shows them: a table, or each with the pods on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from muster.api.kinds import NODES, PODS
from muster.api.meta import Key, condition
from muster.cli.output import table, underlined
from muster.cli.usage import (
    NODE_METRICS,
    Amount,
    asked,
    cpu_of,
    had,
    measured,
    memory_of,
    summed,
)
from muster.errors import NotFound
from muster.jobs import column

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from muster.api.core import Node, Pod
    from muster.kube.blocking import BlockingClient

HEADER = (
    "NAME", "IPADDRESS", "ROLE", "STATUS", "GPU(Total)", "GPU(Allocated)",
    "CPU(Used/Requested/Total)", "MEMORY(Used/Requested/Total)",
)  # fmt: skip
_ROLE = "node-role.kubernetes.io/"


@dataclass(frozen=True)
class PodUse:
    """One pod on a node."""

    namespace: str
    name: str
    status: str
    asked: Amount


@dataclass(frozen=True)
class NodeUse:
    """One node: what it has, what is given away, and what is used if somebody measures."""

    name: str
    ip: str
    role: str
    status: str
    total: Amount
    allocated: Amount
    used: Amount | None
    instances: tuple[PodUse, ...]


def uses(client: BlockingClient, names: Sequence[str]) -> list[NodeUse]:
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
    found = [_use(node, placed.get(node.metadata.name, []), used) for node in wanted]
    return sorted(found, key=lambda use: (use.total.gpus > 0, use.name))


def _use(node: Node, pods: Iterable[Pod], used: dict[Key, Amount]) -> NodeUse:
    name = node.metadata.name
    rows = sorted((_pod(pod) for pod in pods), key=lambda row: (row.namespace, row.name))
    return NodeUse(
        name=name,
        ip=next((one.address for one in node.status.addresses), "N/A"),
        role=_role(node),
        status=_status(node),
        total=had(node),
        allocated=summed(row.asked for row in rows),
        used=used.get(Key("", name)),
        instances=tuple(rows),
    )


def _pod(pod: Pod) -> PodUse:
    key = pod.metadata.key
    return PodUse(key.namespace, key.name, column.status(pod), asked(pod))


def _role(node: Node) -> str:
    labels = node.metadata.labels
    roles = [key.removeprefix(_ROLE) for key in sorted(labels) if key.startswith(_ROLE)]
    return ",".join(roles) or labels.get("kubernetes.io/role", "<none>")


def _status(node: Node) -> str:
    ready = condition(node.status.conditions, "Ready")
    words = {"True": "Ready", "False": "NotReady"}
    word = words.get(ready.status, "Unknown") if ready is not None else "Unknown"
    return f"{word},SchedulingDisabled" if node.spec.unschedulable else word


def summary(nodes: Sequence[NodeUse]) -> str:
    """The table, and under it the GPUs of the whole cluster."""
    rows = [
        (
            use.name, use.ip, use.role, use.status,
            str(use.total.gpus), str(use.allocated.gpus), _cpu(use), _memory(use),
        )
        for use in nodes
    ]  # fmt: skip
    text = table([HEADER, *rows])
    given, there = (
        sum(use.allocated.gpus for use in nodes),
        sum(use.total.gpus for use in nodes),
    )
    if not there:
        return text
    share = f"{given}/{there} ({100 * given / there:.1f}%)"
    return f"{text}\n{'-' * 99}\nAllocated/Total GPUs In Cluster:\n{share}"


def details(nodes: Sequence[NodeUse]) -> str:
    """Every node by itself, with its pods."""
    return "\n\n".join(map(_detail, nodes))


def _detail(use: NodeUse) -> str:
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
            str(row.asked.gpus), cpu_of(row.asked), memory_of(row.asked),
        )
        for row in use.instances
    ]  # fmt: skip
    return f"{table(facts)}\n\nInstances:\n{underlined(head, rows, indent='  ')}"


def _cpu(use: NodeUse) -> str:
    return "/".join(map(cpu_of, (use.used, use.allocated, use.total)))


def _memory(use: NodeUse) -> str:
    return "/".join(map(memory_of, (use.used, use.allocated, use.total)))
