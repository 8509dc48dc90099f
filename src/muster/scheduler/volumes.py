"""Claims, volumes and storage classes: from where a pod's volumes can be reached.

Part of the snapshot, kept current by watch events, read by a filter and by `decide`. A bound claim
ties its pods to the nodes its volume allows. A claim that is bound only once a node is known
(WaitForFirstConsumer) leaves the choice to the trial; then the node is written to the claim, the
gang's rooms are held, and the gang is bound when all its claims are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.api.affinity import NodeSelector, NodeSelectorTerm, SelectorTerm
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


class CsiSource(Object, frozen=True):
    driver: str = ""
    volume_handle: str = ""


class PersistentVolumeSpec(Object, frozen=True):
    node_affinity: VolumeAffinity | None = None
    csi: CsiSource | None = None


class PersistentVolume(Object, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()


class TopologyRow(Object, frozen=True):
    key: str = ""
    values: tuple[str, ...] = ()


class TopologyTerm(Object, frozen=True):
    match_label_expressions: tuple[TopologyRow, ...] = ()


class StorageClass(Object, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologyTerm, ...] = ()

    @property
    def allowed(self) -> NodeSelector | None:
        """The nodes on which it can make a volume; None for all."""
        terms = (
            NodeSelectorTerm(
                tuple(SelectorTerm(r.key, "In", r.values) for r in term.match_label_expressions)
            )
            for term in self.allowed_topologies
        )
        return NodeSelector(tuple(terms)) if self.allowed_topologies else None


class Attachable(Object, frozen=True):
    count: int | None = None


class Driver(Object, frozen=True):
    name: str = ""
    allocatable: Attachable | None = None


class CsiNodeSpec(Object, frozen=True):
    drivers: tuple[Driver, ...] = ()


class CsiNode(Object, frozen=True):
    """What the storage drivers on one node can do; named like the node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CsiNodeSpec = CsiNodeSpec()


CLAIMS = Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", Claim)
VOLUMES = Kind(
    "", "v1", "persistentvolumes", "PersistentVolume", PersistentVolume, namespaced=False
)
STORAGE_CLASSES = Kind(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", StorageClass, namespaced=False
)
CSI_NODES = Kind("storage.k8s.io", "v1", "csinodes", "CSINode", CsiNode, namespaced=False)
ONE_POD = "ReadWriteOncePod"


class Volumes:
    """What is known of storage; `version` grows with every change."""

    def __init__(self) -> None:
        self.claims: dict[Key, Claim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.limits: dict[str, dict[str, int]] = {}
        """By driver and node, how many volumes can be attached."""
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

    def put_csi_node(self, name: str, node: CsiNode | None) -> None:
        self.version += 1
        for driver in list(self.limits):
            self.limits[driver].pop(name, None)
            if not self.limits[driver]:
                del self.limits[driver]
        for item in node.spec.drivers if node is not None else ():
            if item.allocatable is not None and item.allocatable.count is not None:
                self.limits.setdefault(item.name, {})[name] = item.allocatable.count

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
        """What the volumes of some claims require of a node: those bound, and those to be made."""
        for claim in self._known(namespace, claims):
            volume = self.volumes.get(claim.spec.volume_name)
            affinity = volume.spec.node_affinity if volume is not None else None
            if affinity is not None and affinity.required is not None:
                yield affinity.required
            storage = self.classes.get(claim.spec.storage_class_name)
            if not claim.bound and storage is not None and storage.allowed is not None:
                yield storage.allowed

    def exclusive(self, namespace: str, claims: Iterable[str]) -> list[Key]:
        """Those of the claims that only one pod may use at a time."""
        known = self._known(namespace, claims)
        return [claim.metadata.key for claim in known if ONE_POD in claim.spec.access_modes]

    def handles(self, namespace: str, claims: Iterable[str]) -> list[tuple[str, str]]:
        """The volumes behind the claims, as driver and handle; one to be made goes by its claim."""
        found = []
        for claim in self._known(namespace, claims):
            volume = self.volumes.get(claim.spec.volume_name)
            storage = self.classes.get(claim.spec.storage_class_name)
            if volume is not None and volume.spec.csi is not None:
                found.append((volume.spec.csi.driver, volume.spec.csi.volume_handle))
            elif volume is None and storage is not None:
                found.append((storage.provisioner, f"claim {claim.metadata.key}"))
        return found

    def couple(self, namespace: str, claims: tuple[str, ...]) -> bool:
        """Whether one pod's use of these claims decides where the next may go."""
        limited = any(driver in self.limits for driver, _ in self.handles(namespace, claims))
        return limited or bool(self.exclusive(namespace, claims))

    def _known(self, namespace: str, claims: Iterable[str]) -> Iterator[Claim]:
        found = (self.claims.get(Key(namespace, name)) for name in claims)
        return (claim for claim in found if claim is not None)

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
