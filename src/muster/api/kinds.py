"""The table of kinds: the path of a resource in the API, and the struct it is read as.

Every client call takes a `Kind` first: `client.get(PODS, key)` is typed as `Pod`. To read the same
resource as another struct, or raw, write `PODS.read_as(dict)`.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from muster.api import core, pod_groups
from muster.api.meta import Object, ObjectMeta, Raw

T = TypeVar("T")
U = TypeVar("U")


class Kind(msgspec.Struct, Generic[T], frozen=True):
    """One resource of the API and the type it is decoded into."""

    group: str
    version: str
    plural: str
    kind: str
    model: type[T]
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """`pods`, `tfjobs.kubeflow.org`: the name in RBAC and in messages."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path; without a namespace, that of all namespaces."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/".join(parts)

    def read_as(self, model: type[U]) -> Kind[U]:
        """The same resource, decoded into another type."""
        return Kind(self.group, self.version, self.plural, self.kind, model, self.namespaced)


class PartialObjectMetadata(Object, frozen=True):
    """An object of which only the metadata is read."""

    metadata: ObjectMeta = ObjectMeta()
    api_version: str = ""
    kind: str = ""


PODS = Kind("", "v1", "pods", "Pod", core.Pod)
NODES = Kind("", "v1", "nodes", "Node", core.Node, namespaced=False)
NAMESPACES = Kind("", "v1", "namespaces", "Namespace", core.Namespace, namespaced=False)
SERVICES = Kind("", "v1", "services", "Service", core.Service)
CONFIG_MAPS = Kind("", "v1", "configmaps", "ConfigMap", core.ConfigMap)
SECRETS = Kind("", "v1", "secrets", "Secret", core.Secret)
SERVICE_ACCOUNTS: Kind[Raw] = Kind("", "v1", "serviceaccounts", "ServiceAccount", dict)
EVENTS = Kind("", "v1", "events", "Event", core.Event)
POD_DISRUPTION_BUDGETS = Kind(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", core.PodDisruptionBudget
)
PRIORITY_CLASSES = Kind(
    "scheduling.k8s.io",
    "v1",
    "priorityclasses",
    "PriorityClass",
    core.PriorityClass,
    namespaced=False,
)
PERSISTENT_VOLUME_CLAIMS: Kind[Raw] = Kind(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", dict
)
PERSISTENT_VOLUMES: Kind[Raw] = Kind(
    "", "v1", "persistentvolumes", "PersistentVolume", dict, namespaced=False
)
STORAGE_CLASSES: Kind[Raw] = Kind(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", dict, namespaced=False
)
LEASES = Kind("coordination.k8s.io", "v1", "leases", "Lease", core.Lease)
CRDS = Kind(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    PartialObjectMetadata,
    namespaced=False,
)

DEPLOYMENTS: Kind[Raw] = Kind("apps", "v1", "deployments", "Deployment", dict)
SELF_SUBJECT_REVIEWS: Kind[Raw] = Kind(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", dict, namespaced=False
)
SELF_SUBJECT_ACCESS_REVIEWS: Kind[Raw] = Kind(
    "authorization.k8s.io",
    "v1",
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    dict,
    namespaced=False,
)

VOLCANO_POD_GROUPS = Kind(
    "scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", pod_groups.VolcanoPodGroup
)
KUBE_BATCH_POD_GROUPS = Kind(
    "scheduling.incubator.k8s.io", "v1alpha1", "podgroups", "PodGroup", pod_groups.VolcanoPodGroup
)
SIGS_POD_GROUPS = Kind(
    "scheduling.sigs.dev", "v1alpha2", "podgroups", "PodGroup", pod_groups.VolcanoPodGroup
)
COSCHEDULING_POD_GROUPS = Kind(
    "scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", pod_groups.CoschedulingPodGroup
)
NATIVE_POD_GROUPS = Kind(
    "scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", pod_groups.NativePodGroup
)

# Jobs are read raw: `muster.jobs` parses every version of them.
TFJOBS: Kind[Raw] = Kind("kubeflow.org", "v1", "tfjobs", "TFJob", dict)
MPIJOBS: Kind[Raw] = Kind("kubeflow.org", "v1", "mpijobs", "MPIJob", dict)
PYTORCHJOBS: Kind[Raw] = Kind("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob", dict)
JAXJOBS: Kind[Raw] = Kind("kubeflow.org", "v1", "jaxjobs", "JAXJob", dict)
JOB_KINDS: tuple[Kind[Raw], ...] = (TFJOBS, MPIJOBS, PYTORCHJOBS, JAXJOBS)
