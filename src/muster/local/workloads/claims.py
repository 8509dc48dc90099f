"""Claims on the local cluster: each is bound to a folder of its own as soon as a pod wants it.

Run by `local/up.py`; a real cluster has provisioners. The class `local` is the default one: a claim
that names no class gets it. It binds when the scheduler has chosen a node, so a gang that does not
fit makes no volumes. All nodes are one machine and share the folder, whatever the access mode. The
folder outlives the claim: a claim of the same name finds its files again.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from muster.api.kinds import Kind
from muster.api.meta import Key, Raw, key_of
from muster.control.manager import Manager
from muster.control.queue import WorkQueue
from muster.errors import AlreadyExists, NotFound
from muster.kube.informer import Informer

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


class Claims:
    def __init__(self, client: Client, folder: Path) -> None:
        self._client = client
        self._folder = folder
        self._claims: Informer[Any] = Informer(client, CLAIMS)

    async def run(self) -> None:
        """Bind claims until cancelled."""
        with contextlib.suppress(AlreadyExists):
            await self._client.create(CLASSES, storage_class())
        queue: WorkQueue[Key] = WorkQueue("claims")
        self._claims.subscribe(lambda change: queue.add(key_of(change.current)))
        manager = Manager("claims")
        manager.informer(self._claims)
        manager.loop(queue, self.reconcile)
        await manager.run()

    async def reconcile(self, key: Key) -> None:
        claim = self._claims.get(key)
        if claim is None:
            with contextlib.suppress(NotFound):
                await self._client.delete(VOLUMES, Key("", _volume_name(key)))
        elif "storageClassName" not in claim["spec"] and not claim["spec"].get("volumeName"):
            await self._client.patch(CLAIMS, key, {"spec": {"storageClassName": CLASS}})
        elif wanted(claim):
            await self._bind(key, claim)

    async def _bind(self, key: Key, claim: Raw) -> None:
        name = _volume_name(key)
        folder = self._folder / key.namespace / key.name
        with contextlib.suppress(AlreadyExists):
            await self._client.create(VOLUMES, volume(name, claim, str(folder)))
        await self._client.patch(
            VOLUMES, Key("", name), {"status": {"phase": "Bound"}}, subresource="status"
        )
        await self._client.patch(CLAIMS, key, {"spec": {"volumeName": name}})
        asked = claim["spec"].get("resources", {}).get("requests", {})
        bound = {
            "phase": "Bound",
            "capacity": asked,
            "accessModes": claim["spec"].get("accessModes", []),
        }
        await self._client.patch(CLAIMS, key, {"status": bound}, subresource="status")


def wanted(claim: Raw) -> bool:
    """Whether it is ours to bind, and the scheduler has chosen where."""
    spec = claim["spec"]
    ours = spec.get("storageClassName") == CLASS
    bound = claim.get("status", {}).get("phase") == "Bound"
    chosen = SELECTED_NODE in (claim["metadata"].get("annotations") or {})
    return ours and chosen and not bound and not claim["metadata"].get("deletionTimestamp")


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


def volume(name: str, claim: Raw, folder: str) -> Raw:
    """The volume that a claim is bound to."""
    metadata, spec = claim["metadata"], claim["spec"]
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": spec.get("resources", {}).get("requests", {"storage": "1Gi"}),
            "accessModes": spec.get("accessModes", []),
            "storageClassName": CLASS,
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": folder},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
        },
    }


def _volume_name(claim: Key) -> str:
    return f"{claim.namespace}-{claim.name}"
