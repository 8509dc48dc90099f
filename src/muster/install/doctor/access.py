"""Missing rights, asked of the cluster one by one by access reviews.

The cluster answers for every way to grant a right (RBAC or another authorizer), which reading roles
would not.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from kubekit.errors import Forbidden
from kubekit.objects.kinds import EVENTS, PODS, SELF_SUBJECT_ACCESS_REVIEWS, Kind
from kubekit.rights import MISSING_RIGHT, MissingRight, Right, Rights, Rule, compact, expand, rule
from muster.contract import operator_rights, scheduler_rights
from muster.contract.job_resources import JOB_KINDS
from muster.contract.scheduler_rights import NAMES
from muster.contract.waiting_line_format import NAMESPACE as LEASE_NAMESPACE
from muster.jobs.view.events import Event

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.meta import Raw
    from muster.install.doctor.facts import Component

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
_OBJECT = re.compile(r"[a-z]+/[a-z0-9][a-z0-9.-]*")


def missing_of_user(client: BlockingClient, namespace: str) -> list[Rule]:
    """The rules that the user lacks in a namespace."""
    missing = []
    for right in expand(USER_RULES):
        spec = {"resourceAttributes": _attributes(right, namespace)}
        review = client.create(SELF_SUBJECT_ACCESS_REVIEWS, {"spec": spec})
        if not _allowed(review):
            missing.append(right)
    return compact(missing)


def missing_of_component(client: BlockingClient, component: Component) -> list[Rule] | None:
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
    return compact(missing)


def reported_by_components(
    client: BlockingClient, namespace: str, components: Iterable[Component]
) -> dict[MissingRight, str]:
    """Missing rights that components met, from their events, and the object of each event.

    For users who may not ask for the rights of a component. The events are of the last hour, or as
    long as the cluster keeps them.
    """
    kind, reason = EVENTS.read_as(Event), f"reason={MISSING_RIGHT}"
    try:
        events = client.list(kind, fields=reason).items
    except Forbidden:
        try:
            events = client.list(kind, namespace, fields=reason).items
        except Forbidden:
            return {}
    return recognised(events, _scheduler_names(components))


def recognised(events: Iterable[Event], names: Iterable[str]) -> dict[MissingRight, str]:
    """The events that a component could have written, by the right that they report. Pure.

    Every user who may create events can write one with this reason. So an event counts only if its
    message is exactly the sentence about a right that a component declares.
    """
    sentences = {str(row): row for row in _declared(names)}
    return {
        sentences[event.message]: where
        for event in events
        if event.message in sentences and (where := _object_of(event))
    }


def _declared(names: Iterable[str]) -> Iterator[MissingRight]:
    """Every right of the components as one of them may report it: alone, or all of a resource."""
    for who, rights in (
        (operator_rights.ACCOUNT, operator_rights.rights()),
        (scheduler_rights.LEASE, scheduler_rights.rights(names)),
    ):
        single = list(expand((*rights.served, *rights.cluster, *rights.leases)))
        for right in single:
            yield MissingRight(who, compact([right])[0])
        by_resource = itertools.groupby(single, lambda row: (row.group, row.resource, row.name))
        for _, together in by_resource:
            yield MissingRight(who, compact(together)[0])


def _scheduler_names(components: Iterable[Component]) -> list[str]:
    flags = [component.argument("--scheduler-name") for component in components]
    return [*NAMES, *itertools.chain.from_iterable(flags)]


def _object_of(event: Event) -> str:
    """The object of an event; empty if an API server would not accept it as the name of one."""
    involved = event.involved_object
    name = f"{involved.kind.lower()}/{involved.name}"
    if not _OBJECT.fullmatch(name):
        return ""
    return f"{name} in the namespace {event.metadata.namespace}"


def declared_rights(component: Component) -> Rights:
    """The rights that the code of a component declares; the dashboard uses those of its users."""
    if component.name == "dashboard":
        return Rights(served=())
    if component.name == "operator":
        return operator_rights.rights()
    return scheduler_rights.rights(component.argument("--scheduler-name") or NAMES)


def lease_namespace(component: Component) -> str:
    """The namespace of a component's leases and records."""
    chosen = component.argument("--leader-elect-resource-namespace") or [LEASE_NAMESPACE]
    return chosen[-1]


def _needed(component: Component) -> Iterator[tuple[Right, str]]:
    """Every right of a component, with the namespace where it needs it; empty: everywhere."""
    rights, served = declared_rights(component), component.served_namespace
    yield from ((right, served) for right in expand(rights.served))
    if not served:
        yield from ((right, "") for right in expand(rights.cluster))
    yield from ((right, lease_namespace(component)) for right in expand(rights.leases))


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
