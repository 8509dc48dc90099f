"""Copies of one class onto nodes, as many as are wanted: the innermost step of placing a gang.

Called by `place` within a trial. Theory: pods of a class are alike, so what must be found is how
many copies go on each node, and one vector, copies that fit per node, answers it. The fullest node
that takes all remaining copies is the tightest; if none takes them all, the roomiest goes first,
which uses the fewest nodes, and among equals those of the roomiest rack, which uses the fewest
racks. A gang that asks to be spread gets one copy per node and round instead. Only classes coupled
with other pods (ports, affinity, spread constraints) go copy by copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from muster.scheduler import filters, scores

if TYPE_CHECKING:
    from muster.scheduler.demand import Demand
    from muster.scheduler.podclass import PodClass, Vector
    from muster.scheduler.snapshot import Snapshot, Trial

Counts = dict[int, int]
"""Rows, and how many copies each gets."""


def fill(trial: Trial, cls: PodClass, n: int, demand: Demand) -> Counts:
    """Place up to `n` copies of a class, as close together as they go; rows and their counts."""
    if n <= 0:
        return {}
    if filters.is_coupled(trial.snapshot, cls):
        return _one_by_one(trial, cls, n, demand)
    copies = np.array(free_copies(trial, cls, demand))
    if demand.manner.spread:
        return _evenly(trial, cls, copies, n)
    cost = scores.cost(trial.snapshot, cls, copies, _own(trial, demand), demand.manner)
    if demand.manner.rack:
        cost = _by_rack(trial.snapshot, demand.manner.rack, copies, cost)
    counts: Counts = {}
    while n > 0:
        rows, each = _next(copies, cost, n)
        if each <= 0:
            break
        for row in rows:
            trial.place(cls, row, each)
            counts[row] = each
            copies[row] = 0
        n -= each * len(rows)
    return counts


def _evenly(trial: Trial, cls: PodClass, copies: Vector, n: int) -> Counts:
    """One copy per node and round, the roomiest nodes first."""
    counts: Counts = {}
    while n > 0:
        rows = np.flatnonzero(copies)
        if not len(rows):
            break
        chosen = rows[np.argsort(-copies[rows], kind="stable")][:n]
        copies[chosen] -= 1
        n -= len(chosen)
        for row in map(int, chosen):
            counts[row] = counts.get(row, 0) + 1
    for row, each in counts.items():
        trial.place(cls, row, each)
    return counts


def _by_rack(snapshot: Snapshot, label: str, copies: Vector, cost: Vector) -> Vector:
    """The cost as ranks, where equals go by the room of their rack, then rack by rack."""
    codes = snapshot.nodes.column(label).codes
    room = np.bincount(codes, copies)[codes].astype(np.int64)
    room[codes == 0] = 0
    _, first = np.unique(codes, return_index=True)
    opens = np.zeros(int(codes.max(initial=0)) + 1, np.int64)
    opens[codes[first]] = first
    order = np.lexsort((opens[codes], -room, cost))
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def _next(copies: Vector, cost: Vector, n: int) -> tuple[list[int], int]:
    """The next rows to fill and how many copies each gets.

    One row if one can take all that is left. Else all rows that hold the most, as far as whole
    rows are needed: on a cluster of equal nodes a large gang is placed in one step.
    """
    whole = np.flatnonzero(copies >= n)
    if len(whole):
        return [int(whole[np.argmin(cost[whole])])], n
    most = int(copies.max(initial=0))
    if most <= 0:
        return [], 0
    rows = np.flatnonzero(copies == most)
    chosen = rows[np.argsort(cost[rows], kind="stable")][: n // most]
    return [int(row) for row in chosen], most


def _one_by_one(trial: Trial, cls: PodClass, n: int, demand: Demand) -> Counts:
    counts: Counts = {}
    own = _own(trial, demand)
    for _ in range(n):
        copies = free_copies(trial, cls, demand)
        allowed = np.where(filters.coupled_mask(trial.snapshot, cls), copies, 0)
        rows = np.flatnonzero(allowed)
        if not len(rows):
            break
        if demand.manner.spread:
            cost = scores.APART * np.array([counts.get(int(row), 0) for row in rows]) - copies[rows]
        else:
            cost = scores.cost(trial.snapshot, cls, allowed, own, demand.manner)[rows]
        row = int(rows[np.argmin(cost)])
        trial.place(cls, row)
        own.add(row)
        counts[row] = counts.get(row, 0) + 1
    return counts


def free_copies(trial: Trial, cls: PodClass, demand: Demand) -> Vector:
    copies = filters.copies(trial.snapshot, cls)
    return copies if demand.barred is None else np.where(demand.barred, 0, copies)


def _own(trial: Trial, demand: Demand) -> set[int]:
    rows = trial.snapshot.nodes.rows
    own = {rows[slot.node] for slot in demand.rooms if slot.node in rows}
    own.update(rows[name] for name in demand.beside if name in rows)
    own.update(use.row for use in trial.log if use.n > 0)
    return own
