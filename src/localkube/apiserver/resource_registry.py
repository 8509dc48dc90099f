"""All resources by group, version and plural: the built-in ones and the resources of CRDs.

Built-in kinds come from the modules of `kinds`, or are defined here if they have no rules. A CRD
takes effect as soon as its write is durable, before the writer gets its answer.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from localkube.apiserver import codec, rules
from localkube.apiserver.kinds.batch_jobs import CRON_JOBS, JOBS
from localkube.apiserver.kinds.config_maps_and_secrets import CONFIG_MAPS, SECRETS
from localkube.apiserver.kinds.custom_resources import KnownKinds, resources_of
from localkube.apiserver.kinds.definitions import CRDS, definitions
from localkube.apiserver.kinds.disruption_budgets import PDBS
from localkube.apiserver.kinds.namespaces_nodes_events import (
    EVENTS,
    LEASES,
    NAMESPACES,
    NEW_EVENTS,
    NODES,
)
from localkube.apiserver.kinds.pod_templates import POD_TEMPLATES
from localkube.apiserver.kinds.pods import PODS
from localkube.apiserver.kinds.priority_classes import POD_GROUPS, PRIORITY_CLASSES
from localkube.apiserver.kinds.quotas_and_limit_ranges import LIMIT_RANGES, RESOURCE_QUOTAS
from localkube.apiserver.kinds.roles_and_accounts import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
)
from localkube.apiserver.kinds.services import ENDPOINT_SLICES, ENDPOINTS, SERVICES, services
from localkube.apiserver.kinds.volumes_and_claims import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
)
from localkube.apiserver.kinds.workloads import (
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
)
from localkube.apiserver.resource import STATUS, Resource
from localkube.apiserver.views.cells import AGE, NAME, number, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from ipaddress import IPv4Network

    from localkube.apiserver.store.collection import Change
    from localkube.apiserver.store.store import Store


# -- built-in kinds -------------------------------------------------------------------------------

_CREATE = frozenset({"create"})
_READ = frozenset({"get", "list"})
_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"

# There are none. They can be listed, because `kubectl apply --prune` lists them: without them, it
# would prune nothing.
_REPLICATION_CONTROLLERS = Resource(
    "", "v1", "replicationcontrollers", "ReplicationController", short=("rc",), categories=("all",),
    verbs=_READ | {"watch"},
)  # fmt: skip
_METRICS = (
    Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", False, verbs=_READ),
    Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", verbs=_READ),
)
_POD_LOGS = Resource(
    "logs.muster.dev", "v1", "podlogs", "PodLog", verbs=_READ, subresources=frozenset({"log"}),
    fields=("podName", "podUid"),
    strategy=rules.Strategy(
        table=rules.Table(NAME | {
            "Pod": lambda obj, _: text(obj, "podName"),
            "Container": lambda obj, _: text(obj, "container"),
            "Attempt": lambda obj, _: number(obj, "attempt"),
            "Size": lambda obj, _: number(obj, "size"),
        } | AGE),
    ),
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


def _without_effect(resource: Resource) -> Resource:
    """A kind that is stored for tools which bring it along; whoever writes it is warned."""
    warning = _WARNINGS.get(
        resource.kind,
        f"the local cluster stores {resource.kind} objects, but they have no effect here",
    )
    strategy = rules.Strategy(generation="spec", warnings=lambda obj: (warning,))
    return replace(resource, strategy=strategy)


_WARNINGS = {
    "NetworkPolicy": "the local cluster stores NetworkPolicies and does not enforce them: all"
    " connections stay allowed"
}
_ADMISSION = partial(
    Resource, "admissionregistration.k8s.io", "v1", namespaced=False, categories=("api-extensions",)
)
_NETWORKING = partial(Resource, "networking.k8s.io", "v1")
_WITHOUT_EFFECT = map(
    _without_effect,
    (
        _ADMISSION("validatingadmissionpolicies", "ValidatingAdmissionPolicy", subresources=STATUS),
        _ADMISSION("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"),
        _ADMISSION("mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
        _ADMISSION("validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
        _NETWORKING("ingresses", "Ingress", short=("ing",), subresources=STATUS),
        _NETWORKING("ingressclasses", "IngressClass", False),
        _NETWORKING("networkpolicies", "NetworkPolicy", short=("netpol",)),
        Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False),
    ),
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


def builtin(service_range: IPv4Network, known: KnownKinds) -> tuple[Resource, ...]:
    """The built-in resources of a cluster whose services get addresses of this range."""
    replaced = {SERVICES.collection: services(service_range), CRDS.collection: definitions(known)}
    return tuple(replaced.get(r.collection, r) for r in BUILTIN)


_STRATEGIES = {resource.collection: resource.strategy for resource in reversed(BUILTIN)}
_NO_RULES = rules.Strategy()


def strategy_of(collection: str) -> rules.Strategy:
    """The rules of the kind stored in a collection."""
    return _STRATEGIES.get(collection, _NO_RULES)


# -- registry -------------------------------------------------------------------------------------


class Registry:
    """The resources that the server serves now."""

    def __init__(self, builtin: Iterable[Resource], known: KnownKinds | None = None) -> None:
        self._known = known or KnownKinds()
        self._builtin = {(r.group, r.version, r.plural): r for r in builtin}
        self._custom: dict[str, list[Resource]] = {}
        self._index = dict(self._builtin)

    def follow(self, store: Store) -> None:
        """Serve the resources of the CRDs in the store, now and after every change."""
        store.subscribe(self._changed, CRDS.collection)

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource, if it is served in that version."""
        return self._index.get((group, version, plural))

    def all(self) -> Iterator[Resource]:
        """Every resource in every version, built-in first."""
        return iter(self._index.values())

    def _changed(self, change: Change) -> None:
        if change.deleted:
            self._custom.pop(change.entry.key, None)
        else:
            crd = codec.decode(change.entry.value)
            self._custom[change.entry.key] = list(resources_of(crd, self._known))
        self._index = dict(self._builtin)
        for r in chain.from_iterable(self._custom.values()):
            # A CRD never replaces a built-in resource or one of an older CRD.
            self._index.setdefault((r.group, r.version, r.plural), r)
