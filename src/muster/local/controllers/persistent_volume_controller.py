"""Volume claims on the local cluster: provisions directories, binds existing volumes.

The storage class `local` is the default: a claim without a class gets it. Such a claim is bound to
a directory of its own when the scheduler has chosen a node, so a gang that does not fit creates no
volumes. All nodes are one machine and share the directory, whatever the access mode. The directory
outlives the claim: a new claim of the same name finds its files again. Claims of another class, or
of none (""), are bound to existing volumes (`volume_binding`).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from muster.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from muster.api.meta import Key, Raw, key_of
from muster.api.storage import SELECTED_NODE
from muster.errors import AlreadyExists, NotFound
from muster.kube.watch.informer import Informer
from muster.local.controllers import volume_matching

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from muster.kube.client import Client

CLASS = "local"


class VolumeClaims:
    def __init__(self, client: Client, folder: Path) -> None:
        self._client = client
        self._folder = folder
        self.claims: Informer[Raw] = Informer(client, PERSISTENT_VOLUME_CLAIMS)
        self.volumes: Informer[Raw] = Informer(client, PERSISTENT_VOLUMES)

    def connect(self, wake: Callable[[Key], None]) -> None:
        """Wake a claim when it or its volume changes; all unbound ones when a volume is free."""

        def volume_changed(volume: Raw) -> None:
            reference = volume["spec"].get("claimRef")
            if reference:
                wake(Key(reference.get("namespace", ""), reference.get("name", "")))
                return
            for claim in self.claims.all():
                if not is_bound(claim):
                    wake(key_of(claim))

        self.claims.subscribe(lambda change: wake(key_of(change.current)))
        self.volumes.subscribe(lambda change: volume_changed(change.current))

    async def create_class(self) -> None:
        with contextlib.suppress(AlreadyExists):
            await self._client.create(STORAGE_CLASSES, storage_class())

    async def reconcile(self, key: Key) -> None:
        claim = self.claims.get(key)
        await self._release_volumes(key, claim)
        if claim is None or is_bound(claim) or claim["metadata"].get("deletionTimestamp"):
            return
        if "storageClassName" not in claim["spec"] and not claim["spec"].get("volumeName"):
            change = {"spec": {"storageClassName": CLASS}}
            await self._client.patch(PERSISTENT_VOLUME_CLAIMS, key, change)
        elif needs_volume(claim):
            await self._bind(claim, await self._provision(claim))
        elif (volume := volume_matching.choose_volume(claim, self.volumes.all())) is not None:
            await self._bind(claim, volume)

    async def _release_volumes(self, key: Key, claim: Raw | None) -> None:
        """Delete provisioned volumes whose claim is gone; mark others as Released."""
        uid = claim["metadata"]["uid"] if claim is not None else None
        for volume in list(self.volumes.all()):
            current = volume["spec"].get("claimRef", {}).get("uid") in (None, "", uid)
            if current or not volume_matching.is_reserved_for(volume, key):
                continue
            name = Key("", volume["metadata"]["name"])
            with contextlib.suppress(NotFound):
                if name.name == volume_name(volume["spec"]["claimRef"]["uid"]):
                    uid_of_volume = volume["metadata"]["uid"]
                    await self._client.delete(PERSISTENT_VOLUMES, name, uid=uid_of_volume)
                elif volume.get("status", {}).get("phase") != "Released":
                    await self._set_phase(name, "Released")

    async def _provision(self, claim: Raw) -> Raw:
        key = key_of(claim)
        body = provisioned_volume(claim, str(self._folder / key.namespace / key.name))
        try:
            return await self._client.create(PERSISTENT_VOLUMES, body)
        except AlreadyExists:
            return body

    async def _bind(self, claim: Raw, volume: Raw) -> None:
        """A crash may happen after each write; all writes are repeated until the claim is bound.

        The volume is patched first, so that two claims cannot get it.
        """
        key, name = key_of(claim), Key("", volume["metadata"]["name"])
        change = {"spec": {"claimRef": claim_reference(claim)}}
        await self._client.patch(PERSISTENT_VOLUMES, name, change)
        await self._set_phase(name, "Bound")
        await self._client.patch(PERSISTENT_VOLUME_CLAIMS, key, {"spec": {"volumeName": name.name}})
        status = {
            "phase": "Bound",
            "capacity": volume["spec"].get("capacity", {}),
            "accessModes": volume["spec"].get("accessModes", []),
        }
        await self._client.patch(
            PERSISTENT_VOLUME_CLAIMS, key, {"status": status}, subresource="status"
        )

    async def _set_phase(self, volume: Key, phase: str) -> None:
        await self._client.patch(
            PERSISTENT_VOLUMES, volume, {"status": {"phase": phase}}, subresource="status"
        )


def is_bound(claim: Raw) -> bool:
    return bool(claim.get("status", {}).get("phase") == "Bound")


def needs_volume(claim: Raw) -> bool:
    """Whether to provision a volume: the claim has our class, and the scheduler chose a node."""
    ours = claim["spec"].get("storageClassName") == CLASS and not claim["spec"].get("volumeName")
    selected = SELECTED_NODE in (claim["metadata"].get("annotations") or {})
    return ours and selected and not is_bound(claim)


def storage_class() -> Raw:
    return {
        "metadata": {
            "name": CLASS,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "muster.dev/folder",
        "reclaimPolicy": "Retain",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def volume_name(claim_uid: str) -> str:
    """The name of the volume that is provisioned for a claim."""
    return f"pvc-{claim_uid}"


def provisioned_volume(claim: Raw, folder: str) -> Raw:
    """The volume that is provisioned for a claim."""
    spec = claim["spec"]
    return {
        "metadata": {"name": volume_name(claim["metadata"]["uid"])},
        "spec": {
            "capacity": spec.get("resources", {}).get("requests", {"storage": "1Gi"}),
            "accessModes": spec.get("accessModes", []),
            "storageClassName": CLASS,
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": folder, "type": "DirectoryOrCreate"},
            "claimRef": claim_reference(claim),
        },
    }


def claim_reference(claim: Raw) -> Raw:
    metadata = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
