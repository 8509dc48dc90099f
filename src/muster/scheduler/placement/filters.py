"""Where a class of pods may go: named functions over arrays, listed in one tuple.

`copies` says how many fit on each node by everything that room and labels decide; `coupled_mask`
adds what other pods decide. `FILTERS` lists every rule with its words, so that a diagnosis can
count how many nodes each one removed.

Theory: labels, taints and readiness change rarely, so their mask is cached per class until a node
changes. Copies per node are cached too and recomputed only for the rows touched since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from muster.scheduler.placement import pod_rules, volume_rules
from muster.scheduler.placement.node_rules import (
    is_ready,
    matches_selector,
    tolerates_taints,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster.scheduler.cluster.nodes import Mask
    from muster.scheduler.cluster.pod_class import PodClass, Vector
    from muster.scheduler.cluster.snapshot import Snapshot


@dataclass
class _Cached:
    """A class's cached vector and what it was computed from."""

    stamp: tuple[int, ...]
    position: int
    vector: Vector


def static_mask(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes the class may go to by what rarely changes."""
    return _cached_mask(snapshot, cls, _static_mask)


def _static_mask(snapshot: Snapshot, cls: PodClass) -> Mask:
    ready = snapshot.nodes.ready
    mask = ready & tolerates_taints(snapshot, cls) & matches_selector(snapshot, cls)
    return mask & volume_rules.reaches_volumes(snapshot, cls) if cls.claims else mask


def _cached_mask(snapshot: Snapshot, cls: PodClass, make: Callable[..., Mask]) -> Mask:
    """A mask that only nodes decide, cached for the class until a node changes."""
    stamp = (snapshot.nodes.version, snapshot.nodes.layout, snapshot.volumes.version)
    cached = cls.cache.get(make.__name__)
    if isinstance(cached, tuple) and cached[0] == stamp:
        mask: Mask = cached[1]
        return mask
    mask = make(snapshot, cls)
    cls.cache[make.__name__] = (stamp, mask)
    return mask


def copies(snapshot: Snapshot, cls: PodClass) -> Vector:
    """How many copies of the class each node has room for now; zero where it may not go.

    The vector is cached: do not write to it.
    """
    nodes = snapshot.nodes
    stamp = (nodes.version, nodes.layout, snapshot.volumes.version, snapshot.log_generation)
    cached = cls.cache.get("copies")
    if isinstance(cached, _Cached) and cached.stamp == stamp:
        if cached.position < len(snapshot.touched):
            rows = np.array(sorted({*snapshot.touched[cached.position :]}), np.intp)
            room = nodes.free[cls.columns[:, None], rows] // cls.amounts[:, None]
            cached.vector[rows] = np.where(
                static_mask(snapshot, cls)[rows], np.maximum(room.min(axis=0), 0), 0
            )
            cached.position = len(snapshot.touched)
        return cached.vector
    vector = _room(snapshot, cls) * static_mask(snapshot, cls)
    cls.cache["copies"] = _Cached(stamp, len(snapshot.touched), vector)
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


def fits_if_empty(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes that would do if they were empty."""
    amounts = cls.amounts[:, None]
    return (snapshot.nodes.allocatable[cls.columns] >= amounts).all(axis=0) & static_mask(
        snapshot, cls
    )


def coupled_mask(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes that other pods allow; computed again after every copy of a coupled class."""
    mask = pod_rules.meets_others_anti_affinity(snapshot, cls)
    if cls.ports:
        mask &= pod_rules.has_host_ports(snapshot, cls)
    if cls.affinity:
        mask &= pod_rules.meets_affinity(snapshot, cls)
    if cls.anti_affinity:
        mask &= pod_rules.meets_anti_affinity(snapshot, cls)
    if cls.spread:
        mask &= pod_rules.meets_topology_spread(snapshot, cls)
    if cls.claims:
        mask &= volume_rules.has_exclusive_claims(snapshot, cls) & volume_rules.has_attach_slots(
            snapshot, cls
        )
        mask &= volume_rules.has_free_volumes(snapshot, cls)
    return mask


def is_coupled(snapshot: Snapshot, cls: PodClass) -> bool:
    """Whether copies must be placed one by one: its own constraints, or some pod's against it."""
    if cls.coupled or (cls.claims and snapshot.volumes.couple(cls.namespace, cls.claims)):
        return True
    counts = snapshot.pod_counts
    return counts.active and any(count.counts.any() for count in counts.forbidding(cls))


class Filter(NamedTuple):
    """A filter and what to say of the nodes it removed."""

    mask: Callable[[Snapshot, PodClass], Mask]
    says: str


FILTERS: tuple[Filter, ...] = (
    Filter(is_ready, "not ready"),
    Filter(tolerates_taints, "tainted"),
    Filter(matches_selector, "not matching the node selector"),
    Filter(volume_rules.reaches_volumes, "out of reach of its volumes"),
    Filter(has_room, "full"),
    Filter(pod_rules.has_host_ports, "with the host port in use"),
    Filter(pod_rules.meets_affinity, "away from the pods it must be near"),
    Filter(pod_rules.meets_anti_affinity, "with pods it must not be near"),
    Filter(pod_rules.meets_others_anti_affinity, "with pods that must not be near it"),
    Filter(pod_rules.meets_topology_spread, "against the topology spread"),
    Filter(volume_rules.has_exclusive_claims, "out because its claim is for one pod and in use"),
    Filter(volume_rules.has_attach_slots, "with no more volumes to attach"),
    Filter(volume_rules.has_free_volumes, "whose volumes go to others"),
)
