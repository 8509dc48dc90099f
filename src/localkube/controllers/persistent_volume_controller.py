"""Volume claims on the local cluster: provisions directories, binds existing volumes.

The storage class `local` is the default: a claim without a class gets it. A claim of this class is
bound to its own directory when the scheduler has chosen a node, so pods that are never bound
create no volumes. All nodes are one machine and share the directory, whatever the access mode. The
directory outlives the claim: a new claim of the same name finds its files again.

Claims of another class, or of none (""), are bound to existing volumes, by Kubernetes' rules: the
smallest volume that is free and matches the claim (`PersistentVolume.matches`) is chosen. A volume
that names a claim is for this claim only and comes first. A claim that names a volume gets this
volume or none, whatever its size.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import msgspec

from kubekit.objects.kinds import PERSISTENT_VOLUME_CLAIMS, STORAGE_CLASSES
from kubekit.objects.meta import Key, Raw, key_of
from kubekit.objects.storage import (
    VOLUMES,
    PersistentVolume,
    VolumeClaim,
    claim_ref,
    claim_ref_patch,
)
from kubekit.request_errors import AlreadyExists, NotFound
from kubekit.watch.informer import Informer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from kubekit.client.client import Client
    from kubekit.watch.informer_cache import Change


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


CLASS = "local"
_CLASS_MANIFEST: Raw = {
    "metadata": {
        "name": CLASS,
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
    },
    "provisioner": "muster.dev/folder",
    "reclaimPolicy": "Retain",
    "volumeBindingMode": "WaitForFirstConsumer",
}


class PersistentVolumeController:
    def __init__(self, client: Client, claims: Informer[Raw], folder: Path) -> None:
        self._client = client
        self._folder = folder
        self.claims = claims
        self.volumes: Informer[PersistentVolume] = Informer(client, VOLUMES)

    def connect(self, wake: Callable[[Key], None]) -> None:
        """Wake a claim when it or its volume changes; all unbound claims when a volume is free."""

        def on_volume(change: Change[PersistentVolume]) -> None:
            if change.current.owner is not None:
                wake(change.current.owner)
                return
            for claim in self.claims.all():
                if claim.get("status", {}).get("phase") != "Bound":
                    wake(key_of(claim))

        self.claims.subscribe(lambda change: wake(key_of(change.current)))
        self.volumes.subscribe(on_volume)

    async def create_class(self) -> None:
        with contextlib.suppress(AlreadyExists):
            await self._client.create(STORAGE_CLASSES, _CLASS_MANIFEST)

    async def reconcile(self, key: Key) -> None:
        raw = self.claims.get(key)
        claim = None if raw is None else msgspec.convert(raw, VolumeClaim)
        await self._release_volumes(key, "" if claim is None else claim.metadata.uid)
        if raw is None or claim is None or claim.metadata.deletion_timestamp is not None:
            return
        if claim.status.phase == "Bound":
            return
        # kube-apiserver sets the default class at admission; ours leaves that to this controller.
        if "storageClassName" not in raw["spec"] and not claim.spec.volume_name:
            change = {"spec": {"storageClassName": CLASS}}
            await self._client.patch(PERSISTENT_VOLUME_CLAIMS, key, change)
        elif needs_volume(claim):
            await self._bind(claim, await self._provision(claim))
        elif (volume := choose_volume(claim, self.volumes.all())) is not None:
            await self._bind(claim, volume)

    async def _release_volumes(self, claim: Key, uid: str) -> None:
        """Delete provisioned volumes whose claim is gone; mark others as Released.

        `uid` is that of the claim that has the name now: an earlier claim of this name is gone.
        """
        # A copy, because the writes below wait and the informer may change.
        for volume in list(self.volumes.all()):
            reference, meta = volume.spec.claim_ref, volume.metadata
            if reference is None or reference.uid in ("", uid) or volume.owner != claim:
                continue
            with contextlib.suppress(NotFound):
                if meta.name == volume_name(reference.uid):
                    await self._client.delete(VOLUMES, meta.key, uid=meta.uid)
                elif volume.status.phase != "Released":
                    await self._set_phase(volume, "Released")

    async def _provision(self, claim: VolumeClaim) -> PersistentVolume:
        meta = claim.metadata
        body = provisioned_volume(claim, str(self._folder / meta.namespace / meta.name))
        try:
            return await self._client.create(VOLUMES, body)
        except AlreadyExists:
            return await self._client.get(VOLUMES, Key("", volume_name(meta.uid)))

    async def _bind(self, claim: VolumeClaim, volume: PersistentVolume) -> None:
        """A crash may happen after each write; all writes are repeated until the claim is bound.

        The volume is patched first, so that two claims cannot get it: a volume that another claim
        got in between raises Conflict, and the claim is tried again later.
        """
        await self._client.patch(VOLUMES, volume.metadata.key, claim_ref_patch(volume, claim))
        await self._set_phase(volume, "Bound")
        key, name = claim.metadata.key, volume.metadata.name
        await self._client.patch(PERSISTENT_VOLUME_CLAIMS, key, {"spec": {"volumeName": name}})
        status = {
            "phase": "Bound",
            "capacity": volume.spec.capacity,
            "accessModes": volume.spec.access_modes,
        }
        await self._client.patch(
            PERSISTENT_VOLUME_CLAIMS, key, {"status": status}, subresource="status"
        )

    async def _set_phase(self, volume: PersistentVolume, phase: str) -> None:
        change = {"status": {"phase": phase}}
        await self._client.patch(VOLUMES, volume.metadata.key, change, subresource="status")


def needs_volume(claim: VolumeClaim) -> bool:
    """Whether to provision a volume: the claim has our class, and the scheduler chose a node."""
    ours = claim.spec.storage_class_name == CLASS and not claim.spec.volume_name
    return ours and bool(claim.selected) and claim.status.phase != "Bound"


def volume_name(claim_uid: str) -> str:
    """The name of the volume that is provisioned for a claim."""
    return f"pvc-{claim_uid}"


def provisioned_volume(claim: VolumeClaim, folder: str) -> Raw:
    """The volume that is provisioned for a claim."""
    return {
        "metadata": {"name": volume_name(claim.metadata.uid)},
        "spec": {
            "capacity": claim.spec.resources.requests or {"storage": "1Gi"},
            "accessModes": claim.spec.access_modes,
            "storageClassName": CLASS,
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": folder, "type": "DirectoryOrCreate"},
            "claimRef": claim_ref(claim),
        },
    }
