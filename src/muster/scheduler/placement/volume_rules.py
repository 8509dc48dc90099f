"""Where a class of pods may go by its volume claims, and which claim gets which existing volume.

A bound claim restricts its pods to nodes that reach its volume; a waiting claim to nodes where a
suitable volume exists or can be provisioned; attach limits and single-pod claims count the pods
already placed.

Theory of the choice: a maximum matching of claims and volumes, grown claim by claim along
augmenting paths, so a claim that has a volume keeps one. Claims that only an existing volume can
satisfy come first, small before large; each prefers the smallest volume that suits it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from muster.api.affinity import SelectorRequirement
from muster.api.storage import ZONES
from muster.scheduler.placement.node_rules import any_term, label_mask

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from muster.api.meta import Key
    from muster.api.storage import PersistentVolume, VolumeClaim
    from muster.scheduler.cluster.nodes import Mask, NodeTable
    from muster.scheduler.cluster.pod_class import PodClass
    from muster.scheduler.cluster.snapshot import Snapshot


def reaches_volumes(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes where every volume of the class can be reached, and every one it lacks can be had."""
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
    """Nodes where a volume can be made for a claim; none where it is promised one that exists."""
    if snapshot.volumes.promised(claim) is not None:
        return np.zeros(len(snapshot.nodes), np.bool_)
    storage = snapshot.volumes.classes.get(claim.spec.storage_class_name)
    mask = np.full(len(snapshot.nodes), snapshot.volumes.can_be_made(claim))
    if storage is not None and storage.allowed is not None:
        mask &= any_term(snapshot.nodes, storage.allowed)
    return mask


def reaches_volume(snapshot: Snapshot, volume: PersistentVolume) -> Mask:
    """Nodes from which a volume can be reached: its node affinity, and its labels of zones."""
    nodes, cached = snapshot.nodes, snapshot.volumes.reach
    stamp = (nodes.version, nodes.layout)
    found = cached.get(volume.metadata.name)
    if found is not None and found[0] == stamp and found[1] is volume:
        return found[2]
    affinity = volume.spec.node_affinity
    mask = np.ones(len(nodes), np.bool_)
    if affinity is not None and affinity.required is not None:
        mask &= any_term(nodes, affinity.required)
    mask &= _zone_mask(nodes, volume)
    cached[volume.metadata.name] = (stamp, volume, mask)
    return mask


def _zone_mask(nodes: NodeTable, volume: PersistentVolume) -> Mask:
    """A node that says nothing of zones is in all of them; an old label also meets its new name."""
    mask = np.ones(len(nodes), np.bool_)
    for key, values in volume.zones.items():
        here = SelectorRequirement(key, "In", tuple(values))
        renamed = SelectorRequirement(ZONES[key], "In", tuple(values))
        named = label_mask(nodes, SelectorRequirement(key, "Exists"))
        mask &= np.where(named, label_mask(nodes, here), label_mask(nodes, renamed))
    if not volume.zones:
        return mask
    says = np.zeros(len(nodes), np.bool_)
    for key in ZONES:
        says |= label_mask(nodes, SelectorRequirement(key, "Exists"))
    return mask | ~says


def has_exclusive_claims(snapshot: Snapshot, cls: PodClass) -> Mask:
    """No node at all where another pod uses a claim that is for one pod alone."""
    taken = any(
        snapshot.pod_counts.users(key)
        for key in snapshot.volumes.exclusive(cls.namespace, cls.claims)
    )
    return np.full(len(snapshot.nodes), not taken)


def has_free_volumes(snapshot: Snapshot, cls: PodClass) -> Mask:
    """Nodes where the volumes that its claims wait for are not promised to other claims."""
    mask = np.ones(len(snapshot.nodes), np.bool_)
    waiting = snapshot.volumes.waiting(cls.namespace, cls.claims)
    if not waiting:
        return mask
    own = {claim.metadata.key for claim in waiting}
    gone = promised_volumes(snapshot, own)
    asked = [(claim, free_volumes(snapshot, claim, gone)) for claim in waiting]
    for claim, volumes in asked:
        here = can_provision(snapshot, claim) & _where_selected(snapshot, claim)
        for volume in volumes:
            here |= reaches_volume(snapshot, volume)
        mask &= here
    if len(asked) > 1:
        for row in np.flatnonzero(mask):
            mask[row] = all_matched(snapshot, asked, int(row))
    return mask


def _where_selected(snapshot: Snapshot, claim: VolumeClaim) -> Mask:
    """A volume is made for one node, where the first pod of those that share it must go."""
    rows = snapshot.nodes.rows_of([snapshot.volumes.pinned(claim)])
    mask = np.ones(len(snapshot.nodes), np.bool_)
    if rows and rows[0] not in snapshot.pod_counts.claims.get(claim.metadata.key, ()):
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
    for key, rows in snapshot.pod_counts.claims.items():
        for owner, handle in snapshot.volumes.handles(key.namespace, (key.name,)):
            if owner == driver:
                for row in rows:
                    found.setdefault(row, set()).add(handle)
    return found


class PendingClaim(NamedTuple):
    """A claim that waits for a volume, and the rows of the pods that use it."""

    claim: VolumeClaim
    rows: tuple[int, ...]


def promised_volumes(snapshot: Snapshot, but: Collection[Key]) -> set[str]:
    """The volumes of claims that nothing else would satisfy, of pods that have a place.

    In this trial or by a hold. A claim for which a volume can be made gives way to others.
    """
    volumes = snapshot.volumes
    placed = ((volumes.claims.get(key), rows) for key, rows in snapshot.pod_counts.claims.items())
    asked = [
        PendingClaim(claim, tuple(rows))
        for claim, rows in placed
        if claim is not None and rows and claim.metadata.key not in but and volumes.waits(claim)
    ]
    return set(
        match_volumes(snapshot, [one for one in asked if not _can_be_made(snapshot, one)]).values()
    )


def match_volumes(snapshot: Snapshot, asked: Iterable[PendingClaim]) -> dict[Key, str]:
    """The volume that each claim gets; a claim for which there is none is left out."""
    order = sorted(
        asked,
        key=lambda one: (_can_be_made(snapshot, one), one.claim.size, one.claim.metadata.key),
    )
    return _maximum_matching({one.claim.metadata.key: _wishes(snapshot, one) for one in order})


def free_volumes(
    snapshot: Snapshot, claim: VolumeClaim, gone: Collection[str]
) -> list[PersistentVolume]:
    """The volumes a claim could get beside those gone, reached by the pods that share it."""
    rows = tuple(snapshot.pod_counts.claims.get(claim.metadata.key, ()))
    suited = snapshot.volumes.candidates(claim)
    return [
        volume
        for volume in suited
        if volume.metadata.name not in gone and reaches_volume(snapshot, volume)[list(rows)].all()
    ]


def all_matched(
    snapshot: Snapshot, asked: Sequence[tuple[VolumeClaim, list[PersistentVolume]]], row: int
) -> bool:
    """Whether the claims of one pod each find a volume on a row, or can have one made."""
    wishes = {
        claim.metadata.key: [v.metadata.name for v in volumes if reaches_volume(snapshot, v)[row]]
        for claim, volumes in asked
        if not can_provision(snapshot, claim)[row]
    }
    return len(_maximum_matching(wishes)) == len(wishes)


def _can_be_made(snapshot: Snapshot, asked: PendingClaim) -> bool:
    return bool(can_provision(snapshot, asked.claim)[list(asked.rows)].all())


def _wishes(snapshot: Snapshot, asked: PendingClaim) -> list[str]:
    return [
        volume.metadata.name
        for volume in snapshot.volumes.candidates(asked.claim)
        if reaches_volume(snapshot, volume)[list(asked.rows)].all()
    ]


def _maximum_matching(wishes: Mapping[Key, Sequence[str]]) -> dict[Key, str]:
    owner: dict[str, Key] = {}

    def find(key: Key, tried: set[str]) -> bool:
        for name in wishes[key]:
            if name not in tried:
                tried.add(name)
                if name not in owner or find(owner[name], tried):
                    owner[name] = key
                    return True
        return False

    for key in wishes:
        find(key, set())
    return {key: name for name, key in owner.items()}
