"""Claims on the local cluster: each is bound to a folder of its own as soon as a pod wants it.

Run by `local/up.py`; a real cluster has provisioners. The class `local` is the default one: a claim
that names no class gets it. It binds when the scheduler has chosen a node, so a gang that does not
fit makes no volumes. All nodes are one machine and share the folder, whatever the access mode. The
folder outlives the claim: a claim of the same name finds its files again. Claims of any other
class, or of none (""), get volumes that somebody made, by the rules of `binding`.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from muster.api.kinds import Kind
from muster.api.meta import Key, Raw, key_of
from muster.control.manager import Manager
from muster.control.work_queue import WorkQueue
from muster.errors import AlreadyExists, NotFound
from muster.kube.watch.informer import Informer
from muster.local.controllers import volume_binding

if TYPE_CHECKING:
    from pathlib import Path

    from muster.kube.client import Client

CLAIMS: Kind[Raw] = Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", dict)
VOLUMES: Kind[Raw] = Kind("", "v1", "persistentvolumes", "PersistentVolume", dict, namespaced=False)
CLASSES: Kind[Raw] = Kind(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", dict, namespaced=False
)
CLASS = "local"
SELECTED_NODE = "volume.kubernetes.io/selected-node"


class VolumeClaims:
    def __init__(self, client: Client, folder: Path) -> None:
        self._client = client
        self._folder = folder
        self._claims: Informer[Any] = Informer(client, CLAIMS)
        self._volumes: Informer[Any] = Informer(client, VOLUMES)
        self._queue: WorkQueue[Key] = WorkQueue("claims")

    async def run(self) -> None:
        """Bind claims until cancelled."""
        with contextlib.suppress(AlreadyExists):
            await self._client.create(CLASSES, storage_class())
        self._claims.subscribe(lambda change: self._queue.add(key_of(change.current)))
        self._volumes.subscribe(lambda change: self._volume_changed(change.current))
        manager = Manager("claims")
        manager.informer(self._claims)
        manager.informer(self._volumes)
        manager.loop(self._queue, self.reconcile)
        await manager.run()

    def _volume_changed(self, volume: Raw) -> None:
        reference = volume["spec"].get("claimRef")
        if reference:
            self._queue.add(Key(reference.get("namespace", ""), reference.get("name", "")))
            return
        for claim in self._claims.all():
            if not is_bound(claim):
                self._queue.add(key_of(claim))

    async def reconcile(self, key: Key) -> None:
        claim = self._claims.get(key)
        await self._let_go(key, claim)
        if claim is None or is_bound(claim) or claim["metadata"].get("deletionTimestamp"):
            return
        if "storageClassName" not in claim["spec"] and not claim["spec"].get("volumeName"):
            await self._client.patch(CLAIMS, key, {"spec": {"storageClassName": CLASS}})
        elif wanted(claim):
            await self._bind(claim, await self._provide(claim))
        elif (found := volume_binding.choose_volume(claim, self._volumes.all())) is not None:
            await self._bind(claim, found)

    async def _let_go(self, key: Key, claim: Raw | None) -> None:
        """Volumes whose claim is gone: ours go with it, others are kept for nobody."""
        uid = claim["metadata"]["uid"] if claim is not None else None
        for volume in list(self._volumes.all()):
            left = volume["spec"].get("claimRef", {}).get("uid") not in (None, "", uid)
            if not left or not volume_binding.is_reserved_for(volume, key):
                continue
            name = Key("", volume["metadata"]["name"])
            with contextlib.suppress(NotFound):
                if volume["metadata"]["name"] == own_name(volume["spec"]["claimRef"]["uid"]):
                    await self._client.delete(VOLUMES, name, uid=volume["metadata"]["uid"])
                elif volume.get("status", {}).get("phase") != "Released":
                    await self._set_phase(name, "Released")

    async def _provide(self, claim: Raw) -> Raw:
        """The claim's own volume."""
        key = key_of(claim)
        body = volume(claim, str(self._folder / key.namespace / key.name))
        try:
            return await self._client.create(VOLUMES, body)
        except AlreadyExists:
            return body

    async def _bind(self, claim: Raw, volume: Raw) -> None:
        """Each write may be the last before a crash; all of them are made again until it is done.

        The volume names the claim first: two claims cannot get it.
        """
        key, name = key_of(claim), volume["metadata"]["name"]
        await self._client.patch(VOLUMES, Key("", name), {"spec": {"claimRef": reference(claim)}})
        await self._set_phase(Key("", name), "Bound")
        await self._client.patch(CLAIMS, key, {"spec": {"volumeName": name}})
        bound = {
            "phase": "Bound",
            "capacity": volume["spec"].get("capacity", {}),
            "accessModes": volume["spec"].get("accessModes", []),
        }
        await self._client.patch(CLAIMS, key, {"status": bound}, subresource="status")

    async def _set_phase(self, volume: Key, phase: str) -> None:
        await self._client.patch(
            VOLUMES, volume, {"status": {"phase": phase}}, subresource="status"
        )


def is_bound(claim: Raw) -> bool:
    return bool(claim.get("status", {}).get("phase") == "Bound")


def wanted(claim: Raw) -> bool:
    """Whether it is ours to make a volume for, and the scheduler has chosen where."""
    ours = claim["spec"].get("storageClassName") == CLASS and not claim["spec"].get("volumeName")
    chosen = SELECTED_NODE in (claim["metadata"].get("annotations") or {})
    return ours and chosen and not is_bound(claim)


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


def own_name(claim: str) -> str:
    """What the volume is called that is made for the claim of that uid."""
    return f"pvc-{claim}"


def volume(claim: Raw, folder: str) -> Raw:
    """The volume that is made for a claim."""
    spec = claim["spec"]
    return {
        "metadata": {"name": own_name(claim["metadata"]["uid"])},
        "spec": {
            "capacity": spec.get("resources", {}).get("requests", {"storage": "1Gi"}),
            "accessModes": spec.get("accessModes", []),
            "storageClassName": CLASS,
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": folder, "type": "DirectoryOrCreate"},
            "claimRef": reference(claim),
        },
    }


def reference(claim: Raw) -> Raw:
    metadata = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
