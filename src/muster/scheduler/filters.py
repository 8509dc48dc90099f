"""Where a class of pods may go: named functions over arrays, listed in one tuple.

Each takes the snapshot and a class and gives a mask over the nodes. `place` asks `copies` (how
many fit on each node by everything that room and labels decide) and `coupled_mask` (what other
pods decide); `explain` walks the same tuple and counts which filter removed how many nodes. The
meaning of each field is Kubernetes' own.

Theory: labels, taints and readiness change rarely, so their mask is cached per class until a node
changes; copies per node are cached too and recomputed only for the rows touched since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from muster.api.affinity import NodeSelectorTerm, SelectorTerm, Toleration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from muster.api.core import Taint
    from muster.scheduler.nodes import Codes, Mask, NodeTable
    from muster.scheduler.podclass import PodClass, PodTerm, SpreadTerm, Vector
    from muster.scheduler.snapshot import Snapshot

# -- labels, taints, readiness -----------------------------------------------------------------


def is_ready(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes that are up."""
    return snapshot.nodes.ready


def tolerates_taints(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes all of whose taints are tolerated, a cordon among them."""
    nodes = snapshot.nodes
    passes = [tolerated(taints, cls.spec.tolerations) for taints in nodes.taint_sets]
    return np.array(passes, np.bool_)[nodes.taints]


def matches_selector(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes that nodeSelector and required node affinity allow."""
    nodes, spec = snapshot.nodes, cls.spec
    mask = np.ones(len(nodes), np.bool_)
    for key, value in spec.node_selector.items():
        mask &= label_mask(nodes, SelectorTerm(key, "In", (value,)))
    affinity = spec.affinity.node_affinity if spec.affinity else None
    if affinity is not None and affinity.required is not None:
        any_term = np.zeros(len(nodes), np.bool_)
        for term in affinity.required.node_selector_terms:
            any_term |= term_mask(nodes, term)
        mask &= any_term
    return mask


def reaches_volumes(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes from which every bound volume of the class can be reached."""
    mask = np.ones(len(snapshot.nodes), np.bool_)
    for required in snapshot.volumes.affinities(cls.namespace, cls.claims):
        allowed = np.zeros(len(snapshot.nodes), np.bool_)
        for term in required.node_selector_terms:
            allowed |= term_mask(snapshot.nodes, term)
        mask &= allowed
    return mask


def tolerated(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> bool:
    """Whether every taint has a toleration."""
    return all(any(_tolerates(t, taint) for t in tolerations) for taint in taints)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def term_mask(nodes: NodeTable, term: NodeSelectorTerm) -> Mask:
    """Nodes that match every row of a node selector term; an empty term matches none."""
    if not term.match_expressions and not term.match_fields:
        return np.zeros(len(nodes), np.bool_)
    mask = np.ones(len(nodes), np.bool_)
    for row in term.match_expressions:
        mask &= label_mask(nodes, row)
    for row in term.match_fields:
        mask &= _name_mask(nodes, row)
    return mask


def _name_mask(nodes: NodeTable, row: SelectorTerm) -> Mask:
    named = np.zeros(len(nodes), np.bool_)
    named[nodes.rows_of(row.values)] = True
    known = row.key == "metadata.name" and row.operator in ("In", "NotIn")
    return named if known and row.operator == "In" else ~named & known


def label_mask(nodes: NodeTable, row: SelectorTerm) -> Mask:
    """Nodes whose labels match one row; each distinct value is judged once."""
    column = nodes.column(row.key)
    judge = _OPERATORS.get(row.operator)
    if judge is None:
        return np.zeros(len(nodes), np.bool_)
    wanted = frozenset(row.values)
    passes = np.array([judge(value, wanted) for value in column.values], np.bool_)
    return passes[column.codes]


def _compare(value: str | None, wanted: frozenset[str], sign: int) -> bool:
    bound = next(iter(wanted), "")
    try:
        return value is not None and (int(value) - int(bound)) * sign > 0
    except ValueError:
        return False


_OPERATORS: dict[str, Callable[[str | None, frozenset[str]], bool]] = {
    "In": lambda value, wanted: value in wanted,
    "NotIn": lambda value, wanted: value not in wanted,
    "Exists": lambda value, wanted: value is not None,
    "DoesNotExist": lambda value, wanted: value is None,
    "Gt": lambda value, wanted: _compare(value, wanted, 1),
    "Lt": lambda value, wanted: _compare(value, wanted, -1),
}

# -- room --------------------------------------------------------------------------------------


@dataclass
class _Kept:
    """A class's cached vector and what it was computed from."""

    stamp: tuple[int, ...]
    position: int
    vector: Vector


def standing(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes the class may go to by what rarely changes."""
    return _kept_mask(snapshot, cls, _standing)


def _standing(snapshot: Snapshot, cls: PodClass) -> Mask:
    ready = snapshot.nodes.ready
    chosen = tolerates_taints(snapshot, cls) & matches_selector(snapshot, cls)
    return ready & chosen & reaches_volumes(snapshot, cls)


def _kept_mask(snapshot: Snapshot, cls: PodClass, make: Callable[..., Mask]) -> Mask:
    """A mask that only nodes decide, kept for the class until a node changes."""
    stamp = (snapshot.nodes.version, snapshot.nodes.layout, snapshot.volumes.version)
    kept = cls.cache.get(make.__name__)
    if isinstance(kept, tuple) and kept[0] == stamp:
        mask: Mask = kept[1]
        return mask
    mask = make(snapshot, cls)
    cls.cache[make.__name__] = (stamp, mask)
    return mask


def copies(snapshot: Snapshot, cls: PodClass) -> Vector:
    """How many copies of the class each node has room for now; zero where it may not go.

    The vector is cached: do not write to it.
    """
    nodes = snapshot.nodes
    stamp = (nodes.version, nodes.layout, snapshot.volumes.version, snapshot.epoch)
    kept = cls.cache.get("copies")
    if isinstance(kept, _Kept) and kept.stamp == stamp:
        if kept.position < len(snapshot.touched):
            rows = np.array(sorted({*snapshot.touched[kept.position :]}), np.intp)
            room = nodes.free[cls.columns[:, None], rows] // cls.amounts[:, None]
            kept.vector[rows] = np.where(
                standing(snapshot, cls)[rows], np.maximum(room.min(axis=0), 0), 0
            )
            kept.position = len(snapshot.touched)
        return kept.vector
    vector = _room(snapshot, cls) * standing(snapshot, cls)
    cls.cache["copies"] = _Kept(stamp, len(snapshot.touched), vector)
    return vector


def _room(snapshot: Snapshot, cls: PodClass) -> Vector:
    free = snapshot.nodes.free
    room: Vector = free[cls.columns[0]] // cls.amounts[0]
    for column, amount in zip(cls.columns[1:], cls.amounts[1:], strict=True):
        np.minimum(room, free[column] // amount, out=room)
    np.maximum(room, 0, out=room)
    return room


def has_room(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes with enough of everything for one copy, a place in the pod count among it."""
    return _room(snapshot, cls) > 0


def could_ever(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes that would do if they were empty."""
    amounts = cls.amounts[:, None]
    return (snapshot.nodes.allocatable[cls.columns] >= amounts).all(axis=0) & standing(
        snapshot, cls
    )


def potential(snapshot: Snapshot, cls: PodClass) -> int:
    """How many copies the cluster would hold if it were empty."""
    room = snapshot.nodes.allocatable[cls.columns] // cls.amounts[:, None]
    return int((room.min(axis=0) * standing(snapshot, cls)).sum())


# -- other pods --------------------------------------------------------------------------------


def has_ports(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes where every wanted host port is free."""
    mask = np.ones(len(snapshot.nodes), np.bool_)
    for port in cls.ports:
        mask[snapshot.tallies.rows_using(port)] = False
    return mask


def near_wanted_pods(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes in a domain that has the pods required affinity asks for.

    The first pod of a group that wants itself near may go anywhere, or no such group could start.
    """
    nodes = snapshot.nodes
    mask = np.ones(len(nodes), np.bool_)
    if not cls.affinity:
        return mask
    tallies = [snapshot.matching(term) for term in cls.affinity]
    first = not any(t.counts.any() for t in tallies) and all(t.matches(cls) for t in tallies)
    for term, tally in zip(cls.affinity, tallies, strict=True):
        column = nodes.column(term.topology)
        here = column.codes > 0
        mask &= here if first else here & (by_domain(snapshot, term, tally.counts) > 0)
    return mask


def away_from_unwanted_pods(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes in no domain that has the pods required anti-affinity forbids."""
    mask = np.ones(len(snapshot.nodes), np.bool_)
    for term in cls.anti_affinity:
        mask &= ~_in_domain(snapshot, term, snapshot.matching(term).counts)
    return mask


def unwanted_by_none(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes in no domain with a pod whose own anti-affinity forbids this one."""
    mask = np.ones(len(snapshot.nodes), np.bool_)
    for tally in snapshot.tallies.forbidding(cls):
        if tally.counts.any():
            mask &= ~_in_domain(snapshot, tally.term, tally.counts)
    return mask


def spreads_evenly(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes where one more copy keeps every required spread within its skew."""
    mask = np.ones(len(snapshot.nodes), np.bool_)
    for item in cls.spread:
        if item.required:
            mask &= skew(snapshot, cls, item) <= item.max_skew
    return mask


def by_domain(snapshot: Snapshot, term: PodTerm, counts: Vector) -> Vector:
    """Counts per node summed over the node's domain; zero where the node has no such label."""
    column = snapshot.nodes.column(term.topology)
    if column.distinct():
        return counts
    sums = np.bincount(column.codes, weights=counts, minlength=len(column.values))
    sums[0] = 0
    return sums.astype(np.int64)[column.codes]


def _in_domain(snapshot: Snapshot, term: PodTerm, counts: Vector) -> Mask:
    return by_domain(snapshot, term, counts) > 0


NO_DOMAIN = 1 << 40


def skew(snapshot: Snapshot, cls: PodClass, item: SpreadTerm) -> Vector:
    """The skew each node would have after one more copy; enormous where it has no such domain."""
    column = snapshot.nodes.column(item.pods.topology)
    tally = snapshot.matching(item.pods, living=True)
    counted, there = _spread_view(snapshot, cls, item)
    weights = tally.counts if counted is None else tally.counts * counted
    sums = np.bincount(column.codes, weights, len(column.values)).astype(np.int64)
    enough = len(there) and len(there) >= item.min_domains
    least = int(sums[there].min()) if enough else 0
    own = 1 if tally.matches(cls) else 0
    by_code = sums + (own - least)
    by_code[0] = NO_DOMAIN
    return by_code[column.codes]


def _spread_view(snapshot: Snapshot, cls: PodClass, item: SpreadTerm) -> tuple[Mask | None, Codes]:
    """The nodes whose pods a spread counts (None for all) and its domains, kept for the class."""
    stamp = (snapshot.nodes.version, snapshot.nodes.layout)
    kept = cls.cache.get(repr(item))
    if isinstance(kept, tuple) and kept[0] == stamp:
        return kept[1], kept[2]
    mask = np.ones(len(snapshot.nodes), np.bool_)
    for other in cls.spread:
        if other.required or other is item:
            mask &= snapshot.nodes.column(other.pods.topology).codes > 0
    if item.honour_affinity:
        mask &= matches_selector(snapshot, cls)
    if item.honour_taints:
        mask &= tolerates_taints(snapshot, cls)
    there = np.unique(snapshot.nodes.column(item.pods.topology).codes[mask])
    counted = None if mask.all() else mask
    cls.cache[repr(item)] = (stamp, counted, there)
    return counted, there


def coupled_mask(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes that other pods allow; asked anew after every copy of a coupled class."""
    mask = unwanted_by_none(snapshot, cls)
    if cls.ports:
        mask &= has_ports(snapshot, cls)
    if cls.affinity:
        mask &= near_wanted_pods(snapshot, cls)
    if cls.anti_affinity:
        mask &= away_from_unwanted_pods(snapshot, cls)
    if cls.spread:
        mask &= spreads_evenly(snapshot, cls)
    return mask


def is_coupled(snapshot: Snapshot, cls: PodClass) -> bool:
    """Whether copies must be placed one by one: its own constraints, or some pod's against it."""
    return cls.coupled or any(t.counts.any() for t in snapshot.tallies.forbidding(cls))


class Filter(NamedTuple):
    """A filter and what to say of the nodes it removed."""

    mask: Callable[[Snapshot, PodClass], Mask]
    says: str


FILTERS: tuple[Filter, ...] = (
    Filter(is_ready, "not ready"),
    Filter(tolerates_taints, "tainted"),
    Filter(matches_selector, "not matching the node selector"),
    Filter(reaches_volumes, "out of reach of its volumes"),
    Filter(has_room, "full"),
    Filter(has_ports, "with the host port in use"),
    Filter(near_wanted_pods, "away from the pods it must be near"),
    Filter(away_from_unwanted_pods, "with pods it must not be near"),
    Filter(unwanted_by_none, "with pods that must not be near it"),
    Filter(spreads_evenly, "against the topology spread"),
)
