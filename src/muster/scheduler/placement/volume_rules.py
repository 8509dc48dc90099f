"""Where a class of pods may go by its volume claims, and which claim gets which existing volume.

A bound claim restricts its pods to nodes that reach its volume; a waiting claim to nodes where a
suitable volume exists or can be provisioned; attach limits and single-pod claims count the pods
already placed.

Volumes are given to claims by a maximum matching, grown claim by claim along augmenting paths: a
claim that has a volume keeps one, perhaps another. Claims that only an existing volume can satisfy
come first, small before large; each prefers the smallest volume that suits it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kubekit.objects.affinity import SelectorRequirement
from kubekit.objects.storage import ZONES
from muster.scheduler.placement.node_rules import any_term, label_mask

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from kubekit.objects.meta import Key
    from kubekit.objects.storage import PersistentVolume, VolumeClaim
    from muster.scheduler.cluster.nodes import Mask, NodeTable
    from muster.scheduler.cluster.pod_class import PodClass
    from muster.scheduler.cluster.snapshot import Snapshot


def reaches_volumes(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes that reach every volume of the class, and can get every volume it lacks."""
    mask = np.ones(len(snapshot.nodes), np.bool_)
    for claim in snapshot.volumes.known(cls.namespace, cls.claims):
        mask &= _claim_mask(snapshot, claim)
    return mask


def _claim_mask(snapshot: Snapshot, claim: VolumeClaim) -> Mask:
    volumes, nodes = snapshot.volumes, snapshot.nodes
    volume = volumes.volumes.get(claim.spec.volume_name)
    if volume is not None:
        return reaches_volume(snapshot, volume)
    if not volumes.waits(claim):
        return np.ones(len(nodes), np.bool_)
    mask = can_provision(snapshot, claim)
    for candidate in volumes.candidates(claim):
        mask |= reaches_volume(snapshot, candidate)
    return mask


def can_provision(snapshot: Snapshot, claim: VolumeClaim) -> Mask:
    """Nodes where a volume can be provisioned for a claim; none if it has a chosen volume."""
    if snapshot.volumes.promised(claim) is not None:
        return np.zeros(len(snapshot.nodes), np.bool_)
    storage = snapshot.volumes.classes.get(claim.spec.storage_class_name)
    mask = np.full(len(snapshot.nodes), snapshot.volumes.can_be_made(claim))
    if storage is not None and storage.allowed is not None:
        mask &= any_term(snapshot.nodes, storage.allowed)
    return mask


def reaches_volume(snapshot: Snapshot, volume: PersistentVolume) -> Mask:
    """Nodes that reach a volume, by its node affinity and its zone labels."""
    nodes, cache = snapshot.nodes, snapshot.volumes.reach
    cached = cache.get(volume.metadata.name)
    if cached is not None and cached[0] == nodes.stamp and cached[1] is volume:
        return cached[2]
    affinity = volume.spec.node_affinity
    mask = np.ones(len(nodes), np.bool_)
    if affinity is not None and affinity.required is not None:
        mask &= any_term(nodes, affinity.required)
    mask &= _zone_mask(nodes, volume)
    cache[volume.metadata.name] = (nodes.stamp, volume, mask)
    return mask


def _zone_mask(nodes: NodeTable, volume: PersistentVolume) -> Mask:
    """Nodes in the zones of a volume's labels.

    A node without zone labels is in all zones; an old zone label matches its new name too.
    """
    mask = np.ones(len(nodes), np.bool_)
    for key, values in volume.zones.items():
        here = SelectorRequirement(key, "In", tuple(values))
        renamed = SelectorRequirement(ZONES[key], "In", tuple(values))
        named = label_mask(nodes, SelectorRequirement(key, "Exists"))
        mask &= np.where(named, label_mask(nodes, here), label_mask(nodes, renamed))
    if not volume.zones:
        return mask
    labelled = np.zeros(len(nodes), np.bool_)
    for key in ZONES:
        labelled |= label_mask(nodes, SelectorRequirement(key, "Exists"))
    return mask | ~labelled


def has_exclusive_claims(snapshot: Snapshot, cls: PodClass) -> Mask:
    """All nodes, or none if another pod uses a claim that is for one pod alone."""
    taken = any(
        snapshot.pod_counts.users(key)
        for key in snapshot.volumes.exclusive(cls.namespace, cls.claims)
    )
    return np.full(len(snapshot.nodes), not taken)


def has_free_volumes(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes where the waiting claims of the class get volumes that other claims do not need."""
    mask = np.ones(len(snapshot.nodes), np.bool_)
    waiting = snapshot.volumes.waiting(cls.namespace, cls.claims)
    if not waiting:
        return mask
    own = {claim.metadata.key for claim in waiting}
    taken = promised_volumes(snapshot, own)
    free = [(claim, free_volumes(snapshot, claim, taken)) for claim in waiting]
    for claim, volumes in free:
        reached = can_provision(snapshot, claim) & _where_selected(snapshot, claim)
        for volume in volumes:
            reached |= reaches_volume(snapshot, volume)
        mask &= reached
    if len(free) > 1:  # two claims of a pod must not count on the same volume
        for row in np.flatnonzero(mask):
            mask[row] = all_matched(snapshot, free, int(row))
    return mask


def _where_selected(snapshot: Snapshot, claim: VolumeClaim) -> Mask:
    """The node for which a volume is provisioned: the first pod that uses it must go there."""
    rows = snapshot.nodes.rows_of([snapshot.volumes.pinned(claim)])
    mask = np.ones(len(snapshot.nodes), np.bool_)
    if rows and rows[0] not in snapshot.pod_counts.claims.get(claim.metadata.key, ()):
        mask[:] = False
        mask[rows] = True
    return mask


def has_attach_slots(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes whose drivers can attach the volumes that are not attached there already."""
    mask = np.ones(len(snapshot.nodes), np.bool_)
    limits, handles = snapshot.volumes.limits, snapshot.volumes.handles(cls.namespace, cls.claims)
    for driver in {driver for driver, _ in handles} & limits.keys():
        wanted = {handle for owner, handle in handles if owner == driver}
        attached = _attached(snapshot, driver)
        for name, limit in limits[driver].items():
            for row in snapshot.nodes.rows_of([name]):
                mask[row] &= len(attached.get(row, set()) | wanted) <= limit
    return mask


def _attached(snapshot: Snapshot, driver: str) -> dict[int, set[str]]:
    """The volumes of one driver that pods use, by row; a shared volume counts once per node."""
    attached: dict[int, set[str]] = {}
    for key, rows in snapshot.pod_counts.claims.items():
        for owner, handle in snapshot.volumes.handles(key.namespace, (key.name,)):
            if owner == driver:
                for row in rows:
                    attached.setdefault(row, set()).add(handle)
    return attached


class PendingClaim(NamedTuple):
    """A claim that waits for a volume, and the rows of the pods that use it."""

    claim: VolumeClaim
    rows: tuple[int, ...]


def promised_volumes(snapshot: Snapshot, but: Collection[Key]) -> set[str]:
    """The volumes that placed pods' claims need, because nothing else would satisfy them.

    Pods are placed by this trial, by a hold or by a bind. A claim for which a volume can be
    provisioned gives way to others.
    """
    volumes = snapshot.volumes
    placed = ((volumes.claims.get(key), rows) for key, rows in snapshot.pod_counts.claims.items())
    pending = [
        PendingClaim(claim, tuple(rows))
        for claim, rows in placed
        if claim is not None and rows and claim.metadata.key not in but and volumes.waits(claim)
    ]
    needy = [claim for claim in pending if not _can_be_provisioned(snapshot, claim)]
    return set(match_volumes(snapshot, needy).values())


def match_volumes(snapshot: Snapshot, pending: Iterable[PendingClaim]) -> dict[Key, str]:
    """The volume that each claim gets; a claim for which there is none is left out."""
    order = sorted(
        (_can_be_provisioned(snapshot, item), item.claim.size, item.claim.metadata.key, item)
        for item in pending
    )
    volumes = {
        key: [volume.metadata.name for volume in _reached_by(snapshot, *item)]
        for *_, key, item in order
    }
    return _maximum_matching(volumes)


def free_volumes(
    snapshot: Snapshot, claim: VolumeClaim, taken: Collection[str]
) -> list[PersistentVolume]:
    """The volumes a claim could get beside those taken, reached by the pods that share it."""
    rows = snapshot.pod_counts.claims.get(claim.metadata.key, ())
    volumes = _reached_by(snapshot, claim, rows)
    return [volume for volume in volumes if volume.metadata.name not in taken]


def all_matched(
    snapshot: Snapshot, free: Sequence[tuple[VolumeClaim, list[PersistentVolume]]], row: int
) -> bool:
    """Whether each claim of one pod gets a volume on a row, or can have one provisioned."""
    volumes = {
        claim.metadata.key: [v.metadata.name for v in volumes if reaches_volume(snapshot, v)[row]]
        for claim, volumes in free
        if not can_provision(snapshot, claim)[row]
    }
    return len(_maximum_matching(volumes)) == len(volumes)


def _can_be_provisioned(snapshot: Snapshot, pending: PendingClaim) -> bool:
    return bool(can_provision(snapshot, pending.claim)[list(pending.rows)].all())


def _reached_by(
    snapshot: Snapshot, claim: VolumeClaim, rows: Collection[int]
) -> list[PersistentVolume]:
    """The volumes that suit a claim and that all these rows reach, the smallest first."""
    suited = snapshot.volumes.candidates(claim)
    return [volume for volume in suited if reaches_volume(snapshot, volume)[list(rows)].all()]


def _maximum_matching(candidates: Mapping[Key, Sequence[str]]) -> dict[Key, str]:
    """A volume for as many claims as possible, each from its own candidates."""
    owner: dict[str, Key] = {}

    def find(key: Key, tried: set[str]) -> bool:
        # A volume that has an owner is free after all if its owner finds another one.
        for name in candidates[key]:
            if name not in tried:
                tried.add(name)
                if name not in owner or find(owner[name], tried):
                    owner[name] = key
                    return True
        return False

    for key in candidates:
        find(key, set())
    return {key: name for name, key in owner.items()}
