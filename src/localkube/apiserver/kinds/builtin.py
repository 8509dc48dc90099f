"""All built-in kinds: imported from their modules, or defined here if they have no rules."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from localkube.apiserver.kinds.access.role import CLUSTER_ROLES, ROLES
from localkube.apiserver.kinds.access.role_binding import CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS
from localkube.apiserver.kinds.access.service_account import SERVICE_ACCOUNTS
from localkube.apiserver.kinds.cluster.event import EVENTS, NEW_EVENTS
from localkube.apiserver.kinds.cluster.lease import LEASES
from localkube.apiserver.kinds.cluster.namespace import NAMESPACES
from localkube.apiserver.kinds.cluster.node import NODES
from localkube.apiserver.kinds.custom.crd import CRDS, definitions
from localkube.apiserver.kinds.pods.pod import PODS, without_accounts
from localkube.apiserver.kinds.pods.pod_group import POD_GROUPS
from localkube.apiserver.kinds.pods.pod_template import POD_TEMPLATES
from localkube.apiserver.kinds.pods.priority_class import PRIORITY_CLASSES
from localkube.apiserver.kinds.policy.limit_range import LIMIT_RANGES
from localkube.apiserver.kinds.policy.pod_disruption_budget import PDBS
from localkube.apiserver.kinds.policy.resource_quota import RESOURCE_QUOTAS
from localkube.apiserver.kinds.services.endpoints import ENDPOINT_SLICES, ENDPOINTS
from localkube.apiserver.kinds.services.service import SERVICES, services
from localkube.apiserver.kinds.storage.config_map import CONFIG_MAPS
from localkube.apiserver.kinds.storage.persistent_volume import PERSISTENT_VOLUMES
from localkube.apiserver.kinds.storage.persistent_volume_claim import PERSISTENT_VOLUME_CLAIMS
from localkube.apiserver.kinds.storage.secret import SECRETS
from localkube.apiserver.kinds.storage.storage_class import STORAGE_CLASSES
from localkube.apiserver.kinds.workloads.batch_job import JOBS
from localkube.apiserver.kinds.workloads.controller_revision import CONTROLLER_REVISIONS
from localkube.apiserver.kinds.workloads.cron_job import CRON_JOBS
from localkube.apiserver.kinds.workloads.daemon_set import DAEMON_SETS
from localkube.apiserver.kinds.workloads.deployment import DEPLOYMENTS
from localkube.apiserver.kinds.workloads.replica_set import REPLICA_SETS
from localkube.apiserver.kinds.workloads.stateful_set import STATEFUL_SETS
from localkube.apiserver.resource import STATUS, Resource, Strategy
from localkube.apiserver.views.cells import AGE, NAME, number, text

if TYPE_CHECKING:
    from ipaddress import IPv4Network

    from localkube.apiserver.kinds.custom.custom_resource import KnownKinds

_CREATE = frozenset({"create"})
_READ = frozenset({"get", "list"})
_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"

# There are none. They can be listed, because `kubectl apply --prune` lists them: without them, it
# would prune nothing.
_REPLICATION_CONTROLLERS = Resource(
    "",
    "v1",
    "replicationcontrollers",
    "ReplicationController",
    short=("rc",),
    categories=("all",),
    verbs=_READ | {"watch"},
)
_METRICS = (
    Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", False, verbs=_READ),
    Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", verbs=_READ),
)
_POD_LOGS = Resource(
    "logs.muster.dev", "v1", "podlogs", "PodLog", verbs=_READ, subresources=frozenset({"log"}),
    fields=("podName", "podUid"),
    strategy=Strategy(columns=NAME | {
        "Pod": lambda obj, _: text(obj, "podName"),
        "Container": lambda obj, _: text(obj, "container"),
        "Attempt": lambda obj, _: number(obj, "attempt"),
        "Size": lambda obj, _: number(obj, "size"),
    } | AGE),
)  # fmt: skip
_REVIEWS = tuple(
    Resource(group, "v1", f"{kind.lower()}s", kind, kind.startswith("Local"), verbs=_CREATE)
    for group, kind in (
        (_AUTHENTICATION, "SelfSubjectReview"),
        (_AUTHENTICATION, "TokenReview"),
        (_AUTHORIZATION, "SelfSubjectAccessReview"),
        (_AUTHORIZATION, "SelfSubjectRulesReview"),
        (_AUTHORIZATION, "SubjectAccessReview"),
        (_AUTHORIZATION, "LocalSubjectAccessReview"),
    )
)


def _without_effect(resource: Resource, warning: str = "") -> Resource:
    """A kind that is stored for tools which bring it along; whoever writes it is warned."""
    warning = (
        warning or f"the local cluster stores {resource.kind} objects, but they have no effect here"
    )
    rules = Strategy(generation="spec", warnings=lambda obj: (warning,))
    return replace(resource, strategy=rules)


_ADMISSION, _NETWORKING = "admissionregistration.k8s.io", "networking.k8s.io"
_POLICY = "ValidatingAdmissionPolicy"
_EXTENSIONS = ("api-extensions",)
_NOT_ENFORCED = (
    "the local cluster stores NetworkPolicies and does not enforce them: all connections stay"
    " allowed"
)
_WITHOUT_EFFECT = (
    *(
        _without_effect(
            Resource(
                _ADMISSION, "v1", plural, kind, False, categories=_EXTENSIONS, subresources=more
            )
        )
        for plural, kind, more in (
            ("validatingadmissionpolicies", _POLICY, STATUS),
            ("validatingadmissionpolicybindings", f"{_POLICY}Binding", frozenset[str]()),
            ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration", frozenset[str]()),
            ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration", frozenset[str]()),
        )
    ),
    _without_effect(
        Resource(_NETWORKING, "v1", "ingresses", "Ingress", short=("ing",), subresources=STATUS)
    ),
    _without_effect(Resource(_NETWORKING, "v1", "ingressclasses", "IngressClass", False)),
    _without_effect(
        Resource(_NETWORKING, "v1", "networkpolicies", "NetworkPolicy", short=("netpol",)),
        _NOT_ENFORCED,
    ),
    _without_effect(Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False)),
)

# Discovery lists groups, and the resources of a group, in this order.
BUILTIN = (
    NAMESPACES, NODES, PODS, SERVICES, ENDPOINTS, CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS, EVENTS,
    RESOURCE_QUOTAS, LIMIT_RANGES, PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS, POD_TEMPLATES,
    CONTROLLER_REVISIONS, DAEMON_SETS, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, CRON_JOBS, JOBS,
    PDBS,
    NEW_EVENTS, PRIORITY_CLASSES, POD_GROUPS, LEASES, ENDPOINT_SLICES, STORAGE_CLASSES,
    ROLES, ROLE_BINDINGS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, CRDS, *_WITHOUT_EFFECT,
    _REPLICATION_CONTROLLERS, *_METRICS, _POD_LOGS, *_REVIEWS,
)  # fmt: skip


def builtin(
    service_range: IPv4Network, known: KnownKinds, *, admit_service_accounts: bool = True
) -> tuple[Resource, ...]:
    """The built-in resources of a cluster whose services get addresses of this range.

    Without the admission of service accounts, a pod may name one that does not exist.
    """
    replaced = {SERVICES.collection: services(service_range), CRDS.collection: definitions(known)}
    if not admit_service_accounts:
        replaced[PODS.collection] = without_accounts(PODS)
    return tuple(replaced.get(r.collection, r) for r in BUILTIN)


_STRATEGIES = {resource.collection: resource.strategy for resource in reversed(BUILTIN)}
_NO_RULES = Strategy()


def strategy_of(collection: str) -> Strategy:
    """The rules of the kind stored in a collection."""
    return _STRATEGIES.get(collection, _NO_RULES)
