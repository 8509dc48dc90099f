"""Roles and bindings that grant nothing, or grant it to nobody."""

from __future__ import annotations

from typing import Any

from tests.localkube.conformance.cases.steps import delete, post
from tests.localkube.conformance.transcript import Case, Step

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES, BINDINGS = f"{RBAC}/namespaces/$ns/roles", f"{RBAC}/namespaces/$ns/rolebindings"
CLUSTER_ROLES, CLUSTER_BINDINGS = f"{RBAC}/clusterroles", f"{RBAC}/clusterrolebindings"
GROUP = "rbac.authorization.k8s.io"
READ = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}


def role(place: str, *rules: dict[str, Any], **more: Any) -> list[Step]:
    """A role that is there for the moment of this request."""
    create = post(place, {"metadata": {"name": "a-$ns"}, "rules": [*rules], **more})
    return [create, delete(f"{place}/a-$ns")] if place == CLUSTER_ROLES else [create]


def binding(place: str, role: dict[str, str], *subjects: dict[str, str]) -> Step:
    body = {"metadata": {"name": "a-$ns"}, "roleRef": role, "subjects": [*subjects]}
    return post(place, body)


def without(*fields: str) -> dict[str, Any]:
    return {field: value for field, value in READ.items() if field not in fields}


CASES = [
    Case(
        "rules without verbs or resources",
        [
            step
            for place in (ROLES, CLUSTER_ROLES)
            for step in (
                *role(place, without("verbs")),
                *role(place, without("apiGroups")),
                *role(place, without("resources")),
                *role(place, {}),
                *role(place, READ, without("apiGroups", "resources")),
                *role(place, {"nonResourceURLs": ["/x"], "verbs": ["get"]}),
                *role(place, {"nonResourceURLs": ["/x"], **READ}),
                *role(place, {"nonResourceURLs": ["/x"]}),
                *role(place, {**READ, "resourceNames": ["x"]}),
            )
        ],
    ),
    Case(
        "aggregated roles",
        [
            *role(CLUSTER_ROLES, aggregationRule={}),
            *role(CLUSTER_ROLES, aggregationRule={"clusterRoleSelectors": []}),
            *role(
                CLUSTER_ROLES,
                aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a!": "b"}}]},
            ),
        ],
        ("wording",),
    ),
    Case(
        "bindings to something that is no role",
        [
            binding(BINDINGS, {"apiGroup": GROUP, "kind": "Foo", "name": "x"}),
            binding(BINDINGS, {"apiGroup": GROUP, "kind": "Role"}),
            binding(BINDINGS, {"apiGroup": GROUP, "name": "x"}),
            binding(BINDINGS, {"apiGroup": "apps", "kind": "Role", "name": "x"}),
            binding(BINDINGS, {"apiGroup": GROUP, "kind": "Role", "name": "x/y"}),
            binding(BINDINGS, {}),
            post(BINDINGS, {"metadata": {"name": "a"}}),
            binding(CLUSTER_BINDINGS, {"apiGroup": GROUP, "kind": "Role", "name": "x"}),
            binding(CLUSTER_BINDINGS, {"apiGroup": GROUP, "kind": "ClusterRole"}),
            binding(
                CLUSTER_BINDINGS,
                {"apiGroup": GROUP, "kind": "ClusterRole", "name": "x"},
                {"kind": "ServiceAccount", "name": "x"},
            ),
        ],
    ),
]
