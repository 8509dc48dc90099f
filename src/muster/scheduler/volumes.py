"""Claims, volumes and storage classes: from where a pod's volumes can be reached.

Part of the snapshot, kept current by watch events, read by a filter and by `decide`. A bound claim
ties its pods to the nodes its volume allows. A claim that is bound only once a node is known
(WaitForFirstConsumer) leaves the choice to the trial; then the node is written to the claim, the
gang's rooms are held, and the gang is bound when all its claims are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.api.affinity import NodeSelector  # noqa: TC001 - msgspec resolves annotations
from muster.api.kinds import Kind
from muster.api.meta import Key, Object, ObjectMeta

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from muster.api.core import Pod

SELECTED_NODE = "volume.kubernetes.io/selected-node"


class ClaimSpec(Object, frozen=True):
    volume_name: str = ""
    storage_class_name: str = ""
    access_modes: tuple[str, ...] = ()


class ClaimStatus(Object, frozen=True):
    phase: str = ""


class Claim(Object, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    @property
    def bound(self) -> bool:
        return bool(self.spec.volume_name) and self.status.phase == "Bound"


class VolumeAffinity(Object, frozen=True):
    required: NodeSelector | None = None


class PersistentVolumeSpec(Object, frozen=True):
    node_affinity: VolumeAffinity | None = None


class PersistentVolume(Object, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()


class StorageClass(Object, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    volume_binding_mode: str = "Immediate"


CLAIMS = Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", Claim)
VOLUMES = Kind(
    "", "v1", "persistentvolumes", "PersistentVolume", PersistentVolume, namespaced=False
)
STORAGE_CLASSES = Kind(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", StorageClass, namespaced=False
)


class Volumes:
    """What is known of storage; `version` grows with every change."""

    def __init__(self) -> None:
        self.claims: dict[Key, Claim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.version = 0

    def put_claim(self, key: Key, claim: Claim | None) -> None:
        self.version += 1
        if claim is None:
            self.claims.pop(key, None)
        else:
            self.claims[key] = claim

    def put_volume(self, name: str, volume: PersistentVolume | None) -> None:
        self.version += 1
        if volume is None:
            self.volumes.pop(name, None)
        else:
            self.volumes[name] = volume

    def put_class(self, name: str, storage: StorageClass | None) -> None:
        self.version += 1
        if storage is None:
            self.classes.pop(name, None)
        else:
            self.classes[name] = storage

    def waits(self, claim: Claim) -> bool:
        """Whether a claim is bound only once its pod has a node."""
        storage = self.classes.get(claim.spec.storage_class_name)
        return storage is not None and storage.volume_binding_mode == "WaitForFirstConsumer"

    def trouble(self, pod: Pod) -> str:
        """Why no node would do for this pod, whatever it is; empty if storage is no obstacle."""
        for name in claims_of(pod):
            claim = self.claims.get(Key(pod.metadata.namespace, name))
            if claim is None:
                return f"its claim {name} does not exist"
            if not claim.bound and not self.waits(claim):
                return f"its claim {name} is not bound to a volume yet"
        return ""

    def affinities(self, namespace: str, claims: Iterable[str]) -> Iterator[NodeSelector]:
        """What the bound volumes of some claims require of a node."""
        for name in claims:
            claim = self.claims.get(Key(namespace, name))
            volume = self.volumes.get(claim.spec.volume_name) if claim is not None else None
            affinity = volume.spec.node_affinity if volume is not None else None
            if affinity is not None and affinity.required is not None:
                yield affinity.required

    def unprovisioned(self, pod: Pod) -> list[Key]:
        """The claims that wait for this pod's node."""
        keys = (Key(pod.metadata.namespace, name) for name in claims_of(pod))
        return [key for key in keys if key in self.claims and not self.claims[key].bound]


def claims_of(pod: Pod) -> tuple[str, ...]:
    """The claims a pod uses, those made for it alone included."""
    names = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            names.append(volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            names.append(f"{pod.metadata.name}-{volume.name}")
    return tuple(names)
