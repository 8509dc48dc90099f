"""Which existing volume a claim is bound to: pure, by Kubernetes' rules.

The smallest volume that is free and matches the claim (`PersistentVolume.matches`) is chosen. A
volume that names a claim is for this claim only and comes first. A claim that names a volume gets
this volume or none, whatever its size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.objects.storage import PersistentVolume, VolumeClaim


def choose_volume(
    claim: VolumeClaim, volumes: Iterable[PersistentVolume]
) -> PersistentVolume | None:
    """The volume for the claim; None if there is none yet."""
    fitting = (volume for volume in volumes if _is_free(claim, volume) and _fits(claim, volume))
    return min(fitting, key=lambda volume: (not volume.spec.claim_ref, volume.size), default=None)


def _is_free(claim: VolumeClaim, volume: PersistentVolume) -> bool:
    """Whether no other claim has or had it: data of an earlier claim is not for others."""
    if volume.spec.claim_ref is not None:
        return volume.is_claimed_by(claim)
    return volume.metadata.deletion_timestamp is None


def _fits(claim: VolumeClaim, volume: PersistentVolume) -> bool:
    if claim.spec.volume_name:
        return claim.spec.volume_name == volume.metadata.name
    return volume.matches(claim)
