"""Role and ClusterRole: checks of their rules.

`access.escalation` checks that the writer has the permissions that the rules grant.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from localkube.apiserver.admission import names
from localkube.apiserver.api_errors import Causes, invalid_value, required
from localkube.apiserver.kinds.fields import each
from localkube.apiserver.resource import Resource, Strategy
from localkube.apiserver.views.cells import CREATED_AT, NAME

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw

GROUP = "rbac.authorization.k8s.io"
_REQUIRED = {
    "apiGroups": "resource rules must supply at least one api group",
    "resources": "resource rules must supply at least one resource",
}
_RESOURCE_FIELDS = ("apiGroups", "resources", "resourceNames")


def _check(role: Raw, *, namespaced: bool) -> Causes:
    for path, rule in each(role, "", "rules"):
        yield from _check_rule(rule, path, namespaced=namespaced)
    aggregation = role.get("aggregationRule")
    if aggregation is None:
        return
    if not aggregation.get("clusterRoleSelectors"):
        detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        yield required("aggregationRule.clusterRoleSelectors", detail)
    for path, selector in each(aggregation, "aggregationRule", "clusterRoleSelectors"):
        problems = names.check_labels(selector.get("matchLabels") or {}, f"{path}.matchLabels")
        yield from problems
        if problems:
            yield invalid_value(path, None, "invalid label selector.")


def _check_rule(rule: Raw, path: str, *, namespaced: bool) -> Causes:
    if not rule.get("verbs"):
        yield required(f"{path}.verbs", "verbs must contain at least one value")
    urls = rule.get("nonResourceURLs")
    if not urls:
        yield from (
            required(f"{path}.{field}", detail)
            for field, detail in _REQUIRED.items()
            if not rule.get(field)
        )
        return
    field = f"{path}.nonResourceURLs"
    if namespaced:
        yield invalid_value(field, urls, "namespaced rules cannot apply to non-resource URLs")
    if any(rule.get(other) for other in _RESOURCE_FIELDS):
        detail = "rules cannot apply to both regular resources and non-resource URLs"
        yield invalid_value(field, urls, detail)


def _strategy(*, namespaced: bool) -> Strategy:
    return Strategy(
        check=partial(_check, namespaced=namespaced),
        check_name=names.check_path_segment,
        grants=True,
        columns=NAME | CREATED_AT,
    )


ROLES = Resource(
    GROUP, "v1", "roles", "Role", create_on_update=True, strategy=_strategy(namespaced=True)
)
CLUSTER_ROLES = Resource(
    GROUP, "v1", "clusterroles", "ClusterRole", False, create_on_update=True,
    strategy=_strategy(namespaced=False),
)  # fmt: skip
