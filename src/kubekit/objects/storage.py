"""Claims, volumes, storage classes and CSI nodes: the fields that decide where a pod may run.

Pure data with Kubernetes' own meaning. `scheduler/cluster/volumes.py` holds the objects and answers
questions about them.
"""

from __future__ import annotations

from kubekit.objects import affinity, kinds
from kubekit.objects.affinity import LabelSelector, NodeSelector
from kubekit.objects.core import ResourceRequirements, Resources
from kubekit.objects.kinds import Kind
from kubekit.objects.meta import ApiObject, Key, Object, Raw, preconditions
from kubekit.objects.quantity import InvalidQuantity, parse_whole
from kubekit.objects.selectors import InvalidSelector, from_labels

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
ZONES = {
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Labels that say where a volume is, and the current name of each."""


class VolumeClaimSpec(Object, frozen=True):
    volume_name: str = ""
    storage_class_name: str = ""
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    selector: LabelSelector | None = None
    resources: ResourceRequirements = ResourceRequirements()


class VolumeStatus(Object, frozen=True):
    """The status of a claim or of a volume."""

    phase: str = ""


class VolumeClaim(ApiObject, frozen=True):
    spec: VolumeClaimSpec = VolumeClaimSpec()
    status: VolumeStatus = VolumeStatus()

    @property
    def bound(self) -> bool:
        return bool(self.spec.volume_name) and self.status.phase == "Bound"

    @property
    def size(self) -> int:
        return _size(self.spec.resources.requests)

    @property
    def selected(self) -> str:
        """The node for which a volume is being provisioned."""
        return self.metadata.annotations.get(SELECTED_NODE, "")


class VolumeAffinity(Object, frozen=True):
    required: NodeSelector | None = None


class CsiSource(Object, frozen=True):
    driver: str = ""
    volume_handle: str = ""


class ClaimRef(Object, frozen=True):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class PersistentVolumeSpec(Object, frozen=True):
    node_affinity: VolumeAffinity | None = None
    csi: CsiSource | None = None
    capacity: Resources = {}
    access_modes: tuple[str, ...] = ()
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    claim_ref: ClaimRef | None = None


class PersistentVolume(ApiObject, frozen=True):
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: VolumeStatus = VolumeStatus()

    @property
    def size(self) -> int:
        return _size(self.spec.capacity)

    @property
    def zones(self) -> dict[str, frozenset[str]]:
        """Where the volume is, from its labels; several values are joined by two underscores."""
        labels = self.metadata.labels
        return {key: frozenset(labels[key].split("__")) for key in ZONES if key in labels}

    @property
    def owner(self) -> Key | None:
        """The claim that the volume is bound to or reserved for."""
        ref = self.spec.claim_ref
        return None if ref is None else Key(ref.namespace, ref.name)

    def is_claimed_by(self, claim: VolumeClaim) -> bool:
        """Whether the volume is bound to or reserved for this claim."""
        ref = self.spec.claim_ref
        # An administrator who reserves a volume for a claim writes no uid.
        matches_uid = ref is not None and ref.uid in ("", claim.metadata.uid)
        return matches_uid and self.owner == claim.metadata.key

    def suits(self, claim: VolumeClaim) -> bool:
        """Whether the volume is free and matches the claim."""
        free = self.status.phase == "Available" and self.spec.claim_ref is None
        return free and self.metadata.deletion_timestamp is None and self.matches(claim)

    def matches(self, claim: VolumeClaim) -> bool:
        """Whether the volume has the class, mode, size, access modes and labels of the claim."""
        spec, request = self.spec, claim.spec
        return (
            (spec.storage_class_name, spec.volume_mode)
            == (request.storage_class_name, request.volume_mode)
            and self.size >= claim.size
            and set(request.access_modes) <= set(spec.access_modes)
            and _selects(request.selector, self.metadata.labels)
        )


def claim_ref(claim: VolumeClaim) -> Raw:
    """The reference by which a volume names its claim."""
    meta = claim.metadata
    identity = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **meta.key._asdict()}
    return identity | preconditions(meta)


def claim_ref_patch(volume: PersistentVolume, claim: VolumeClaim) -> Raw:
    """The patch that reserves a volume for a claim; `Conflict` if the volume has changed."""
    return {
        "metadata": {
            "resourceVersion": volume.metadata.resource_version,
            "annotations": {BOUND_BY_CONTROLLER: "yes"},
        },
        "spec": {"claimRef": claim_ref(claim)},
    }


def _size(amounts: Resources) -> int:
    """Bytes; -1 if the quantity cannot be parsed."""
    try:
        return parse_whole(amounts.get("storage", 0))
    except InvalidQuantity:
        return -1


def _selects(selector: LabelSelector | None, labels: dict[str, str]) -> bool:
    try:
        return selector is None or from_labels(selector).matches(labels)
    except InvalidSelector:
        return False


class TopologyRow(Object, frozen=True):
    key: str = ""
    values: tuple[str, ...] = ()


class TopologyTerm(Object, frozen=True):
    match_label_expressions: tuple[TopologyRow, ...] = ()


class StorageClass(ApiObject, frozen=True):
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologyTerm, ...] = ()

    @property
    def allowed(self) -> NodeSelector | None:
        """The nodes on which it can provision a volume; None for all."""
        topologies = (term.match_label_expressions for term in self.allowed_topologies)
        rows = (
            tuple(affinity.SelectorRequirement(row.key, "In", row.values) for row in topology)
            for topology in topologies
        )
        terms = tuple(map(affinity.NodeSelectorTerm, rows))
        return NodeSelector(terms) if terms else None


class VolumeLimit(Object, frozen=True):
    count: int | None = None


class CsiDriver(Object, frozen=True):
    name: str = ""
    allocatable: VolumeLimit | None = None


class CsiNodeSpec(Object, frozen=True):
    drivers: tuple[CsiDriver, ...] = ()


class CsiNode(ApiObject, frozen=True):
    """The storage drivers of one node and their limits; it has the name of the node."""

    spec: CsiNodeSpec = CsiNodeSpec()


VOLUME_CLAIMS = kinds.PERSISTENT_VOLUME_CLAIMS.read_as(VolumeClaim)
VOLUMES = kinds.PERSISTENT_VOLUMES.read_as(PersistentVolume)
STORAGE_CLASSES = kinds.STORAGE_CLASSES.read_as(StorageClass)
CSI_NODES = Kind.of("storage.k8s.io/v1", "CSINode", CsiNode, namespaced=False)
