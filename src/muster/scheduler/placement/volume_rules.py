"""Which claim gets which of the volumes that exist: each volume goes to one claim.

Asked by `near` during a trial, for claims that placed pods wait for, and by `provision` once a
plan stands. Theory: a maximum matching, grown claim by claim along augmenting paths, so a claim
that has a volume keeps one. Claims that only an existing volume can satisfy come first, small
before large; each would rather have the smallest volume that suits it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from muster.scheduler.placement.node_rules import can_provision, reaches_volume

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from muster.api.meta import Key
    from muster.api.storage import PersistentVolume, VolumeClaim
    from muster.scheduler.cluster.snapshot import Snapshot


class PendingClaim(NamedTuple):
    """A claim that waits for a volume, and the rows of the pods that use it."""

    claim: VolumeClaim
    rows: tuple[int, ...]


def promised_volumes(snapshot: Snapshot, but: Collection[Key]) -> set[str]:
    """The volumes of claims that nothing else would satisfy, of pods that have a place.

    In this trial or by a room kept. A claim for which a volume can be made gives way to others.
    """
    volumes = snapshot.volumes
    placed = ((volumes.claims.get(key), rows) for key, rows in snapshot.tallies.claims.items())
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
    rows = tuple(snapshot.tallies.claims.get(claim.metadata.key, ()))
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
