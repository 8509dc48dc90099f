"""The room of a node: its GPUs and CPUs, which pods have them, and what is wrong with the node.

Room that the scheduler holds for members to come is shown twice: as a table, and as cells of nodes.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from kubekit.objects import quantity
from kubekit.objects.meta import find_condition, read_timestamp
from muster.jobs.names import GPU_RESOURCES
from muster.jobs.view.units import cores, count, local_time, named_or_counted, natural_order
from muster.web.views import NOT_SHOWN, row_of
from muster.web.views.owner_colours import GangOwners, Looks, Owner, initials

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kubekit.objects.core import Node
    from muster.contract.waiting_line_format import HeldRoom


LOST, CORDONED, TAINTED = "lost", "cordoned", "tainted"
_CLOSING = ("NoSchedule", "NoExecute")
_OWN_TAINTS = "node.kubernetes.io/"
"""The taints by which Kubernetes repeats a state that the node already shows."""
_PRESSURE = {
    "MemoryPressure": "low on memory",
    "DiskPressure": "low on disk",
    "PIDPressure": "low on processes",
}


class Share(msgspec.Struct):
    """What one owner has, or what is held for it, on one node."""

    owner: Owner
    gpus: int = 0
    cpu: int = 0
    """In thousandths."""
    pods: int = 0
    running: bool = False
    """Whether one of the pods runs."""
    until: str = ""
    """Of held room: the end of the hold."""


class Run(msgspec.Struct, frozen=True):
    """Neighbouring cells of one owner."""

    length: int
    look: str
    """The CSS classes."""
    label: str
    initials: str = ""
    owner: Owner | None = None
    """Of cells that lead to the page of a job."""


class NodeRoom(msgspec.Struct, frozen=True):
    """One node, as the map shows it."""

    name: str
    marks: tuple[str, ...]
    """Words for states in which the node takes no pods, or may not."""
    details: str
    """The taints, and for how long it is lost, as a sentence."""
    gpus: int
    used_gpus: int
    held_gpus: int
    cpu: int
    used_cpu: int
    held_cpu: int
    gpu_runs: tuple[Run, ...]
    cpu_runs: tuple[Run, ...]
    """Lengths in thousandths of a CPU."""
    without_cells: tuple[Run, ...]
    """Jobs whose pods on the node request neither GPUs nor CPUs. Lengths in pods."""

    @property
    def open(self) -> bool:
        """Whether pods without special tolerations may be placed on it."""
        return not {LOST, CORDONED, TAINTED}.intersection(self.marks)

    @property
    def free_gpus(self) -> int:
        """GPUs that a new pod can get."""
        return max(0, self.gpus - self.used_gpus - self.held_gpus) if self.open else 0

    @property
    def cpus(self) -> str:
        return f"{cores(self.used_cpu)} of {cores(self.cpu)}"

    @property
    def has_problem(self) -> bool:
        return any(mark != TAINTED for mark in self.marks)

    @property
    def usage(self) -> str:
        parts = [f"{self.used_gpus} of {count(self.gpus, 'GPU')}"] if self.gpus else []
        parts.append(f"{self.cpus} CPUs used")
        return ", ".join(parts)

    @property
    def summary(self) -> str:
        """The node as one sentence, for tooltips and screen readers."""
        marks = f"; {', '.join(self.marks)}" if self.marks else ""
        return f"{self.name}: {self.usage}{marks}{f': {self.details}' if self.details else ''}"


def node_room(node: Node, used: Iterable[Share], held: Iterable[Share], looks: Looks) -> NodeRoom:
    """The map's view of a node."""
    gpus, cpu = capacity(node)
    used_rows = sorted(used, key=lambda share: (not share.gpus, share.owner))
    held_rows = sorted(held, key=lambda share: share.owner)
    marks, details = _marks(node)
    return NodeRoom(
        name=node.metadata.name,
        marks=marks,
        details=details,
        gpus=gpus,
        used_gpus=sum(share.gpus for share in used_rows),
        held_gpus=sum(share.gpus for share in held_rows),
        cpu=cpu,
        used_cpu=sum(share.cpu for share in used_rows),
        held_cpu=sum(share.cpu for share in held_rows),
        gpu_runs=_runs(used_rows, held_rows, gpus, "GPU", looks),
        cpu_runs=_runs(used_rows, held_rows, cpu, "CPU", looks),
        without_cells=_without_cells(used_rows, looks),
    )


def unknown_room(name: str) -> NodeRoom:
    """The view of a node of which nothing else can be shown."""
    return NodeRoom(name, (LOST,), NOT_SHOWN, 0, 0, 0, 0, 0, 0, (), (), ())


def capacity(node: Node) -> tuple[int, int]:
    """GPUs, and thousandths of CPUs; nonsense counts as none."""
    allocatable = node.status.allocatable
    try:
        gpus = sum(quantity.parse_whole(allocatable[n]) for n in GPU_RESOURCES if n in allocatable)
        return max(0, gpus), max(0, quantity.parse_milli(allocatable.get("cpu", 0)))
    except quantity.InvalidQuantity:
        return 0, 0


def add_requests(share: Share, requests: Mapping[str, int], pods: int = 1) -> None:
    share.gpus += sum(requests[name] for name in GPU_RESOURCES if name in requests)
    share.cpu += requests.get("cpu", 0)
    share.pods += pods


def _marks(node: Node) -> tuple[tuple[str, ...], str]:
    marks, details = [], []
    ready = find_condition(node.status.conditions, "Ready")
    if ready is None or ready.status != "True":
        marks.append(LOST)
        details.append((ready and (ready.message or ready.reason)) or "it has not reported yet")
    if node.spec.unschedulable:
        marks.append(CORDONED)
    taints = [
        f"{taint.key}={taint.value}:{taint.effect}"
        if taint.value
        else f"{taint.key}:{taint.effect}"
        for taint in node.spec.taints
        if taint.effect in _CLOSING and not taint.key.startswith(_OWN_TAINTS)
    ]
    if taints:
        marks.append(TAINTED)
        details.append(", ".join(taints))
    marks += [
        _PRESSURE[condition.type]
        for condition in node.status.conditions
        if condition.type in _PRESSURE and condition.status == "True"
    ]
    return tuple(marks), "; ".join(details)


def _runs(
    used: list[Share], held: list[Share], total: int, unit: str, looks: Looks
) -> tuple[Run, ...]:
    """The cells of a node from left to right: used, held, free. No more than the node has."""
    runs, left = [], total
    for share, is_hold in (*((s, False) for s in used), *((s, True) for s in held)):
        amount = share.gpus if unit == "GPU" else share.cpu
        length = min(amount, left)
        if length <= 0:
            continue
        left -= length
        owner = share.owner
        runs.append(
            Run(
                length,
                f"{looks.of(owner)} held" if is_hold else looks.of(owner),
                _label(share, amount, unit, is_hold=is_hold),
                initials(owner.name),
                owner if owner.is_job else None,
            )
        )
    if left:
        runs.append(Run(left, "free", f"{_amount(left, unit)} free"))
    return tuple(runs)


def _without_cells(used: Iterable[Share], looks: Looks) -> tuple[Run, ...]:
    return tuple(
        Run(
            share.pods,
            looks.of(owner),
            f"{owner.kind} {owner.namespace}/{owner.name}: {count(share.pods, 'pod')} "
            "without requests",
            initials(owner.name),
            owner,
        )
        for share in used
        if (owner := share.owner).is_job and not share.gpus and not share.cpu
    )


def _label(share: Share, amount: int, unit: str, *, is_hold: bool) -> str:
    owner = share.owner
    name = f"{owner.namespace}/{owner.name}"
    if is_hold:
        return f"{_amount(amount, unit)} held for {name} until {share.until}"
    kind = owner.kind or "gang"
    pods = "" if owner.kind == "Pod" else f", {count(share.pods, 'pod')}"
    return f"{kind} {name}: {_amount(amount, unit)}{pods}"


def _amount(amount: int, unit: str) -> str:
    if unit == "GPU":
        return count(amount, unit)
    return f"{cores(amount)} CPU{'' if amount == 1000 else 's'}"


class HoldRow(msgspec.Struct, frozen=True):
    """All room that is held for one gang."""

    owner: Owner
    look: str
    initials: str
    pods: int
    amounts: str
    nodes: str
    until: datetime | None


def shares_by_node(holds: Iterable[HeldRoom], owners: GangOwners) -> dict[str, list[Share]]:
    """By node, the room that is held there."""
    held: dict[str, list[Share]] = {}
    for row in holds:
        with row_of(row.gang):
            until = local_time(read_timestamp(row.until)).partition(" ")[2]
            share = Share(owners.of(row.dialect, row.gang), until=until)
            add_requests(share, _parsed(row), row.pods)
            held.setdefault(row.node, []).append(share)
    return held


def hold_rows(holds: Iterable[HeldRoom], owners: GangOwners, looks: Looks) -> tuple[HoldRow, ...]:
    """One row per gang; those that end first come first."""
    by_gang: dict[tuple[str, str], list[HeldRoom]] = {}
    for row in holds:
        by_gang.setdefault((row.dialect, row.gang), []).append(row)
    rows: list[HoldRow] = []
    for gang, held in by_gang.items():
        with row_of(gang):
            rows.append(_hold_row(owners.of(*gang), held, looks))
    never = datetime.max.replace(tzinfo=UTC)
    return tuple(sorted(rows, key=lambda row: (row.until or never, row.owner)))


def _hold_row(owner: Owner, held: list[HeldRoom], looks: Looks) -> HoldRow:
    sums = Counter[str]()
    for row in held:
        sums.update(_parsed(row))
    nodes = sorted({row.node for row in held}, key=natural_order)
    return HoldRow(
        owner=owner,
        look=looks.of(owner),
        initials=initials(owner.name),
        pods=sum(row.pods for row in held),
        amounts=amounts(sums),
        nodes=named_or_counted(nodes, "node"),
        until=max(filter(None, (read_timestamp(row.until) for row in held)), default=None),
    )


def amounts(resources: dict[str, int]) -> str:
    """`2 nvidia.com/gpu, 500m cpu`; devices first, since they are what people wait for."""
    names = sorted(resources, key=lambda name: ("/" not in name, name))
    return ", ".join(f"{quantity.format_amount(name, resources[name])} {name}" for name in names)


def _parsed(row: HeldRoom) -> dict[str, int]:
    """The amounts of a row; nonsense counts as none."""
    try:
        return {name: quantity.parse_amount(name, amount) for name, amount in row.requests.items()}
    except quantity.InvalidQuantity:
        return {}
