"""Missing rights, asked of the cluster one by one by access reviews.

The cluster answers for every way to grant a right (RBAC or another authorizer), which reading roles
would not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.api.kinds import (
    EVENTS,
    JOB_KINDS,
    PODS,
    SELF_SUBJECT_ACCESS_REVIEWS,
    Kind,
)
from muster.errors import Forbidden
from muster.operator import rights as operator_rights
from muster.rights import Right, Rule, expand, rule
from muster.scheduler import rights as scheduler_rights
from muster.scheduler.settings import NAMES
from muster.scheduler.waiting_line_format import NAMESPACE as LEASE_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from muster.api.meta import Raw
    from muster.client.doctor.facts import Component
    from muster.kube.blocking_client import BlockingClient

SUBJECT_ACCESS_REVIEWS: Kind[Raw] = Kind.of(
    "authorization.k8s.io/v1", "SubjectAccessReview", dict, namespaced=False
)
USER_RULES: tuple[Rule, ...] = (
    rule(JOB_KINDS, ("get", "list", "watch", "create", "patch", "delete")),
    rule([PODS], ("get", "list", "watch")),
    rule([PODS], ("get",), part="log"),
    rule([EVENTS], ("list",)),
)
"""What the commands for jobs need."""


def missing_of_user(client: BlockingClient, namespace: str) -> list[str]:
    """The rules that the user lacks in a namespace."""
    missing = []
    for right in expand(USER_RULES):
        spec = {"resourceAttributes": _attributes(right, namespace)}
        review = client.create(SELF_SUBJECT_ACCESS_REVIEWS, {"spec": spec})
        if not _allowed(review):
            missing.append(right)
    return list(as_rules(missing))


def missing_of_component(client: BlockingClient, component: Component) -> list[str] | None:
    """The rules that a component lacks; None if the user may not ask."""
    missing = []
    for right, namespace in _needed(component):
        spec: Raw = {"user": component.account, "groups": _groups(component.account)}
        spec["resourceAttributes"] = _attributes(right, namespace)
        try:
            review = client.create(SUBJECT_ACCESS_REVIEWS, {"spec": spec})
        except Forbidden:
            return None
        if not _allowed(review):
            missing.append(right)
    return list(as_rules(missing))


def _needed(component: Component) -> Iterator[tuple[Right, str]]:
    """Every right of a component, with the namespace where it needs it; empty: everywhere."""
    served = next(iter(component.argument("--namespace")), "")
    if component.name == "operator":
        rights = operator_rights.rights()
    else:
        rights = scheduler_rights.rights(component.argument("--scheduler-name") or NAMES)
    leases = component.argument("--leader-elect-resource-namespace") or [LEASE_NAMESPACE]
    yield from ((right, served) for right in expand(rights.served))
    if not served:
        yield from ((right, "") for right in expand(rights.cluster))
    yield from ((right, leases[0]) for right in expand(rights.leases))


def _groups(account: str) -> list[str]:
    namespace = account.split(":")[2]
    return [
        "system:serviceaccounts",
        f"system:serviceaccounts:{namespace}",
        "system:authenticated",
    ]


def _attributes(right: Right, namespace: str) -> Raw:
    resource, _, part = right.resource.partition("/")
    row = {"verb": right.verb, "group": right.group, "resource": resource, "namespace": namespace}
    if part:
        row["subresource"] = part
    if right.name:
        row["name"] = right.name
    return row


def _allowed(review: Raw) -> bool:
    return bool((review.get("status") or {}).get("allowed"))


def as_rules(rights: Iterable[Right]) -> Iterator[str]:
    """The rights as few rules of a role, each in one line of YAML."""
    verbs: dict[tuple[str, str, str], list[str]] = {}
    for right in rights:
        verbs.setdefault((right.group, right.resource, right.name), []).append(right.verb)
    resources: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (group, resource, name), words in verbs.items():
        resources.setdefault((group, name, tuple(words)), []).append(resource)
    for (group, name, granted), plurals in resources.items():
        names = f", resourceNames: [{name}]" if name else ""
        listed = f"resources: [{', '.join(plurals)}]{names}, verbs: [{', '.join(granted)}]"
        yield f'{{apiGroups: ["{group}"], {listed}}}'
