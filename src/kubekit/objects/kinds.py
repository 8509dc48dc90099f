"""The table of kinds: the path of a resource in the API, and the struct it is read as.

Every client call takes a `Kind` first: `client.get(PODS, key)` is typed as `Pod`. To read the same
resource as another struct, or raw, write `PODS.read_as(dict)`.
"""

from __future__ import annotations

import threading
from typing import Any, Generic, TypeVar

import msgspec

from kubekit.objects import core
from kubekit.objects.meta import ApiObject, Raw

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

    @classmethod
    def of(cls, api_version: str, kind: str, model: type[U], *, namespaced: bool = True) -> Kind[U]:
        """A kind with a regular plural: pods, storageclasses."""
        group, _, version = api_version.rpartition("/")
        singular = kind.lower()
        plural = f"{singular}es" if singular.endswith("s") else f"{singular}s"
        return Kind(group, version, plural, kind, model, namespaced)

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


class PartialObjectMetadata(ApiObject, frozen=True):
    """An object of which only the metadata is read."""

    api_version: str = ""
    kind: str = ""


PODS = Kind.of("v1", "Pod", core.Pod)
NODES = Kind.of("v1", "Node", core.Node, namespaced=False)
POD_SECURITY = "pod-security.kubernetes.io/enforce"
"""The label of a namespace that names the pod security standard of its pods."""
NAMESPACES = Kind.of("v1", "Namespace", core.Namespace, namespaced=False)
SERVICES = Kind.of("v1", "Service", core.Service)
CONFIG_MAPS = Kind.of("v1", "ConfigMap", core.ConfigMap)
SECRETS = Kind.of("v1", "Secret", core.Secret)
SERVICE_ACCOUNTS: Kind[Raw] = Kind.of("v1", "ServiceAccount", dict)
_RBAC = "rbac.authorization.k8s.io/v1"
ROLES: Kind[Raw] = Kind.of(_RBAC, "Role", dict)
ROLE_BINDINGS: Kind[Raw] = Kind.of(_RBAC, "RoleBinding", dict)
CLUSTER_ROLES: Kind[Raw] = Kind.of(_RBAC, "ClusterRole", dict, namespaced=False)
CLUSTER_ROLE_BINDINGS: Kind[Raw] = Kind.of(_RBAC, "ClusterRoleBinding", dict, namespaced=False)
EVENTS = Kind.of("v1", "Event", core.Event)
POD_DISRUPTION_BUDGETS = Kind.of("policy/v1", "PodDisruptionBudget", core.PodDisruptionBudget)
RESOURCE_QUOTAS = Kind.of("v1", "ResourceQuota", core.ResourceQuota)
PRIORITY_CLASSES = Kind.of(
    "scheduling.k8s.io/v1", "PriorityClass", core.PriorityClass, namespaced=False
)
PERSISTENT_VOLUME_CLAIMS: Kind[Raw] = Kind.of("v1", "PersistentVolumeClaim", dict)
PERSISTENT_VOLUMES: Kind[Raw] = Kind.of("v1", "PersistentVolume", dict, namespaced=False)
STORAGE_CLASSES: Kind[Raw] = Kind.of("storage.k8s.io/v1", "StorageClass", dict, namespaced=False)
POD_LOGS = Kind.of("logs.muster.dev/v1", "PodLog", core.PodLog)
LEASES = Kind.of("coordination.k8s.io/v1", "Lease", core.Lease)
CRDS = Kind.of(
    "apiextensions.k8s.io/v1", "CustomResourceDefinition", PartialObjectMetadata, namespaced=False
)

DEPLOYMENTS: Kind[Raw] = Kind.of("apps/v1", "Deployment", dict)
BATCH_JOBS: Kind[Raw] = Kind.of("batch/v1", "Job", dict)
SELF_SUBJECT_REVIEWS: Kind[Raw] = Kind.of(
    "authentication.k8s.io/v1", "SelfSubjectReview", dict, namespaced=False
)
SELF_SUBJECT_ACCESS_REVIEWS: Kind[Raw] = Kind.of(
    "authorization.k8s.io/v1", "SelfSubjectAccessReview", dict, namespaced=False
)

_ADMISSION = "admissionregistration.k8s.io"
_POLICY = "ValidatingAdmissionPolicy"
ADMISSION_POLICIES: tuple[Kind[Raw], ...] = (
    Kind(_ADMISSION, "v1", "validatingadmissionpolicies", _POLICY, dict, namespaced=False),
    Kind.of(f"{_ADMISSION}/v1", f"{_POLICY}Binding", dict, namespaced=False),
)
"""Policies and their bindings, which servers have from Kubernetes 1.30 on."""


# msgspec remembers what it knows of a struct in the class before that is complete. A second thread
# that decodes into the same struct at that moment crashes the process. So decoders are built one
# after the other, and every struct that threads decode into gets its decoder here first.
_building = threading.Lock()
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def decoder_of(shape: type[T]) -> msgspec.json.Decoder[T]:
    """The JSON decoder of this type, for use in any number of threads."""
    decoder = _decoders.get(shape)
    if decoder is None:
        with _building:
            decoder = _decoders.get(shape) or msgspec.json.Decoder(shape)
            _decoders[shape] = decoder
    return decoder


def convert(value: object, shape: type[T]) -> T:
    """`msgspec.convert`, safe in threads."""
    decoder_of(shape)
    return msgspec.convert(value, shape)
