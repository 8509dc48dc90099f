"""The table of built-in kinds.

One row per kind, read by `registry.py`. What a kind needs besides its row: defaults in
`defaults.py`, columns for kubectl in `columns.py`, special deletion in `admit.py`.
"""

from __future__ import annotations

from dataclasses import replace

from muster.local.apiserver.registry import ALL_VERBS, Resource

_NO_COLLECTION = ALL_VERBS - {"deletecollection"}
_CREATE = frozenset({"create"})
_STATUS = frozenset({"status"})
_SCALED = frozenset({"status", "scale"})

_EVENT_FIELDS = (
    "involvedObject.kind", "involvedObject.namespace", "involvedObject.name",
    "involvedObject.uid", "involvedObject.apiVersion", "involvedObject.resourceVersion",
    "involvedObject.fieldPath", "reason", "reportingComponent", "source", "type",
)  # fmt: skip

_CORE = (
    Resource(
        "", "v1", "namespaces", "Namespace", False, short=("ns",), verbs=_NO_COLLECTION,
        subresources=frozenset({"status", "finalize"}), fields=("status.phase",),
    ),
    Resource(
        "", "v1", "nodes", "Node", False, short=("no",),
        subresources=_STATUS, fields=("spec.unschedulable",),
    ),
    Resource(
        "", "v1", "pods", "Pod", short=("po",), categories=("all",),
        subresources=frozenset(
            {"status", "binding", "eviction", "log", "exec", "attach", "portforward", "proxy"}
        ),
        fields=(
            "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
            "spec.hostNetwork", "status.phase", "status.podIP", "status.nominatedNodeName",
        ),
    ),
    Resource(
        "", "v1", "services", "Service", short=("svc",), categories=("all",),
        subresources=_STATUS, fields=("spec.clusterIP", "spec.type"), upserts=True,
    ),
    Resource(
        "", "v1", "endpoints", "Endpoints", singular="endpoints", short=("ep",), upserts=True,
        deprecation="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    ),
    Resource("", "v1", "configmaps", "ConfigMap", short=("cm",)),
    Resource("", "v1", "secrets", "Secret", fields=("type",)),
    Resource(
        "", "v1", "serviceaccounts", "ServiceAccount", short=("sa",),
        subresources=frozenset({"token"}),
    ),
    Resource("", "v1", "events", "Event", short=("ev",), upserts=True, fields=_EVENT_FIELDS),
    Resource("", "v1", "resourcequotas", "ResourceQuota", short=("quota",), subresources=_STATUS),
    Resource("", "v1", "limitranges", "LimitRange", short=("limits",), upserts=True),
    Resource(
        "", "v1", "persistentvolumes", "PersistentVolume", False, short=("pv",),
        subresources=_STATUS,
    ),
    Resource(
        "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", short=("pvc",),
        subresources=_STATUS,
    ),
)  # fmt: skip

_APPS = (
    Resource(
        "apps", "v1", "deployments", "Deployment", short=("deploy",), categories=("all",),
        subresources=_SCALED,
    ),
    Resource(
        "apps", "v1", "replicasets", "ReplicaSet", short=("rs",), categories=("all",),
        subresources=_SCALED, fields=("status.replicas",),
    ),
    Resource(
        "batch", "v1", "jobs", "Job", categories=("all",), subresources=_STATUS,
        fields=("status.successful",),
    ),
    Resource(
        "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", short=("pdb",),
        subresources=_STATUS,
    ),
)  # fmt: skip

_CLUSTER = (
    Resource(
        "events.k8s.io", "v1", "events", "Event", short=("ev",), home="", upserts=True,
        fields=_EVENT_FIELDS,
    ),
    Resource(
        "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, short=("pc",)
    ),
    Resource("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", subresources=_STATUS),
    Resource("coordination.k8s.io", "v1", "leases", "Lease", upserts=True),
    Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),
    Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False, short=("sc",)),
    Resource("rbac.authorization.k8s.io", "v1", "roles", "Role", upserts=True),
    Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", upserts=True),
    Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False, upserts=True),
    Resource(
        "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False,
        upserts=True,
    ),
    Resource(
        "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition",
        False, short=("crd", "crds"), categories=("api-extensions",), subresources=_STATUS,
    ),
)  # fmt: skip

_READ = frozenset({"get", "list"})
_MEASURED = (
    Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", False, verbs=_READ),
    Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", verbs=_READ),
)

_REVIEWS = (
    Resource(
        "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False,
        verbs=_CREATE,
    ),
    Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False, verbs=_CREATE),
    Resource(
        "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False,
        verbs=_CREATE,
    ),
    Resource(
        "authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", False,
        verbs=_CREATE,
    ),
    Resource(
        "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False,
        verbs=_CREATE,
    ),
    Resource(
        "authorization.k8s.io", "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview",
        verbs=_CREATE,
    ),
)  # fmt: skip


def _complete(resource: Resource) -> Resource:
    return replace(
        resource,
        singular=resource.singular or resource.kind.lower(),
        storage_version=resource.version,
    )


BUILTIN = tuple(
    _complete(resource) for resource in (*_CORE, *_APPS, *_CLUSTER, *_MEASURED, *_REVIEWS)
)
