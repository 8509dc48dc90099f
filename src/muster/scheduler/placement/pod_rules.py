"""Where a class of pods may go by what other pods are: ports, affinity, spread, shared volumes.

Called by `filters` after every placed copy of a class that is coupled with other pods, and by
`scores`. The counts are in `tally`; here they become masks over the nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from muster.scheduler.placement import volume_rules
from muster.scheduler.placement.node_rules import (
    can_provision,
    matches_selector,
    reaches_volume,
    tolerates_taints,
)

if TYPE_CHECKING:
    from muster.api.storage import VolumeClaim
    from muster.scheduler.cluster.nodes import Codes, Mask
    from muster.scheduler.cluster.pod_class import PodClass, PodTerm, SpreadTerm, Vector
    from muster.scheduler.cluster.pod_counts import PodCount
    from muster.scheduler.cluster.snapshot import Snapshot


def has_host_ports(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes where every wanted host port is free."""
    mask = np.ones(len(snapshot.nodes), np.bool_)
    for port in cls.ports:
        mask[snapshot.tallies.rows_using(port)] = False
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
    tally = snapshot.matching(*cls.affinity)
    labelled = [nodes.column(term.topology).codes > 0 for term in cls.affinity]
    first = tally.matches(cls) and not any(tally.counts[here].any() for here in labelled)
    for term, here in zip(cls.affinity, labelled, strict=True):
        mask &= here if first else here & (by_domain(snapshot, term, tally) > 0)
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
    for tally in snapshot.tallies.forbidding(cls):
        if tally.counts.any():
            mask &= by_domain(snapshot, tally.terms[0], tally) <= 0
    return mask


def meets_topology_spread(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes where one more copy keeps every required spread within its skew."""
    mask = np.ones(len(snapshot.nodes), np.bool_)
    for item in cls.spread:
        if item.required:
            mask &= skew(snapshot, cls, item) <= item.max_skew
    return mask


def by_domain(snapshot: Snapshot, term: PodTerm, tally: PodCount) -> Vector:
    """Counts per node summed over the node's domain; zero where the node has no such label."""
    column = snapshot.nodes.column(term.topology)
    if column.distinct():
        return tally.counts
    found = tally.sums(snapshot.nodes, term.topology)[column.codes]
    found[column.codes == 0] = 0
    return found


NO_DOMAIN = 1 << 40


def skew(snapshot: Snapshot, cls: PodClass, item: SpreadTerm) -> Vector:
    """The skew each node would have after one more copy; enormous where it has no such domain."""
    column = snapshot.nodes.column(item.pods.topology)
    tally = snapshot.matching(item.pods, living=True)
    counted, there = _spread_view(snapshot, cls, item)
    sums = tally.sums(snapshot.nodes, item.pods.topology)
    if counted is not None:
        sums = np.bincount(column.codes, tally.counts * counted, len(column.values))
        sums = sums.astype(np.int64)
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


def has_exclusive_claims(snapshot: Snapshot, cls: PodClass) -> Mask:
    """No node at all where another pod uses a claim that is for one pod alone."""
    taken = any(
        snapshot.tallies.users(key) for key in snapshot.volumes.exclusive(cls.namespace, cls.claims)
    )
    return np.full(len(snapshot.nodes), not taken)


def has_free_volumes(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes where the volumes that its claims wait for are not promised to other claims."""
    mask = np.ones(len(snapshot.nodes), np.bool_)
    waiting = snapshot.volumes.waiting(cls.namespace, cls.claims)
    if not waiting:
        return mask
    own = {claim.metadata.key for claim in waiting}
    gone = volume_rules.promised_volumes(snapshot, own)
    asked = [(claim, volume_rules.free_volumes(snapshot, claim, gone)) for claim in waiting]
    for claim, volumes in asked:
        here = can_provision(snapshot, claim) & _where_selected(snapshot, claim)
        for volume in volumes:
            here |= reaches_volume(snapshot, volume)
        mask &= here
    if len(asked) > 1:
        for row in np.flatnonzero(mask):
            mask[row] = volume_rules.all_matched(snapshot, asked, int(row))
    return mask


def _where_selected(snapshot: Snapshot, claim: VolumeClaim) -> Mask:
    """A volume is made for one node, where the first pod of those that share it must go."""
    rows = snapshot.nodes.rows_of([snapshot.volumes.pinned(claim)])
    mask = np.ones(len(snapshot.nodes), np.bool_)
    if rows and rows[0] not in snapshot.tallies.claims.get(claim.metadata.key, ()):
        mask[:] = False
        mask[rows] = True
    return mask


def has_attach_slots(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes whose drivers can attach the volumes that are not attached there already."""
    mask = np.ones(len(snapshot.nodes), np.bool_)
    limits, wanted = snapshot.volumes.limits, snapshot.volumes.handles(cls.namespace, cls.claims)
    for driver in sorted({driver for driver, _ in wanted}):
        if driver not in limits:
            continue
        mine = {handle for owner, handle in wanted if owner == driver}
        attached = _attached(snapshot, driver)
        for row, name in enumerate(snapshot.nodes.names):
            most = limits[driver].get(name)
            if most is not None and len(attached.get(row, set()) | mine) > most:
                mask[row] = False
    return mask


def _attached(snapshot: Snapshot, driver: str) -> dict[int, set[str]]:
    """The volumes of one driver that pods use, by row: each counts once however many share it."""
    found: dict[int, set[str]] = {}
    for key, rows in snapshot.tallies.claims.items():
        for owner, handle in snapshot.volumes.handles(key.namespace, (key.name,)):
            if owner == driver:
                for row in rows:
                    found.setdefault(row, set()).add(handle)
    return found
