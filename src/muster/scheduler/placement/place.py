"""Place a gang on a snapshot: a plan that places all of it, or why there is none.

Pure: the same snapshot and demand give the same answer, ties go to the first node by name, and
the snapshot is left as it was.

Pods of one class are interchangeable. So `fill` only has to find how many copies go to each node,
and one vector answers that: the copies that fit on each node. If one node takes all remaining
copies, the tightest such node gets them; otherwise the roomiest nodes go first, which uses the
fewest nodes, and among equals the roomiest rack, which uses the fewest racks. A gang that asks to
be spread gets one copy per node and round instead. Only classes coupled with other pods (ports,
affinity, spread constraints) are placed copy by copy.

A gang that needs one domain (a rack, a zone) is placed with all other nodes closed, in one domain
after another (`domain_search`).

Several classes of a gang compete for room. The class that is hardest to place goes first; before
giving up, a few other orders are tried, and a few topology domains if members must be near each
other. This is a heuristic: the exact problem is bin packing, and a gang that fits only in an order
that was not tried waits.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice, permutations
from typing import TYPE_CHECKING

import numpy as np

from muster.scheduler.cluster.snapshot import Placement
from muster.scheduler.placement import diagnosis, domain_search, filters, scores
from muster.scheduler.placement.demand import ClassDemand, ClassShortage, Demand, Plan, Unplaced

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from muster.scheduler.cluster.nodes import Mask
    from muster.scheduler.cluster.pod_class import PodClass, Vector
    from muster.scheduler.cluster.snapshot import Snapshot, Trial


Counts = Counter[int]
"""Rows, and how many copies each gets."""
TRIES = 6
"""Orders of classes that are tried: each is a whole trial."""
SECOND_COPY = 1 << 44
"""The cost of one more copy on a node, for a gang that asks to be spread."""


def fill(trial: Trial, cls: PodClass, n: int, demand: Demand) -> Counts:
    """Place up to `n` copies of a class, as close together as possible."""
    if n <= 0:
        return Counter()
    if filters.is_coupled(trial.snapshot, cls):
        return _one_by_one(trial, cls, n, demand)
    # A copy: `_pack` writes to it.
    copies = np.array(filters.free_copies(trial.snapshot, cls, demand.reserved))
    disliked = scores.dislikes(trial.snapshot, cls)
    if demand.preference.spread:
        return _evenly(trial, cls, copies, n, disliked)
    cost = scores.cost(trial.snapshot, cls, copies, _gang_rows(trial, demand), demand.preference)
    if demand.preference.rack:
        cost = _by_rack(trial.snapshot, demand.preference.rack, copies, cost)
    if disliked is None or demand.preference.weights.preferred < 1:
        return _pack(trial, cls, copies, cost, n)
    # A preference outranks packing: fill the most preferred nodes first, then the next.
    counts: Counts = Counter()
    for level in np.unique(disliked[copies > 0]):
        preferred = np.where(disliked == level, copies, 0)
        counts.update(_pack(trial, cls, preferred, cost, n - counts.total()))
    return counts


def _pack(trial: Trial, cls: PodClass, copies: Vector, cost: Vector, n: int) -> Counts:
    """Up to `n` copies on as few nodes as possible."""
    counts: Counts = Counter()
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


def _evenly(trial: Trial, cls: PodClass, copies: Vector, n: int, disliked: Vector | None) -> Counts:
    """One copy per node and round, the most preferred nodes first, then the roomiest."""
    counts: Counts = Counter()
    dislike = np.zeros(len(copies), np.int64) if disliked is None else disliked
    while n > 0:
        rows = np.flatnonzero(copies)
        if not len(rows):
            break
        chosen = rows[np.lexsort((-copies[rows], dislike[rows]))][:n]
        copies[chosen] -= 1
        n -= len(chosen)
        counts.update(map(int, chosen))
    for row, each in counts.items():
        trial.place(cls, row, each)
    return counts


def _by_rack(snapshot: Snapshot, label: str, copies: Vector, cost: Vector) -> Vector:
    """The cost as ranks: nodes of equal cost go by the room of their rack, then rack by rack."""
    codes = snapshot.nodes.column(label).codes
    room = np.bincount(codes, copies)[codes].astype(np.int64)
    room[codes == 0] = 0  # nodes without the label are in no rack
    _, first = np.unique(codes, return_index=True)
    opens = np.zeros(int(codes.max(initial=0)) + 1, np.int64)
    opens[codes[first]] = first
    order = np.lexsort((opens[codes], -room, cost))
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def _next(copies: Vector, cost: Vector, n: int) -> tuple[list[int], int]:
    """The next rows to fill, and how many copies each gets.

    One row if it takes all remaining copies. Else the rows with the most room, as many as are
    filled whole: on a cluster of equal nodes a large gang is placed in one step.
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
    counts: Counts = Counter()
    own = _gang_rows(trial, demand)
    for _ in range(n):
        copies = filters.free_copies(trial.snapshot, cls, demand.reserved)
        allowed = np.where(filters.coupled_mask(trial.snapshot, cls), copies, 0)
        rows = np.flatnonzero(allowed)
        if not len(rows):
            break
        if demand.preference.spread:
            cost = np.array([counts[int(row)] for row in rows]) * SECOND_COPY
            cost -= np.minimum(copies[rows], scores.TIGHT)
            disliked = scores.dislikes(trial.snapshot, cls)
            if disliked is not None:
                cost += disliked[rows] * scores.UNPREFERRED
        else:
            cost = scores.cost(trial.snapshot, cls, allowed, own, demand.preference)[rows]
        row = int(rows[np.argmin(cost)])
        trial.place(cls, row)
        own.add(row)
        counts[row] += 1
    return counts


def _gang_rows(trial: Trial, demand: Demand) -> set[int]:
    rows = trial.snapshot.nodes.rows
    own = {rows[slot.node] for slot in demand.holds if slot.node in rows}
    own.update(rows[name] for name in demand.used_nodes if name in rows)
    return own | trial.rows


def place(snapshot: Snapshot, demand: Demand) -> Plan | Unplaced:
    """The plan for a gang, or why there is none."""
    with snapshot.trial(demand.room) as trial:
        trial.remove_slots(demand.holds)
        wanted = _choose(demand)
        if demand.domain is not None:
            return _place_in_domain(trial, demand, wanted)
        placed, short = _attempt(trial, demand, wanted)
        if placed is None:
            return _why_unplaced(trial, demand, wanted, short)
        return _plan(snapshot, demand, placed)


def _attempt(
    trial: Trial, demand: Demand, wanted: Sequence[int]
) -> tuple[list[Counts] | None, ClassShortage | None]:
    """Place the demand on its open nodes; if that fails, the class that failed first."""
    mark = trial.mark()
    placed, short = _search(trial, demand, wanted)
    if placed is not None and _may_change_rack(trial.snapshot, demand):
        trial.undo(mark)
        placed = _in_one_rack(trial, demand, wanted, placed)
    if placed is None:
        # The first pod may have chosen a domain that is too small.
        for narrower in domain_search.by_affinity(trial, demand, wanted):
            placed, _ = _search(trial, narrower, wanted)
            if placed is not None:
                break
    if placed is None and _has_choice(demand, wanted):
        placed = _as_many_as_fit(trial, demand)
    return placed, short


def _place_in_domain(trial: Trial, demand: Demand, wanted: Sequence[int]) -> Plan | Unplaced:
    """The plan within one domain; if none holds the gang, what the best one lacks."""
    assert demand.domain is not None
    short = None
    for narrower in domain_search.narrowed(trial, demand):
        placed, short = _attempt(trial, narrower, wanted)
        if placed is not None:
            return _plan(trial.snapshot, demand, placed)
    if not demand.domain.topology.is_required:
        return _why_unplaced(trial, demand, wanted, short)
    lacking, best = diagnosis.domain_shortage(trial, demand)
    if best is None:
        return Unplaced((), domain=lacking)
    _, short = _search(trial, best, wanted)
    return replace(_why_unplaced(trial, best, wanted, short, best.reserved), domain=lacking)


def place_surplus(snapshot: Snapshot, demand: Demand) -> Plan:
    """As many of the wanted pods as fit, class by class: for members beyond the minimum."""
    with snapshot.trial(demand.room) as trial:
        trial.remove_slots(demand.holds)
        placed: list[Counts] = [Counter() for _ in demand.wants]
        steps = (demand,) if demand.domain is None else domain_search.surplus_steps(trial, demand)
        for step in steps:
            for want, counts in zip(demand.wants, placed, strict=True):
                counts.update(fill(trial, want.cls, len(want.pods) - counts.total(), step))
        return _plan(snapshot, demand, placed)


def _choose(demand: Demand) -> list[int]:
    """How many pods of each want: the roles' minimums first, then in order up to the need."""
    left = Counter(demand.roles)
    counts = []
    for want in demand.wants:
        counts.append(min(len(want.pods), left[want.role]))
        left[want.role] -= counts[-1]
    missing = demand.need - sum(counts)
    for index, want in enumerate(demand.wants):
        more = max(0, min(len(want.pods) - counts[index], missing))
        counts[index] += more
        missing -= more
    return counts


def _may_change_rack(snapshot: Snapshot, demand: Demand) -> bool:
    """Whether one rack may be tried: not if preferences, which outrank racks, have decided."""
    packs = demand.preference.rack and not demand.preference.spread
    return bool(packs) and not any(scores.has_preferences(snapshot, w.cls) for w in demand.wants)


def _in_one_rack(
    trial: Trial, demand: Demand, counts: Sequence[int], placed: list[Counts]
) -> list[Counts]:
    """The gang within one rack, if a rack holds it on as few nodes as `placed` uses."""
    nodes = {row for rows in placed for row in rows}
    codes = trial.snapshot.nodes.column(demand.preference.rack).codes
    if len({int(codes[row]) for row in nodes}) <= 1:
        return placed
    mark = trial.mark()
    for narrower in domain_search.within(trial, demand, counts, demand.preference.rack):
        other, _ = _search(trial, narrower, counts)
        trial.undo(mark)
        if other is not None and len({row for rows in other for row in rows}) <= len(nodes):
            return other
    return placed


def _has_choice(demand: Demand, counts: Sequence[int]) -> bool:
    chosen = [n < len(want.pods) for n, want in zip(counts, demand.wants, strict=True)]
    return len(demand.wants) > 1 and any(chosen)


def _search(
    trial: Trial, demand: Demand, counts: Sequence[int]
) -> tuple[list[Counts] | None, ClassShortage | None]:
    """Place exactly these counts, in a few orders; if all fail, the class that failed first."""
    first_short: ClassShortage | None = None
    for order in _orders(trial.snapshot, demand, counts):
        mark = trial.mark()
        placed: list[Counts] = [Counter()] * len(counts)
        for index in order:
            want = demand.wants[index]
            placed[index] = fill(trial, want.cls, counts[index], demand)
            fits = placed[index].total()
            if fits < counts[index]:
                first_short = first_short or ClassShortage(want, counts[index], fits)
                break
        else:
            return placed, None
        trial.undo(mark)
        if not _worth_another_order(trial, demand, counts):
            break
    return None, first_short


def _orders(snapshot: Snapshot, demand: Demand, counts: Sequence[int]) -> Iterator[tuple[int, ...]]:
    busy = [index for index, n in enumerate(counts) if n]
    hardest = sorted(busy, key=lambda i: _ease(snapshot, demand.wants[i]))
    return islice(permutations(hardest), TRIES)


def _ease(snapshot: Snapshot, want: ClassDemand) -> tuple[int, int]:
    """Sorts coupled classes first, then classes of which the fewest copies fit."""
    room = int(np.minimum(filters.copies(snapshot, want.cls), 1 << 20).sum())
    return (0 if filters.is_coupled(snapshot, want.cls) else 1, room)


def _worth_another_order(trial: Trial, demand: Demand, counts: Sequence[int]) -> bool:
    """Whether another order may succeed: not if some class does not even fit alone."""
    for want, n in zip(demand.wants, counts, strict=True):
        copies = filters.free_copies(trial.snapshot, want.cls, demand.reserved)
        if int(np.minimum(copies, n).sum()) < n:
            return False
    return len(demand.wants) > 1


def _as_many_as_fit(trial: Trial, demand: Demand) -> list[Counts] | None:
    """As many of each class as fit, up to the need, if more pods are wanted than needed."""
    mark = trial.mark()
    placed: list[Counts] = [Counter() for _ in demand.wants]
    for role_minimums in (True, False):
        for want, counts in zip(demand.wants, placed, strict=True):
            left = demand.need - sum(rows.total() for rows in placed)
            n = demand.roles.get(want.role, 0) if role_minimums else left
            counts.update(fill(trial, want.cls, min(n, len(want.pods) - counts.total()), demand))
    by_role: Counter[str] = Counter()
    for want, counts in zip(demand.wants, placed, strict=True):
        by_role[want.role] += counts.total()
    if by_role.total() >= demand.need and by_role >= Counter(demand.roles):
        return placed
    trial.undo(mark)
    return None


def _plan(snapshot: Snapshot, demand: Demand, placed: Sequence[Counts]) -> Plan:
    placements: list[Placement] = []
    for want, counts in zip(demand.wants, placed, strict=True):
        names = [snapshot.nodes.names[row] for row in sorted(counts) for _ in range(counts[row])]
        pairs = zip(want.pods, names, strict=False)
        placements += [Placement(pod, node, want.cls) for pod, node in pairs]
    return Plan(tuple(placements))


def _why_unplaced(
    trial: Trial,
    demand: Demand,
    counts: Sequence[int],
    short: ClassShortage | None,
    closed: Mask | None = None,
) -> Unplaced:
    """The classes that are short; the numbers are those of the nodes that are not `closed`."""
    alone = []
    for want, n in diagnosis.by_body(demand.wants, counts):
        mark = trial.mark()
        fits = fill(trial, want.cls, n, demand).total()
        if fits < n:
            alone.append(diagnosis.shortage(trial.snapshot, want, n, fits, closed))
        trial.undo(mark)
    if alone:
        return Unplaced(tuple(alone))
    rest = (_next_to_the_rest(trial, demand, counts, short, closed),) if short else ()
    whole = closed is None
    beyond = diagnosis.beyond_capacity(trial.snapshot, demand.wants, counts) if whole else {}
    return Unplaced(rest, alone=False, beyond=beyond)


def _next_to_the_rest(
    trial: Trial,
    demand: Demand,
    counts: Sequence[int],
    short: ClassShortage,
    closed: Mask | None,
) -> ClassShortage:
    """The resources that a class lacks when all other classes are placed."""
    mark = trial.mark()
    for want, n in zip(demand.wants, counts, strict=True):
        if want is not short.want:
            fill(trial, want.cls, n, demand)
    fits = fill(trial, short.want.cls, short.wanted, demand).total()
    result = diagnosis.shortage(trial.snapshot, short.want, short.wanted, fits, closed)
    trial.undo(mark)
    return result
