"""Claims, volumes and storage classes in one line each, for the tests of volumes."""

from __future__ import annotations

from typing import Any

from msgspec import convert

from kubekit.objects.storage import NO_PROVISIONER, PersistentVolume, StorageClass, VolumeClaim
from muster.scheduler.settings import Settings
from tests.muster.scheduler.builders import node
from tests.muster.scheduler.fake_cluster import FakeCluster

DELETED_AT = "2026-01-01T00:00:00Z"


def using(*claims: str) -> dict[str, Any]:
    volumes = [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims]
    return {"volumes": volumes}


def claim(
    cluster: FakeCluster,
    name: str,
    *,
    storage: str = "late",
    size: str = "1Gi",
    volume: str = "",
    node: str = "",
    spec: dict[str, Any] | None = None,
    deleted: bool = False,
) -> None:
    """Create or change a claim."""
    marks = {"volume.kubernetes.io/selected-node": node} if node else {}
    raw = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"claim-{name}",
            "annotations": marks,
        }
        | ({"deletionTimestamp": DELETED_AT} if deleted else {}),
        "spec": {
            "volumeName": volume,
            "storageClassName": storage,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            **(spec or {}),
        },
        "status": {"phase": "Bound" if volume else "Pending"},
    }
    cluster.add(convert(raw, VolumeClaim))


def volume(
    cluster: FakeCluster,
    name: str,
    host: str = "",
    *,
    storage: str = "static",
    size: str = "1Gi",
    labels: dict[str, str] | None = None,
    spec: dict[str, Any] | None = None,
    claimed_by: str = "",
) -> None:
    """Create or change a volume; with `host`, on that node only."""
    row = {"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [row]}]}
    ref = {"namespace": "default", "name": claimed_by, "uid": f"claim-{claimed_by}"}
    raw = {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage,
            **({"nodeAffinity": {"required": required}} if host else {}),
            **({"claimRef": ref} if claimed_by else {}),
            **(spec or {}),
        },
        "status": {"phase": "Bound" if claimed_by else "Available"},
    }
    cluster.add(convert(raw, PersistentVolume))


def storage_class(cluster: FakeCluster, name: str, provisioner: str, **more: Any) -> None:
    mode = {"volumeBindingMode": "WaitForFirstConsumer"}
    raw = {"metadata": {"name": name}, "provisioner": provisioner, **mode, **more}
    cluster.add(convert(raw, StorageClass))


def cluster_of(*nodes: str, settings: Settings | None = None) -> FakeCluster:
    """Nodes of one GPU; the class `late` provisions volumes, the class `static` does not."""
    cluster = FakeCluster(settings)
    cluster.add(*(node(name, gpus=1) for name in nodes))
    storage_class(cluster, "late", "disk.csi")
    storage_class(cluster, "static", NO_PROVISIONER)
    return cluster


def choices(cluster: FakeCluster) -> dict[str, tuple[str, str]]:
    """The node and the volume last chosen for each claim."""
    pairs = [pair for provision in cluster.provisions for pair in provision.claims]
    return {key.name: (choice.node, choice.volume) for key, choice in pairs}
