"""Where a class of pods may go by the pods that are already placed: ports, affinity and spread.

The counts come from `cluster.pod_counts`; here they become masks over the nodes. They change with
every placed copy, so coupled classes ask again after each one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from muster.scheduler.placement.node_rules import (
    matches_selector,
    tolerates_taints,
)

if TYPE_CHECKING:
    from muster.scheduler.cluster.nodes import Codes, Mask
    from muster.scheduler.cluster.pod_class import PodClass, PodTerm, SpreadTerm, Vector
    from muster.scheduler.cluster.pod_counts import PodCount
    from muster.scheduler.cluster.snapshot import Snapshot


def has_host_ports(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes where every wanted host port is free."""
    mask = np.ones(len(snapshot.nodes), np.bool_)
    for port in cls.ports:
        mask[snapshot.pod_counts.rows_using(port)] = False
    return mask


def meets_affinity(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes in a domain that has the pods required affinity asks for.

    Where there are several terms a pod counts only if it matches all of them. The first pod of a
    group that wants itself near may go anywhere, or no such group could start; pods on nodes
    outside all domains do not make it a later one.
    """
    nodes = snapshot.nodes
    mask = np.ones(len(nodes), np.bool_)
    if not cls.affinity:
        return mask
    pod_count = snapshot.matching(*cls.affinity)
    labelled = [nodes.column(term.topology).codes > 0 for term in cls.affinity]
    first = pod_count.matches(cls) and not any(pod_count.counts[here].any() for here in labelled)
    for term, here in zip(cls.affinity, labelled, strict=True):
        mask &= here if first else here & (by_domain(snapshot, term, pod_count) > 0)
    return mask


def meets_anti_affinity(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes in no domain that has the pods required anti-affinity forbids."""
    mask = np.ones(len(snapshot.nodes), np.bool_)
    for term in cls.anti_affinity:
        mask &= by_domain(snapshot, term, snapshot.matching(term)) <= 0
    return mask


def meets_others_anti_affinity(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes in no domain with a pod whose own anti-affinity forbids this one."""
    mask = np.ones(len(snapshot.nodes), np.bool_)
    for pod_count in snapshot.pod_counts.forbidding(cls):
        if pod_count.counts.any():
            mask &= by_domain(snapshot, pod_count.terms[0], pod_count) <= 0
    return mask


def meets_topology_spread(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes where one more copy keeps every required spread within its skew."""
    mask = np.ones(len(snapshot.nodes), np.bool_)
    for item in cls.spread:
        if item.required:
            mask &= skew(snapshot, cls, item) <= item.max_skew
    return mask


def by_domain(snapshot: Snapshot, term: PodTerm, pod_count: PodCount) -> Vector:
    """Counts per node summed over the node's domain; zero where the node has no such label."""
    column = snapshot.nodes.column(term.topology)
    if column.distinct():
        return pod_count.counts
    found = pod_count.sums(snapshot.nodes, term.topology)[column.codes]
    found[column.codes == 0] = 0
    return found


NO_DOMAIN = 1 << 40


def skew(snapshot: Snapshot, cls: PodClass, item: SpreadTerm) -> Vector:
    """The skew each node would have after one more copy; enormous where it has no such domain."""
    column = snapshot.nodes.column(item.pods.topology)
    pod_count = snapshot.matching(item.pods, living=True)
    counted, there = _spread_view(snapshot, cls, item)
    sums = pod_count.sums(snapshot.nodes, item.pods.topology)
    if counted is not None:
        sums = np.bincount(column.codes, pod_count.counts * counted, len(column.values))
        sums = sums.astype(np.int64)
    enough = len(there) and len(there) >= item.min_domains
    least = int(sums[there].min()) if enough else 0
    own = 1 if pod_count.matches(cls) else 0
    by_code = sums + (own - least)
    by_code[0] = NO_DOMAIN
    return by_code[column.codes]


def _spread_view(snapshot: Snapshot, cls: PodClass, item: SpreadTerm) -> tuple[Mask | None, Codes]:
    """The nodes whose pods a spread counts (None for all) and its domains, cached for the class."""
    stamp = (snapshot.nodes.version, snapshot.nodes.layout)
    cached = cls.cache.get(repr(item))
    if isinstance(cached, tuple) and cached[0] == stamp:
        return cached[1], cached[2]
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
