"""Where a class of pods may go: functions over arrays, each a mask or a number per node.

`copies` says how many pods of the class fit on each node, by room and by the node's own fields;
`coupled_mask` adds the rules that depend on other pods. `FILTERS` lists every rule with its words,
so that a diagnosis can count how many nodes each rule removes.

Labels, taints and readiness change rarely, so their mask is cached per class until a node changes.
The copies per node are cached too, and recomputed only for the rows touched since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from muster.scheduler.placement import affinity_and_spread, volume_rules
from muster.scheduler.placement.node_rules import is_ready, matches_selector, tolerates_taints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from muster.scheduler.cluster.nodes import Mask
    from muster.scheduler.cluster.pod_class import PodClass, Vector
    from muster.scheduler.cluster.snapshot import Slot, Snapshot


@dataclass
class _Copies:
    """Copies per node, and how many of `Snapshot.touched` they take into account."""

    vector: Vector
    position: int


def static_mask(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes that the class may use by fields that rarely change: readiness, taints, labels."""
    stamp = (*snapshot.nodes.stamp, snapshot.volumes.version)
    return cls.cached("static mask", stamp, lambda: _static_mask(snapshot, cls))


def _static_mask(snapshot: Snapshot, cls: PodClass) -> Mask:
    ready = snapshot.nodes.ready
    mask = ready & tolerates_taints(snapshot, cls) & matches_selector(snapshot, cls)
    return mask & volume_rules.reaches_volumes(snapshot, cls) if cls.claims else mask


def copies(snapshot: Snapshot, cls: PodClass) -> Vector:
    """How many copies of the class each node has room for now; zero where it may not go.

    The vector is cached: do not write to it.
    """
    nodes, touched = snapshot.nodes, snapshot.touched
    stamp = (*nodes.stamp, snapshot.volumes.version, snapshot.log_generation)
    cached = cls.cached("copies", stamp, lambda: _all_copies(snapshot, cls))
    if cached.position < len(touched):
        rows = np.array(sorted({*touched[cached.position :]}), np.intp)
        room = nodes.free[cls.columns[:, None], rows] // cls.amounts[:, None]
        fits = np.maximum(room.min(axis=0), 0)
        cached.vector[rows] = np.where(static_mask(snapshot, cls)[rows], fits, 0)
        cached.position = len(touched)
    return cached.vector


def free_copies(snapshot: Snapshot, cls: PodClass, reserved: Mask | None) -> Vector:
    """The copies per node, without nodes that are closed to the gang."""
    vector = copies(snapshot, cls)
    return vector if reserved is None else np.where(reserved, 0, vector)


def _all_copies(snapshot: Snapshot, cls: PodClass) -> _Copies:
    vector = _room(snapshot, cls) * static_mask(snapshot, cls)
    return _Copies(vector, len(snapshot.touched))


def _room(snapshot: Snapshot, cls: PodClass) -> Vector:
    # Column by column: faster than one division of a matrix over thousands of nodes.
    free = snapshot.nodes.free
    room: Vector = free[cls.columns[0]] // cls.amounts[0]
    for column, amount in zip(cls.columns[1:], cls.amounts[1:], strict=True):
        np.minimum(room, free[column] // amount, out=room)
    np.maximum(room, 0, out=room)
    return room


def has_room(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes with enough of every requested resource for one copy, the number of pods included."""
    return _room(snapshot, cls) > 0


def is_large_enough(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes that would have enough of every requested resource for one copy if they were empty."""
    enough = snapshot.nodes.allocatable[cls.columns] >= cls.amounts[:, None]
    mask: Mask = np.logical_and.reduce(enough, axis=0)
    return mask


def fits_if_empty(snapshot: Snapshot, *classes: PodClass) -> Mask:
    """Nodes where a pod of any of these classes would fit if the node were empty."""
    mask = np.zeros(len(snapshot.nodes), np.bool_)
    for cls in classes:
        mask |= is_large_enough(snapshot, cls) & static_mask(snapshot, cls)
    return mask


def room_if_empty(snapshot: Snapshot, cls: PodClass) -> Vector:
    """How many pods of the class each node could hold if it were empty."""
    room = snapshot.nodes.allocatable[cls.columns] // cls.amounts[:, None]
    vector: Vector = room.min(axis=0) * static_mask(snapshot, cls)
    return vector


def fits_without(snapshot: Snapshot, cls: PodClass, node: str, slots: Iterable[Slot]) -> bool:
    """Whether a node would have room for a copy of the class without these of its slots."""
    row = snapshot.nodes.rows.get(node)
    if row is None or not static_mask(snapshot, cls)[row]:
        return False
    free = snapshot.nodes.free[:, row].copy()
    for slot in slots:
        free[slot.cls.columns] += slot.cls.amounts
    return bool((free[cls.columns] >= cls.amounts).all())


def coupled_mask(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes that the rules about other pods allow; changes with every copy of a coupled class."""
    mask = affinity_and_spread.meets_others_anti_affinity(snapshot, cls)
    if cls.ports:
        mask &= affinity_and_spread.has_host_ports(snapshot, cls)
    if cls.affinity:
        mask &= affinity_and_spread.meets_affinity(snapshot, cls)
    if cls.anti_affinity:
        mask &= affinity_and_spread.meets_anti_affinity(snapshot, cls)
    if cls.spread:
        mask &= affinity_and_spread.meets_topology_spread(snapshot, cls)
    if cls.claims:
        mask &= volume_rules.has_exclusive_claims(snapshot, cls)
        mask &= volume_rules.has_attach_slots(snapshot, cls)
        mask &= volume_rules.has_free_volumes(snapshot, cls)
    return mask


def is_coupled(snapshot: Snapshot, cls: PodClass) -> bool:
    """Whether copies must be placed one by one: its own rules, or other pods' anti-affinity."""
    if cls.coupled or (cls.claims and snapshot.volumes.couple(cls.namespace, cls.claims)):
        return True
    counts = snapshot.pod_counts
    return counts.active and any(count.counts.any() for count in counts.forbidding.matching(cls))


TOO_SMALL, FULL = "too small", "full"


class Filter(NamedTuple):
    """A filter, and the words for the nodes it removes: `3 nodes tainted`."""

    mask: Callable[[Snapshot, PodClass], Mask]
    says: str


FILTERS: tuple[Filter, ...] = (
    Filter(is_ready, "not ready"),
    Filter(tolerates_taints, "tainted"),
    Filter(matches_selector, "not matching the node selector"),
    Filter(volume_rules.reaches_volumes, "that cannot reach its volumes"),
    Filter(is_large_enough, TOO_SMALL),
    Filter(has_room, FULL),
    Filter(affinity_and_spread.has_host_ports, "with the host port in use"),
    Filter(affinity_and_spread.meets_affinity, "away from the pods it must be near"),
    Filter(affinity_and_spread.meets_anti_affinity, "with pods it must not be near"),
    Filter(affinity_and_spread.meets_others_anti_affinity, "with pods that must not be near it"),
    Filter(affinity_and_spread.meets_topology_spread, "against the topology spread"),
    Filter(volume_rules.has_exclusive_claims, "ruled out: its ReadWriteOncePod claim is in use"),
    Filter(volume_rules.has_attach_slots, "at the volume attach limit"),
    Filter(volume_rules.has_free_volumes, "without a free volume for its claims"),
)
