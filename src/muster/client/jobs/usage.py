"""What pods and nodes use and have: measured by metrics.k8s.io, counted from specs.

Read by `top`. A cluster without a metrics server measures nothing: then what is used is unknown
(None), while what was asked for and what there is are still told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from muster.api.kinds import Kind
from muster.api.meta import Key, Object, ObjectMeta
from muster.api.quantity import parse_milli, parse_whole, sum_resources
from muster.cli.show.units import cores, memory
from muster.errors import Forbidden, NotFound, ServerError
from muster.jobs.summary import GPUS, gpus

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from muster.api.core import Node, Pod, Quantity
    from muster.kube.blocking_client import BlockingClient


class _Measured(Object, frozen=True):
    usage: dict[str, str | int | float] = {}


class _Metrics(Object, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    usage: dict[str, str | int | float] = {}
    containers: tuple[_Measured, ...] = ()


_GROUP = ("metrics.k8s.io", "v1beta1")
POD_METRICS = Kind(*_GROUP, "pods", "PodMetrics", _Metrics)
NODE_METRICS = Kind(*_GROUP, "nodes", "NodeMetrics", _Metrics, namespaced=False)
UNKNOWN = "N/A"


class Amount(NamedTuple):
    """CPU in thousandths, memory in bytes, GPUs."""

    cpu: int = 0
    memory: int = 0
    gpus: int = 0


def measured(client: BlockingClient, kind: Kind[_Metrics], namespace: str) -> dict[Key, Amount]:
    """Who uses how much now; empty where nobody measures or we may not read it."""
    try:
        rows = client.list(kind, namespace).items
    except (NotFound, Forbidden, ServerError):
        return {}
    return {row.metadata.key: _used(row) for row in rows}


def _used(row: _Metrics) -> Amount:
    parts = [row.usage, *(container.usage for container in row.containers)]
    return Amount(
        sum(parse_milli(part.get("cpu", 0)) for part in parts),
        sum(parse_whole(part.get("memory", 0)) for part in parts),
    )


def asked(pod: Pod) -> Amount:
    """What the pod's containers ask for; a limit without a request is one."""
    sums = sum_resources(
        {**container.resources.limits, **container.resources.requests}
        for container in pod.spec.containers
    )
    return Amount(sums.get("cpu", 0), sums.get("memory", 0), gpus(pod))


def allocatable(node: Node) -> Amount:
    """What a node has for pods."""
    has = node.status.allocatable
    return Amount(parse_milli(has.get("cpu", 0)), parse_whole(has.get("memory", 0)), _gpus(has))


def _gpus(has: Mapping[str, Quantity]) -> int:
    return sum(parse_whole(has.get(name, 0)) for name in GPUS)


def sum_amounts(amounts: Iterable[Amount]) -> Amount:
    return Amount(*map(sum, zip(Amount(), *amounts, strict=True)))


def format_cpu(amount: Amount | None) -> str:
    return cores(amount.cpu) if amount is not None else UNKNOWN


def format_memory(amount: Amount | None) -> str:
    return memory(amount.memory) if amount is not None else UNKNOWN
