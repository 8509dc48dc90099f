"""Where a class of pods may go, given the pods already placed: ports, affinity and spread.

`cluster.pod_counts` counts pods per node; the functions here turn the counts into masks over the
nodes. A mask holds only until the next copy is placed: coupled classes are placed copy by copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from muster.scheduler.placement.node_rules import matches_selector, tolerates_taints

if TYPE_CHECKING:
    from muster.scheduler.cluster.nodes import Codes, Mask
    from muster.scheduler.cluster.pod_class import PodClass, PodTerm, SpreadTerm, Vector
    from muster.scheduler.cluster.pod_counts import PodCount
    from muster.scheduler.cluster.snapshot import Snapshot


def has_host_ports(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes where every host port of the class is free."""
    mask = np.ones(len(snapshot.nodes), np.bool_)
    for port in cls.ports:
        mask[snapshot.pod_counts.rows_using(port)] = False
    return mask


def meets_affinity(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes in a domain with the pods that required affinity names.

    With several terms, a pod counts only if it matches all of them. The first pod of a group with
    affinity to itself may go anywhere, or no such group could start; pods on nodes without the
    topology label do not count as a first one.
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
    """Nodes whose domain has none of the pods that required anti-affinity names."""
    mask = np.ones(len(snapshot.nodes), np.bool_)
    for term in cls.anti_affinity:
        mask &= by_domain(snapshot, term, snapshot.matching(term)) <= 0
    return mask


def meets_others_anti_affinity(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes whose domain has no pod with anti-affinity to this class."""
    mask = np.ones(len(snapshot.nodes), np.bool_)
    for pod_count in snapshot.pod_counts.forbidding.matching(cls):
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
    """Counts per node summed over the node's domain; zero for a node without the label."""
    column = snapshot.nodes.column(term.topology)
    if column.distinct():  # every node is its own domain: nothing to sum
        return pod_count.counts
    summed = pod_count.sums(snapshot.nodes, term.topology)[column.codes]
    summed[column.codes == 0] = 0
    return summed


NO_DOMAIN = 1 << 40
"""The skew of a node without the topology label: above every allowed skew."""


def skew(snapshot: Snapshot, cls: PodClass, item: SpreadTerm) -> Vector:
    """The skew of each node's domain after one more copy there."""
    column = snapshot.nodes.column(item.pods.topology)
    pod_count = snapshot.matching(item.pods, living=True)
    counted, domains = _spread_view(snapshot, cls, item)
    sums = pod_count.sums(snapshot.nodes, item.pods.topology)
    if counted is not None:
        sums = np.bincount(column.codes, pod_count.counts * counted, len(column.values))
        sums = sums.astype(np.int64)
    # Kubernetes' rule: with fewer domains than minDomains the least count is taken to be zero.
    enough = len(domains) and len(domains) >= item.min_domains
    least = int(sums[domains].min()) if enough else 0
    own = 1 if pod_count.matches(cls) else 0
    by_code = sums + (own - least)
    by_code[0] = NO_DOMAIN
    return by_code[column.codes]


def _spread_view(snapshot: Snapshot, cls: PodClass, item: SpreadTerm) -> tuple[Mask | None, Codes]:
    """The nodes whose pods a spread counts (None for all) and the codes of its domains."""
    return cls.cached(item, snapshot.nodes.stamp, lambda: _find_spread_view(snapshot, cls, item))


def _find_spread_view(
    snapshot: Snapshot, cls: PodClass, item: SpreadTerm
) -> tuple[Mask | None, Codes]:
    mask = np.ones(len(snapshot.nodes), np.bool_)
    for other in cls.spread:
        if other.required or other is item:
            mask &= snapshot.nodes.column(other.pods.topology).codes > 0
    if item.honour_affinity:
        mask &= matches_selector(snapshot, cls)
    if item.honour_taints:
        mask &= tolerates_taints(snapshot, cls)
    domains = np.unique(snapshot.nodes.column(item.pods.topology).codes[mask])
    return None if mask.all() else mask, domains
