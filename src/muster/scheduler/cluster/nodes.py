"""The nodes as columns: free room, readiness, taints and labels, one row number per node.

Rows are in name order, so the first of equals is the first by name and every tie is broken the same
way. Nodes that come or go are collected and merged in one `settle`, which permutes the arrays
instead of rebuilding them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from muster.api.core import Node, Taint
from muster.api.meta import find_condition
from muster.scheduler.cluster.pod_class import PodClasses, Vector, parse_resources

if TYPE_CHECKING:
    from collections.abc import Iterable

Codes = NDArray[np.int32]
Mask = NDArray[np.bool_]

UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
NODE_LOST_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


@dataclass
class LabelColumn:
    """One label over all nodes: `values[codes[row]]` is the row's value; code 0 means none."""

    key: str
    values: list[str | None]
    index: dict[str | None, int]
    codes: Codes
    _distinct: bool | None = None

    def distinct(self) -> bool:
        """Whether every node is a domain of its own, as with host names."""
        if self._distinct is None:
            self._distinct = len(np.unique(self.codes)) == len(self.codes) and 0 not in self.codes
        return self._distinct

    def put(self, row: int, value: str | None) -> None:
        """Write one row."""
        self.codes[row] = self.code(value)
        self._distinct = None

    def code(self, value: str | None) -> int:
        """The code of a value, a new one if it was never seen."""
        found = self.index.get(value)
        if found is None:
            found = self.index[value] = len(self.values)
            self.values.append(value)
        return found


class NodeTable:
    """Rows of nodes. `free` is negative on a node that is over-full or promised to a preemptor."""

    def __init__(self, classes: PodClasses) -> None:
        self.classes = classes
        self.names: list[str] = []
        self.rows: dict[str, int] = {}
        self.nodes: list[Node] = []
        self.allocatable: Vector = np.zeros((len(classes.resources), 0), np.int64)
        self.free: Vector = self.allocatable.copy()
        self.ready: Mask = np.zeros(0, np.bool_)
        self.taints: Codes = np.zeros(0, np.int32)
        self.taint_sets: list[tuple[Taint, ...]] = [()]
        self.version = 0
        self.layout = 0
        self._labels: dict[str, LabelColumn] = {}
        self._waiting: dict[str, Node] = {}
        self._leaving: set[str] = set()

    def __len__(self) -> int:
        return len(self.names)

    def put(self, node: Node) -> None:
        """A node that came or changed."""
        name = node.metadata.name
        row = self.rows.get(name)
        if row is None or name in self._leaving:
            self._waiting[name] = node
        elif self.nodes[row] != node:
            self._write(row, node)

    def drop(self, name: str) -> None:
        """A node that is gone."""
        self._waiting.pop(name, None)
        if name in self.rows:
            self._leaving.add(name)
            self.ready[self.rows[name]] = False
            self.version += 1

    def get(self, name: str) -> Node | None:
        """The node of that name, if it is known."""
        if name in self._waiting:
            return self._waiting[name]
        return (
            None if name in self._leaving or name not in self.rows else self.nodes[self.rows[name]]
        )

    def settle(self) -> list[str]:
        """Merge what came and went; gives the names whose rows are new and so still empty."""
        self.widen()
        if not self._waiting and not self._leaving:
            return []
        stay = [row for row, name in enumerate(self.names) if name not in self._leaving]
        came = sorted(self._waiting)
        merged = [*(self.names[row] for row in stay), *came]
        nodes = [*(self.nodes[row] for row in stay), *(self._waiting[name] for name in came)]
        order = sorted(range(len(merged)), key=merged.__getitem__)
        source = np.array([*stay, *[-1] * len(came)], np.int64)[order]
        self._permute(source)
        self.names = [merged[i] for i in order]
        self.nodes = [nodes[i] for i in order]
        self.rows = {name: row for row, name in enumerate(self.names)}
        self._waiting, self._leaving = {}, set()
        self.layout += 1
        for name in came:
            self._write(self.rows[name], self.nodes[self.rows[name]], fresh=True)
        return came

    def column(self, key: str) -> LabelColumn:
        """The label column of a key, made the first time it is asked for."""
        found = self._labels.get(key)
        if found is None:
            found = LabelColumn(key, [None], {None: 0}, np.zeros(len(self), np.int32))
            for row, node in enumerate(self.nodes):
                found.put(row, node.metadata.labels.get(key))
            self._labels[key] = found
        return found

    def rows_of(self, names: Iterable[str]) -> list[int]:
        """The rows of those nodes that are known."""
        return [self.rows[name] for name in names if name in self.rows]

    def widen(self) -> None:
        more = len(self.classes.resources) - len(self.free)
        if more > 0:
            extra = np.zeros((more, len(self)), np.int64)
            self.allocatable = np.concatenate([self.allocatable, extra])
            self.free = np.concatenate([self.free, extra])

    def _permute(self, source: NDArray[np.int64]) -> None:
        fresh = source < 0
        self.allocatable = np.where(fresh, 0, _take(self.allocatable, source))
        self.free = np.where(fresh, 0, _take(self.free, source))
        self.ready = np.where(fresh, False, _take(self.ready, source))
        self.taints = np.where(fresh, 0, _take(self.taints, source)).astype(np.int32)
        for column in self._labels.values():
            column.codes = np.where(fresh, 0, _take(column.codes, source)).astype(np.int32)

    def _write(self, row: int, node: Node, *, fresh: bool = False) -> None:
        old = self.nodes[row]
        self.nodes[row] = node
        if fresh or old.status.allocatable != node.status.allocatable:
            self._write_room(row, node)
        ready, taints = is_ready(node), taints_of(node)
        same_taints = self.taint_sets[self.taints[row]] == taints
        if fresh or not same_taints or self.ready[row] != ready:
            self.ready[row] = ready
            self.taints[row] = self._taint_code(taints)
            self.version += 1
        if fresh or old.metadata.labels != node.metadata.labels:
            for column in self._labels.values():
                column.put(row, node.metadata.labels.get(column.key))
            self.version += 1

    def _write_room(self, row: int, node: Node) -> None:
        room = {
            self.classes.column(name): n
            for name, n in parse_resources(node.status.allocatable).items()
        }
        self.widen()
        old = self.allocatable[:, row].copy()
        self.allocatable[:, row] = 0
        for column, n in room.items():
            self.allocatable[column, row] = n
        self.free[:, row] += self.allocatable[:, row] - old
        self.version += 1

    def _taint_code(self, taints: tuple[Taint, ...]) -> int:
        if taints not in self.taint_sets:
            self.taint_sets.append(taints)
        return self.taint_sets.index(taints)


def _take(array: NDArray[np.generic], source: NDArray[np.int64]) -> NDArray[np.generic]:
    if array.shape[-1] == 0:
        return np.zeros((*array.shape[:-1], len(source)), array.dtype)
    return array[..., source]


def is_ready(node: Node) -> bool:
    """Whether a pod may be sent there at all, whatever it tolerates.

    Every pod tolerates a lost node for some minutes, because the API server adds that toleration
    so that pods survive a short outage: it is no leave to put new pods there.
    """
    ready = find_condition(node.status.conditions, "Ready")
    lost = any(taint.key in NODE_LOST_TAINTS for taint in node.spec.taints)
    leaving = node.metadata.deletion_timestamp is not None
    return not lost and not leaving and (ready is None or ready.status == "True")


def taints_of(node: Node) -> tuple[Taint, ...]:
    """Its taints, a cordon among them."""
    taints = tuple(node.spec.taints)
    cordoned = node.spec.unschedulable and UNSCHEDULABLE not in taints
    return (*taints, UNSCHEDULABLE) if cordoned else taints


def forbids_scheduling(taint: Taint) -> bool:
    """Whether pods that do not tolerate it may not come; the others only had better not."""
    return taint.effect in ("NoSchedule", "NoExecute")


def is_schedulable(node: Node) -> bool:
    """Whether new pods may be sent there, but for what they must tolerate."""
    return is_ready(node) and not node.spec.unschedulable


def scheduling_fields(node: Node) -> tuple[object, ...]:
    """What of a node decides where pods may go: its heartbeats do not."""
    return (node.metadata.labels, node.spec, node.status.allocatable, is_ready(node))
