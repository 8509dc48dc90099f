"""The cluster as a map: every node with its cells, grouped, and the numbers above it.

A small cluster is drawn large, with the name of each node and letters in each cell; a big one as a
compact grid, in groups of a topology label, or of the beginning of the nodes' names.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from muster.jobs.view.units import cores, natural_order
from muster.web.views import guarded, row_of
from muster.web.views.line import LineRow, PublishedLine, line_rows
from muster.web.views.node_room import (
    NodeRoom,
    Share,
    add_requests,
    node_room,
    shares_by_node,
    unknown_room,
)
from muster.web.views.owner_colours import GangOwners, Looks, Owner, initials, owner_of, requests_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from kubekit.objects.core import Node, Pod

LARGE_UP_TO = 32
"""Nodes that are drawn large."""
MAX_NODES, MAX_LEGEND, MAX_WAITING = 2000, 24, 3
"""Bounds of the page: nodes on the map, jobs in the legend, waiting gangs beside it."""
BY_NAME = "name"
_TOPOLOGY = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_FURTHER = ("node.kubernetes.io/instance-type", "kubernetes.io/arch")
_NUMBERS = re.compile(r"[-._]?\d+(?=\D*$).*$")


class MapQuery(msgspec.Struct, frozen=True):
    """The choice of a reader: the variables of the address."""

    show: str = ""
    """`free`, `problems`, or empty for all nodes."""
    text: str = ""
    group: str = ""
    """A label of nodes, or `name`; empty for the best one."""

    @classmethod
    def read(cls, variables: Mapping[str, str]) -> MapQuery:
        """From an address; values that make no sense count as not given."""
        show = variables.get("show", "")
        return cls(
            show=show if show in ("free", "problems") else "",
            text=variables.get("text", "").strip()[:200],
            group=variables.get("group", "")[:320],
        )

    def variables(self, **changed: str) -> dict[str, str]:
        return {**msgspec.structs.asdict(self), **changed}


class Numbers(msgspec.Struct, frozen=True):
    """The counts above the map."""

    nodes: int
    problem_nodes: int
    nodes_with_free_gpus: int
    gpus: int
    used_gpus: int
    held_gpus: int
    free_gpus: int
    """GPUs of nodes that take pods."""
    closed_gpus: int
    """GPUs that nobody has, of nodes that take no pods."""
    cpus: str
    used_cpus: str
    held_cpus: str
    cpu_percent: int
    running: int
    waiting: int


class NodeGroup(msgspec.Struct, frozen=True):
    name: str
    nodes: tuple[NodeRoom, ...]


class LegendRow(msgspec.Struct, frozen=True):
    """One job on the map."""

    owner: Owner
    look: str
    initials: str
    gpus: int
    cpus: str
    pods: int


class ClusterMap(msgspec.Struct, frozen=True):
    query: MapQuery
    numbers: Numbers
    groups: tuple[NodeGroup, ...]
    matching: int
    """Nodes that the filter lets through."""
    left_out: int
    """Of these, nodes beyond the bound."""
    large: bool
    grouping: str
    """The label by which nodes are grouped, or `name`."""
    groupings: tuple[str, ...]
    legend: tuple[LegendRow, ...]
    more_jobs: int
    others: int
    """Pods on nodes that belong to no job."""
    waiting: tuple[LineRow, ...]


def cluster_map(
    nodes: Sequence[Node],
    pods: Sequence[Pod],
    line: PublishedLine,
    query: MapQuery,
    looks: Looks,
    now: datetime,
) -> ClusterMap:
    """The map and everything around it."""
    owners = GangOwners(pods)
    used, held = _used(pods), shares_by_node(line.holds, owners)
    rooms = {
        name: guarded(
            partial(node_room, node, used.get(name, {}).values(), held.get(name, ()), looks),
            partial(unknown_room, name),
            name,
        )
        for node in nodes
        for name in (node.metadata.name,)
    }
    shares = (share for by_owner in used.values() for share in by_owner.values())
    running = {share.owner for share in shares if share.running and share.owner.is_job}
    rows = line_rows(line, owners, looks, now)
    legend, others = _legend(used, looks)
    matching = _filtered(nodes, rooms, query)
    groupings = _groupings(nodes)
    grouping = query.group if query.group in groupings else groupings[0]
    return ClusterMap(
        query=query,
        numbers=_numbers(rooms.values(), len(running), len(rows)),
        groups=_grouped(matching[:MAX_NODES], rooms, grouping),
        matching=len(matching),
        left_out=max(0, len(matching) - MAX_NODES),
        large=len(matching) <= LARGE_UP_TO,
        grouping=grouping,
        groupings=groupings,
        legend=tuple(legend[:MAX_LEGEND]),
        more_jobs=max(0, len(legend) - MAX_LEGEND),
        others=others,
        waiting=rows[:MAX_WAITING],
    )


def _used(pods: Iterable[Pod]) -> dict[str, dict[Owner, Share]]:
    """By node, the shares of those whose pods are on it."""
    used: dict[str, dict[Owner, Share]] = {}
    for pod in pods:
        node = pod.spec.node_name
        if not node or pod.finished:
            continue
        with row_of(pod.metadata.name):
            owner = owner_of(pod)
            shares = used.setdefault(node, {})
            share = shares.get(owner)
            if share is None:
                share = shares[owner] = Share(owner)
            add_requests(share, requests_of(pod))
            share.running = share.running or pod.status.phase == "Running"
    return used


def _legend(used: Mapping[str, Mapping[Owner, Share]], looks: Looks) -> tuple[list[LegendRow], int]:
    """The jobs on nodes, those with the most room first, and the number of other pods."""
    sums: dict[Owner, Share] = {}
    for shares in used.values():
        for owner, share in shares.items():
            total = sums.setdefault(owner, Share(owner))
            total.gpus += share.gpus
            total.cpu += share.cpu
            total.pods += share.pods
    jobs = sorted(
        (share for share in sums.values() if share.owner.is_job),
        key=lambda share: (-share.gpus, -share.cpu, share.owner),
    )
    rows = [
        LegendRow(
            share.owner,
            looks.of(share.owner),
            initials(share.owner.name),
            share.gpus,
            cores(share.cpu),
            share.pods,
        )
        for share in jobs
    ]
    return rows, sum(share.pods for share in sums.values() if not share.owner.is_job)


def _numbers(rooms: Iterable[NodeRoom], running: int, waiting: int) -> Numbers:
    rooms = tuple(rooms)
    cpu, used_cpu = sum(room.cpu for room in rooms), sum(room.used_cpu for room in rooms)
    gpus, used = sum(room.gpus for room in rooms), sum(room.used_gpus for room in rooms)
    held, free = sum(room.held_gpus for room in rooms), [room.free_gpus for room in rooms]
    return Numbers(
        nodes=len(rooms),
        problem_nodes=sum(room.has_problem for room in rooms),
        nodes_with_free_gpus=sum(map(bool, free)),
        gpus=gpus,
        used_gpus=used,
        held_gpus=held,
        free_gpus=sum(free),
        closed_gpus=max(0, gpus - used - held - sum(free)),
        cpus=_cpus(cpu),
        used_cpus=_cpus(used_cpu),
        held_cpus=_cpus(sum(room.held_cpu for room in rooms)),
        cpu_percent=round(100 * used_cpu / cpu) if cpu else 0,
        running=running,
        waiting=waiting,
    )


def _cpus(milli: int) -> str:
    return cores(milli) if milli < 100_000 else f"{round(milli / 1000):,}"


def _filtered(nodes: Iterable[Node], rooms: Mapping[str, NodeRoom], query: MapQuery) -> list[Node]:
    """The nodes that match, in the order of their names, with numbers as numbers."""
    text = query.text.lower()
    matching = []
    for node in nodes:
        room = rooms[node.metadata.name]
        if query.show == "free" and not room.free_gpus:
            continue
        if query.show == "problems" and not room.has_problem:
            continue
        if not text or _matches(room, text):
            matching.append(node)
    matching.sort(key=lambda node: natural_order(node.metadata.name))
    return matching


def _matches(room: NodeRoom, text: str) -> bool:
    """Whether the text is in the name of the node, or of somebody on it."""
    runs = (*room.gpu_runs, *room.cpu_runs, *room.without_cells)
    return text in room.name.lower() or any(text in run.label.lower() for run in runs)


def _groupings(nodes: Sequence[Node]) -> tuple[str, ...]:
    """The labels that divide the nodes into groups, the best first; the names do always."""
    values: dict[str, Counter[str]] = {}
    for node in nodes:
        for label, value in node.metadata.labels.items():
            if label in _FURTHER or "topology" in label or label.endswith(("rack", "zone", "pool")):
                values.setdefault(label, Counter())[value] += 1
    # A label with a value per node divides nothing.
    useful = {
        label for label, counts in values.items() if 1 < len(counts) <= max(2, len(nodes) // 2)
    }
    first = [label for label in _TOPOLOGY if label in useful]
    last = [label for label in _FURTHER if label in useful]
    middle = sorted(useful.difference(first, last))
    return (*first, *middle, BY_NAME, *last)


def _grouped(
    nodes: Iterable[Node], rooms: Mapping[str, NodeRoom], grouping: str
) -> tuple[NodeGroup, ...]:
    groups: dict[str, list[NodeRoom]] = {}
    for node in nodes:
        name = node.metadata.name
        labels = node.metadata.labels
        group = _NUMBERS.sub("", name) if grouping == BY_NAME else labels.get(grouping, "")
        groups.setdefault(group, []).append(rooms[name])
    if grouping == BY_NAME and len(groups) > max(1, sum(map(len, groups.values())) // 4):
        members = [room for rooms_of_group in groups.values() for room in rooms_of_group]
        groups = {"": members}  # the names have no common beginnings
    ordered = sorted(groups.items(), key=lambda row: (not row[0], natural_order(row[0])))
    return tuple(NodeGroup(name, tuple(members)) for name, members in ordered)
