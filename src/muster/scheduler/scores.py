"""Where a class should go: a cost per node, least first, over the nodes where it may go.

Called by `place` once per class. Gangs are packed tightly: first onto nodes the gang already
uses, then away from nodes whose special resources it would waste, then where it fits most
closely, so that large holes stay whole for large gangs. What a pod prefers weighs more than
tightness and less than togetherness.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from muster.scheduler import filters

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster.scheduler.podclass import PodClass, Vector
    from muster.scheduler.snapshot import Snapshot

FIRST_EXTENDED = 4
"""Columns before this are what every node has: cpu, memory, storage, pods."""

APART = 1 << 44
DISLIKED = 1 << 24
WASTED = 1 << 22
TIGHT = (1 << 20) - 1


def cost(snapshot: Snapshot, cls: PodClass, copies: Vector, own: Iterable[int]) -> Vector:
    """The cost of each node for this class; `own` are the rows the gang uses or has rooms on."""
    total = np.minimum(copies, TIGHT)
    waste = _wasted(snapshot, cls)
    if waste is not None:
        total += waste
    if cls.preferred or _prefers_nodes(cls) or any(not s.required for s in cls.spread):
        total += _disliked(snapshot, cls)
    rows = list(own)
    if rows:
        total += APART
        total[rows] -= APART
    return total


def _wasted(snapshot: Snapshot, cls: PodClass) -> Vector | None:
    """Nodes with special resources (GPUs and the like) that this class does not ask for."""
    others = [
        column
        for column in range(FIRST_EXTENDED, len(snapshot.nodes.allocatable))
        if column not in cls.columns
    ]
    if not others:
        return None
    special = (snapshot.nodes.allocatable[others] > 0).any(axis=0)
    return np.where(special, np.int64(WASTED), np.int64(0))


def _prefers_nodes(cls: PodClass) -> bool:
    affinity = cls.spec.affinity
    return bool(affinity and affinity.node_affinity and affinity.node_affinity.preferred)


def _disliked(snapshot: Snapshot, cls: PodClass) -> Vector:
    """What the pod would rather not: preferred affinities it misses, soft spread it worsens."""
    liked = np.zeros(len(snapshot.nodes), np.int64)
    affinity = cls.spec.affinity
    if affinity and affinity.node_affinity:
        for item in affinity.node_affinity.preferred:
            liked += item.weight * filters.term_mask(snapshot.nodes, item.preference)
    for weight, term in cls.preferred:
        counts = snapshot.matching(term).counts
        liked += weight * (filters.by_domain(snapshot, term, counts) > 0)
    for spread in cls.spread:
        if not spread.required:
            liked -= np.minimum(filters.skew(snapshot, cls, spread), 1000)
    disliked: Vector = (liked.max(initial=0) - liked) * DISLIKED
    return disliked
