"""The roles and bindings that every cluster starts with.

`view`, `edit` and `admin` aggregate other roles by their labels, so that the author of a CRD can
add rules to them; those of the caller's own kinds are `KnownKinds.roles`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from localkube.apiserver.kinds.roles_and_accounts import GROUP

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kubekit.objects.meta import Raw

_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
_HEALTH = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_DISCOVERY = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*")
_SCALED = ("deployments", "replicasets", "statefulsets")


def _rule(verbs: Sequence[str], groups: Sequence[str], resources: Sequence[str]) -> Raw:
    return {"verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources)}


def _paths(paths: Sequence[str], verbs: Sequence[str] = ("get",)) -> Raw:
    return {"verbs": list(verbs), "nonResourceURLs": list(paths)}


def _status(*plurals: str) -> list[str]:
    return [name for plural in plurals for name in (plural, f"{plural}/status")]


_VIEW = (
    _rule(
        _READ,
        [""],
        [
            "configmaps", "endpoints", "limitranges", "namespaces", "pods/log", "serviceaccounts",
            *_status("persistentvolumeclaims", "pods", "resourcequotas", "services"),
        ],
    ),
    _rule(_READ, ["", "events.k8s.io"], ["events"]),
    _rule(_READ, ["discovery.k8s.io"], ["endpointslices"]),
    _rule(
        _READ, ["apps"],
        [
            "controllerrevisions",
            *_status("daemonsets", *_SCALED),
            *(f"{kind}/scale" for kind in _SCALED),
        ],
    ),
    _rule(_READ, ["batch"], _status("cronjobs", "jobs")),
    _rule(_READ, ["policy"], _status("poddisruptionbudgets")),
    _rule(_READ, ["networking.k8s.io"], [*_status("ingresses"), "networkpolicies"]),
    _rule(_READ, ["scheduling.k8s.io"], _status("podgroups")),
    _rule(_READ, ["metrics.k8s.io"], ["pods", "nodes"]),
    _rule(_READ, ["logs.muster.dev"], ["podlogs", "podlogs/log"]),
)  # fmt: skip
# Reading is not enough for these: a command in a pod can do whatever its service account may.
_INTO_PODS = ("pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "services/proxy")
_EDIT = (
    _rule(_READ, [""], ["secrets", *_INTO_PODS]),
    _rule(["impersonate"], [""], ["serviceaccounts"]),
    _rule(_WRITE, [""], ["pods", *_INTO_PODS]),
    _rule(["create"], [""], ["pods/eviction", "serviceaccounts/token"]),
    _rule(
        _WRITE, [""],
        ["configmaps", "persistentvolumeclaims", "secrets", "serviceaccounts", "services"],
    ),
    _rule(_WRITE, ["", "events.k8s.io"], ["events"]),
    _rule(
        _WRITE, ["apps"],
        ["daemonsets", *(name for kind in _SCALED for name in (kind, f"{kind}/scale"))],
    ),
    _rule(_WRITE, ["batch"], ["cronjobs", "jobs"]),
    _rule(_WRITE, ["policy"], ["poddisruptionbudgets"]),
    _rule(_WRITE, ["networking.k8s.io"], ["ingresses", "networkpolicies"]),
    _rule([*_READ, *_WRITE], ["coordination.k8s.io"], ["leases"]),
    _rule(_WRITE, ["scheduling.k8s.io"], ["podgroups"]),
)  # fmt: skip
_ADMIN = (
    _rule(["create"], ["authorization.k8s.io"], ["localsubjectaccessreviews"]),
    _rule([*_READ, *_WRITE], [GROUP], ["rolebindings", "roles"]),
)

_OF_ALL = ("system:authenticated",)
_SELF_REVIEWS = ("selfsubjectaccessreviews", "selfsubjectrulesreviews")
_ROLES: dict[str, tuple[Raw, ...]] = {
    "cluster-admin": (_rule("*", "*", "*"), _paths("*", "*")),
    "system:basic-user": (
        _rule(["create"], ["authorization.k8s.io"], _SELF_REVIEWS),
        _rule(["create"], ["authentication.k8s.io"], ["selfsubjectreviews"]),
    ),
    "system:discovery": (_paths(sorted({*_DISCOVERY, *_HEALTH})),),
    "system:public-info-viewer": (_paths(_HEALTH),),
}
_GROUPS = {
    "cluster-admin": ("system:masters",),
    "system:basic-user": _OF_ALL,
    "system:discovery": _OF_ALL,
    "system:public-info-viewer": (*_OF_ALL, "system:unauthenticated"),
}
_PARTS = {"view": _VIEW, "edit": _EDIT, "admin": _ADMIN}
_INTO = {"view": "edit", "edit": "admin"}  # a role that may write may also read


def _named(name: str, into: str = "") -> Raw:
    labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    if into:
        labels[f"{GROUP}/aggregate-to-{into}"] = "true"
    return {"name": name, "labels": labels}


def cluster_roles() -> Iterator[Raw]:
    """The ClusterRoles; parts come before the roles that aggregate them."""
    for name, rules in _ROLES.items():
        yield {"metadata": _named(name), "rules": list(rules)}
    for name, rules in _PARTS.items():
        part = _named(f"system:aggregate-to-{name}", name)
        yield {"metadata": part, "rules": list(rules)}
    for name in _PARTS:
        chosen = {"matchLabels": {f"{GROUP}/aggregate-to-{name}": "true"}}
        yield {
            "metadata": _named(name, _INTO.get(name, "")),
            "aggregationRule": {"clusterRoleSelectors": [chosen]},
            "rules": [],
        }


def cluster_role_bindings() -> Iterator[Raw]:
    """The ClusterRoleBindings: which group has which role in every namespace."""
    for name, groups in _GROUPS.items():
        yield {
            "metadata": _named(name),
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": GROUP, "kind": "Group", "name": g} for g in groups],
        }
