"""Where a class should go: a cost per node, least first, over the nodes where it may go.

What the user wrote outranks our defaults: first the preferences of the pod and of the pods already
placed ((anti-)affinity, spread, PreferNoSchedule taints). Gangs are then packed: into the racks
they use, onto the nodes they use, away from nodes whose special resources they would waste, and
where they fit most closely, so that large holes stay whole for large gangs. Each consideration has
its own step, larger than all that come after it, and the settings' weights multiply the steps.

Kept apart because whoever asks why a pod went to this node looks for the scores; `place` only asks
for their sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from muster.scheduler.cluster.pod_class import bounded_weight
from muster.scheduler.placement import affinity_and_spread, node_rules

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.objects.core import Taint
    from muster.scheduler.cluster.pod_class import PodClass, Vector
    from muster.scheduler.cluster.snapshot import Snapshot
    from muster.scheduler.placement.demand import NodePreference

FIRST_EXTENDED = 4
"""The columns before it are resources that every node has: cpu, memory, storage, pods."""

# Each step outranks the sum of all steps below it: copies per node stay below TIGHT, which is less
# than WASTED, and so on.

UNPREFERRED = 1 << 25
OTHER_RACK = 1 << 24
OTHER_NODE = 1 << 23
WASTED = 1 << 22
TIGHT = (1 << 20) - 1
MAX_PREFERENCE = 1 << 16
"""A preference weighs at most twice this: with the largest weight the whole cost fits 64 bits."""
SOFT_TAINT = 100
"""The weight of a PreferNoSchedule taint: that of the strongest preference of a pod."""


def cost(
    snapshot: Snapshot,
    cls: PodClass,
    copies: Vector,
    own: Iterable[int],
    preference: NodePreference,
) -> Vector:
    """The cost of each node for this class; `own` are the rows where the gang has pods or holds."""
    weights = preference.weights
    total = _scaled(np.minimum(copies, TIGHT), weights.tight)
    waste = _wasted(snapshot, cls)
    if waste is not None:
        total += _scaled(waste, weights.special)
    disliked = dislikes(snapshot, cls)
    if disliked is not None:
        total += _scaled(disliked * UNPREFERRED, weights.preferred)
    rows = list(own)
    if rows:
        other_node = int(OTHER_NODE * weights.together)
        total += other_node
        total[rows] -= other_node
        if preference.rack:
            codes = snapshot.nodes.column(preference.rack).codes
            total += np.where(np.isin(codes, codes[rows]), 0, int(OTHER_RACK * weights.rack))
    return total


def _scaled(vector: Vector, weight: float) -> Vector:
    return vector if weight == 1.0 else (vector * weight).astype(np.int64)


def dislikes(snapshot: Snapshot, cls: PodClass) -> Vector | None:
    """How little each node is preferred, 0 for the most preferred; None if nothing prefers."""
    return _unpreferred(snapshot, cls) if has_preferences(snapshot, cls) else None


def has_preferences(snapshot: Snapshot, cls: PodClass) -> bool:
    """Whether the pod, a node's taints or a placed pod prefer some nodes for this class."""
    soft = cls.preferred or _prefers_nodes(cls) or any(not s.required for s in cls.spread)
    tainted = any(_discourages(taint) for taints in snapshot.nodes.taint_sets for taint in taints)
    counts = snapshot.pod_counts
    return bool(soft or tainted or (counts.active and counts.liking.matching(cls)))


def _discourages(taint: Taint) -> bool:
    return taint.effect == "PreferNoSchedule"


def _wasted(snapshot: Snapshot, cls: PodClass) -> Vector | None:
    """The cost of nodes with special resources (GPUs, for instance) that the class does not use."""
    stamp = (*snapshot.nodes.stamp, len(snapshot.nodes.allocatable))
    return cls.cached("wasted", stamp, lambda: _find_wasted(snapshot, cls))


def _find_wasted(snapshot: Snapshot, cls: PodClass) -> Vector | None:
    allocatable = snapshot.nodes.allocatable
    others = [c for c in range(FIRST_EXTENDED, len(allocatable)) if c not in cls.columns]
    if not others:
        return None
    special = (allocatable[others] > 0).any(axis=0)
    return np.where(special, np.int64(WASTED), np.int64(0))


def _prefers_nodes(cls: PodClass) -> bool:
    affinity = cls.spec.affinity
    return bool(affinity and affinity.node_affinity and affinity.node_affinity.preferred)


def _unpreferred(snapshot: Snapshot, cls: PodClass) -> Vector:
    """The preferences of the pod and of the pods already placed: sums, counted from the best."""
    liked = -SOFT_TAINT * node_rules.untolerated_taints(snapshot, cls, _discourages)
    affinity = cls.spec.affinity
    if affinity and affinity.node_affinity:
        for item in affinity.node_affinity.preferred:
            weight = bounded_weight(item.weight)
            liked += weight * node_rules.term_mask(snapshot.nodes, item.preference)
    for weight, term in cls.preferred:
        liked += weight * affinity_and_spread.by_domain(snapshot, term, snapshot.matching(term))
    for pod_count in snapshot.pod_counts.liking.matching(cls):
        liked += affinity_and_spread.by_domain(snapshot, pod_count.terms[0], pod_count)
    for spread in cls.spread:
        if not spread.required:
            liked -= np.minimum(affinity_and_spread.skew(snapshot, cls, spread), 1000)
    liked = np.clip(liked, -MAX_PREFERENCE, MAX_PREFERENCE)
    disliked: Vector = liked.max(initial=0) - liked
    return disliked
