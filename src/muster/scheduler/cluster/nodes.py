"""The nodes as columns: free room, readiness, taints and labels, one row number per node.

Filters and scores work on whole columns with numpy, so the cost of a decision hardly depends on the
number of nodes. Rows are in name order: the first of equal nodes is the first by name, and every
tie is broken the same way. Nodes that were added or deleted are collected and merged in one
`settle`, which permutes the arrays instead of rebuilding them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from kubekit.objects.core import Node, Taint
from kubekit.objects.meta import find_condition
from muster.scheduler.cluster.pod_class import PodClasses, Vector, parse_resources
from muster.scheduler.isolated_errors import isolated

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T", bound=np.generic)
Codes = NDArray[np.int32]
Mask = NDArray[np.bool_]

UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
NODE_LOST_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
NEW_ROW = -1
"""Stands for the old row of a node that is new."""
MAX_LABELS = 256
"""Columns that are kept in memory for labels that no node has."""


@dataclass
class LabelColumn:
    """One label over all nodes: `values[codes[row]]` is the row's value; code 0 means none."""

    key: str
    values: list[str | None]
    index: dict[str | None, int]
    codes: Codes
    _distinct: bool | None = None

    def distinct(self) -> bool:
        """Whether no two nodes share a domain, as with host names."""
        if self._distinct is None:
            self._distinct = len(np.unique(self.codes)) == len(self.codes) and 0 not in self.codes
        return self._distinct

    def put(self, row: int, value: str | None) -> None:
        self.codes[row] = self.code(value)
        self._distinct = None

    def code(self, value: str | None) -> int:
        """The code of a value; a value seen for the first time gets the next code."""
        if value not in self.index:
            self.index[value] = len(self.values)
            self.values.append(value)
        return self.index[value]


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
        self.version = 0  # grows when labels, taints, readiness or size of a node change
        self.layout = 0  # grows when rows move
        self._labels: dict[str, LabelColumn] = {}
        self._most_labels = MAX_LABELS
        self._waiting: dict[str, Node] = {}
        self._leaving: set[str] = set()

    def __len__(self) -> int:
        return len(self.names)

    @property
    def stamp(self) -> tuple[int, int]:
        """Differs once rows or fields of nodes have changed: values cached per node are stale."""
        return (self.version, self.layout)

    def put(self, node: Node) -> None:
        """Add a node, or take over its new fields."""
        name = node.metadata.name
        row = self.rows.get(name)
        if row is None or name in self._leaving:
            self._waiting[name] = node
        elif self.nodes[row] != node:
            self._write(row, node)

    def drop(self, name: str) -> None:
        """Close a deleted node now; its row goes with the next `settle`."""
        self._waiting.pop(name, None)
        if name in self.rows:
            self._leaving.add(name)
            self.ready[self.rows[name]] = False
            self.version += 1

    def get(self, name: str) -> Node | None:
        """The node of that name, if it exists."""
        if name in self._waiting or name in self._leaving or name not in self.rows:
            return self._waiting.get(name)
        return self.nodes[self.rows[name]]

    def settle(self) -> list[str]:
        """Merge added and deleted nodes; returns the names of the new rows, which are empty yet."""
        self._widen()
        if not self._waiting and not self._leaving:
            return []
        # A node that was deleted and created again is in both: its old row goes, a new one comes.
        stay = [row for row, name in enumerate(self.names) if name not in self._leaving]
        added = sorted(self._waiting)
        nodes = [*(self.nodes[row] for row in stay), *(self._waiting[name] for name in added)]
        order = sorted(range(len(nodes)), key=lambda i: nodes[i].metadata.name)
        self._permute(np.array([*stay, *[NEW_ROW] * len(added)], np.int64)[order])
        self.nodes = [nodes[i] for i in order]
        self.names = [node.metadata.name for node in self.nodes]
        self.rows = {name: row for row, name in enumerate(self.names)}
        self._waiting, self._leaving = {}, set()
        self.layout += 1
        for name in added:
            with isolated("node", name):  # after an error it is closed
                self._write(self.rows[name], self.nodes[self.rows[name]], new=True)
        return added

    def has_label(self, key: str) -> bool:
        """Whether a node has this label."""
        return any(key in node.metadata.labels for node in self.nodes)

    def column(self, key: str) -> LabelColumn:
        """The label column of a key, built when it is first needed."""
        column = self._labels.get(key)
        if column is None:
            self._make_room_for_label()
            column = LabelColumn(key, [None], {None: 0}, np.zeros(len(self), np.int32))
            for row, node in enumerate(self.nodes):
                column.put(row, node.metadata.labels.get(key))
            self._labels[key] = column
        return column

    def _make_room_for_label(self) -> None:
        """Beyond the bound, drop the columns of labels that no node has had: any pod names some."""
        if len(self._labels) < self._most_labels:
            return
        for key in [key for key, column in self._labels.items() if len(column.values) == 1]:
            del self._labels[key]
        self._most_labels = max(MAX_LABELS, 2 * len(self._labels))

    def rows_of(self, names: Iterable[str]) -> list[int]:
        """The rows of these nodes, without names that are not known."""
        return [self.rows[name] for name in names if name in self.rows]

    def _widen(self) -> None:
        """Add columns for resources that nodes have had since."""
        more = len(self.classes.resources) - len(self.free)
        if more > 0:
            extra = np.zeros((more, len(self)), np.int64)
            self.allocatable = np.concatenate([self.allocatable, extra])
            self.free = np.concatenate([self.free, extra])

    def _permute(self, source: NDArray[np.int64]) -> None:
        """Move the rows; `source` has the old row of each new one, or NEW_ROW."""
        self.allocatable = _permuted(self.allocatable, source)
        self.free = _permuted(self.free, source)
        self.ready = _permuted(self.ready, source)
        self.taints = _permuted(self.taints, source)
        for column in self._labels.values():
            column.codes = _permuted(column.codes, source)

    def _write(self, row: int, node: Node, *, new: bool = False) -> None:
        # Kubelets write their node every few seconds. A heartbeat must not raise `version`, because
        # that would drop all cached masks.
        old = self.nodes[row]
        self.nodes[row] = node
        if new or old.status.allocatable != node.status.allocatable:
            self._write_room(row, node)
        ready, taints = is_ready(node), taints_of(node)
        same_taints = self.taint_sets[self.taints[row]] == taints
        if new or not same_taints or self.ready[row] != ready:
            self.ready[row] = ready
            self.taints[row] = self._taint_code(taints)
            self.version += 1
        if new or old.metadata.labels != node.metadata.labels:
            for column in self._labels.values():
                column.put(row, node.metadata.labels.get(column.key))
            self.version += 1

    def _write_room(self, row: int, node: Node) -> None:
        resources = parse_resources(node.status.allocatable)
        self.classes.declare(resources)
        self._widen()
        columns = [self.classes.column(name) for name in resources]
        old = self.allocatable[:, row].copy()
        self.allocatable[:, row] = 0
        self.allocatable[columns, row] = [*resources.values()]
        self.free[:, row] += self.allocatable[:, row] - old
        self.version += 1

    def _taint_code(self, taints: tuple[Taint, ...]) -> int:
        if taints not in self.taint_sets:
            self.taint_sets.append(taints)
        return self.taint_sets.index(taints)


def _permuted(array: NDArray[T], source: NDArray[np.int64]) -> NDArray[T]:
    """The array's columns in the order of `source`; zeros for a new row."""
    # numpy counts -1 from the end, so a column of zeros at the end is what NEW_ROW picks.
    zeros = np.zeros((*array.shape[:-1], 1), array.dtype)
    return np.concatenate([array, zeros], axis=-1)[..., source]


def is_ready(node: Node) -> bool:
    """Whether the node may get pods at all, whatever they tolerate.

    Tolerations for a lost node do not count: the API server adds them to every pod, so that a
    running pod survives a short outage, and not so that new pods are bound there.
    """
    ready = find_condition(node.status.conditions, "Ready")
    lost = any(taint.key in NODE_LOST_TAINTS for taint in node.spec.taints)
    leaving = node.metadata.deletion_timestamp is not None
    return not lost and not leaving and (ready is None or ready.status == "True")


def taints_of(node: Node) -> tuple[Taint, ...]:
    """The taints of a node; a cordon counts as the taint that Kubernetes gives it."""
    taints = tuple(node.spec.taints)
    cordoned = node.spec.unschedulable and UNSCHEDULABLE not in taints
    return (*taints, UNSCHEDULABLE) if cordoned else taints


def forbids_scheduling(taint: Taint) -> bool:
    """Whether the taint forbids pods that do not tolerate it; PreferNoSchedule only advises."""
    return taint.effect in ("NoSchedule", "NoExecute")


def is_schedulable(node: Node) -> bool:
    """Whether the node is up and not cordoned; taints are another question."""
    return is_ready(node) and not node.spec.unschedulable


def scheduling_fields(node: Node) -> tuple[object, ...]:
    """The fields of a node that decide where pods may go; heartbeats change none of them."""
    return (node.metadata.labels, node.spec, node.status.allocatable, is_ready(node))
