"""Where a class should go: a cost per node, least first, over the nodes where it may go.

Called by `fill` once per class. Gangs are packed tightly: first onto nodes the gang already uses,
then into the racks it uses, then away from nodes whose special resources it would waste, then where
it fits most closely, so that large holes stay whole for large gangs. What a pod prefers weighs more
than tightness and less than togetherness. Each consideration has a step of its own, larger than
all that come after it, and the settings' weights multiply the steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from muster.scheduler.placement import node_rules, pod_rules

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster.api.core import Taint
    from muster.scheduler.cluster.pod_class import PodClass, Vector
    from muster.scheduler.cluster.snapshot import Snapshot
    from muster.scheduler.placement.demand import NodePreference

FIRST_EXTENDED = 4
"""Columns before this are what every node has: cpu, memory, storage, pods."""

APART = 1 << 44
FAR = 1 << 42
UNPREFERRED = 1 << 24
WASTED = 1 << 22
TIGHT = (1 << 20) - 1
MAX_PREFERENCE = 1 << 16
SOFT_TAINT = 100
"""What a taint of PreferNoSchedule weighs: as much as the strongest preference of a pod."""


def cost(
    snapshot: Snapshot,
    cls: PodClass,
    copies: Vector,
    own: Iterable[int],
    preference: NodePreference,
) -> Vector:
    """The cost of each node for this class; `own` are the rows the gang uses or has rooms on."""
    weights = preference.weights
    total = _scaled(np.minimum(copies, TIGHT), weights.tight)
    waste = _wasted(snapshot, cls)
    if waste is not None:
        total += _scaled(waste, weights.special)
    if _has_preferences(snapshot, cls):
        total += _scaled(_unpreferred(snapshot, cls), weights.preferred)
    rows = list(own)
    if rows:
        apart = int(APART * weights.together)
        total += apart
        total[rows] -= apart
        if preference.rack:
            codes = snapshot.nodes.column(preference.rack).codes
            total += np.where(np.isin(codes, codes[rows]), 0, int(FAR * weights.rack))
    return total


def _scaled(vector: Vector, weight: float) -> Vector:
    return vector if weight == 1.0 else (vector * weight).astype(np.int64)


def _has_preferences(snapshot: Snapshot, cls: PodClass) -> bool:
    soft = cls.preferred or _prefers_nodes(cls) or any(not s.required for s in cls.spread)
    tainted = any(_discourages(taint) for taints in snapshot.nodes.taint_sets for taint in taints)
    return bool(soft or tainted or snapshot.pod_counts.liking(cls))


def _discourages(taint: Taint) -> bool:
    return taint.effect == "PreferNoSchedule"


def _wasted(snapshot: Snapshot, cls: PodClass) -> Vector | None:
    """Nodes with special resources (GPUs and the like) that this class does not ask for."""
    nodes = snapshot.nodes
    stamp = (nodes.version, nodes.layout, len(nodes.allocatable))
    kept = cls.cache.get("wasted")
    if isinstance(kept, tuple) and kept[0] == stamp:
        found: Vector | None = kept[1]
        return found
    found = _find_wasted(snapshot, cls)
    cls.cache["wasted"] = (stamp, found)
    return found


def _find_wasted(snapshot: Snapshot, cls: PodClass) -> Vector | None:
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


def _unpreferred(snapshot: Snapshot, cls: PodClass) -> Vector:
    """What the pod would rather not, and what pods already placed would rather not have of it."""
    liked = -SOFT_TAINT * node_rules.untolerated_taints(snapshot, cls, _discourages)
    affinity = cls.spec.affinity
    if affinity and affinity.node_affinity:
        for item in affinity.node_affinity.preferred:
            liked += item.weight * node_rules.term_mask(snapshot.nodes, item.preference)
    for weight, term in cls.preferred:
        liked += weight * pod_rules.by_domain(snapshot, term, snapshot.matching(term))
    for pod_count in snapshot.pod_counts.liking(cls):
        liked += pod_rules.by_domain(snapshot, pod_count.terms[0], pod_count)
    for spread in cls.spread:
        if not spread.required:
            liked -= np.minimum(pod_rules.skew(snapshot, cls, spread), 1000)
    liked = np.clip(liked, -MAX_PREFERENCE, MAX_PREFERENCE)
    disliked: Vector = (liked.max(initial=0) - liked) * UNPREFERRED
    return disliked
