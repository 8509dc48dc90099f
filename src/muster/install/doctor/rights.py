"""Missing rights, asked of the cluster one by one by access reviews.

The cluster answers for every way to grant a right (RBAC or another authorizer), which reading roles
would not. Roles and bindings are read only after a right was found missing, by the names that an
installation gives them: one that is gone is the one cause of many missing rights.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, NamedTuple

from kubekit.objects.kinds import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    EVENTS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    Kind,
)
from kubekit.objects.meta import Key, Raw
from kubekit.request_errors import Forbidden
from kubekit.rights import MISSING_RIGHT, MissingRight, Right, Rights, Rule, compact, expand, rule
from muster.client.target import may
from muster.contract import operator_rights, scheduler_rights
from muster.contract.job_kinds import JOB_KINDS
from muster.contract.scheduler_rights import NAMES
from muster.contract.waiting_line_format import NAMESPACE as LEASE_NAMESPACE
from muster.install.doctor.facts import BrokenRole
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
USER_ROLES = {"muster-view": "see", "muster-edit": "submit"}
"""Roles that an installation for all namespaces adds to Kubernetes' own, and their use."""
_OBJECT = re.compile(r"[a-z]+/[a-z0-9][a-z0-9.-]*")


def missing_of_user(client: BlockingClient, namespace: str) -> list[Rule]:
    """The rules that the user lacks in a namespace."""
    return compact(right for right in expand(USER_RULES) if not may(client, right, namespace))


def missing_of_component(client: BlockingClient, component: Component) -> list[Rule] | None:
    """The rules that a component lacks; None if the user may not ask."""
    missing = []
    for right, namespace in _needed(component):
        spec: Raw = {"user": component.account, "groups": _groups(component.account)}
        spec["resourceAttributes"] = right.attributes(namespace)
        try:
            review = client.create(SUBJECT_ACCESS_REVIEWS, {"spec": spec})
        except Forbidden:
            return None
        if not (review.get("status") or {}).get("allowed"):
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


class _Grant(NamedTuple):
    """A role and its binding, which have the same name."""

    role: Kind[Raw]
    binding: Kind[Raw]
    key: Key
    rights: frozenset[Right]


def broken_roles(client: BlockingClient, component: Component) -> list[BrokenRole]:
    """The roles and bindings of a component that are gone or do not name its account."""
    found = []
    for grant in _grants(component):
        for kind in (grant.role, grant.binding):
            try:
                item = client.find(kind, grant.key)
            except Forbidden:
                continue
            if problem := _problem(kind, grant.key, item, component.account):
                found.append(BrokenRole(problem, grant.rights))
    return found


def broken_user_roles(client: BlockingClient) -> list[BrokenRole]:
    """The roles that let users work with jobs and are gone."""
    found = []
    for name, verb in USER_ROLES.items():
        try:
            item = client.find(CLUSTER_ROLES, Key("", name))
        except Forbidden:
            return []
        if item is None:
            role = name.removeprefix("muster-")
            text = f"users with the role {role} may not {verb} jobs"
            found.append(BrokenRole(f"{text}: the ClusterRole {name} does not exist"))
    return found


def _grants(component: Component) -> Iterator[_Grant]:
    """The grants that an installation makes for this component."""
    name, served = f"muster-{component.name}", component.served_namespace
    rights = declared_rights(component)
    in_place = (*rights.served, *rights.leases) if served else rights.leases
    place = served or lease_namespace(component)
    if not served:
        everywhere = frozenset(expand((*rights.served, *rights.cluster)))
        yield _Grant(CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, Key("", name), everywhere)
    yield _Grant(ROLES, ROLE_BINDINGS, Key(place, name), frozenset(expand(in_place)))


def _problem(kind: Kind[Raw], key: Key, item: Raw | None, account: str) -> str:
    where = f" in the namespace {key.namespace}" if key.namespace else ""
    name = f"the {kind.kind} {key.name}{where}"
    if item is None:
        return f"{name} does not exist"
    if kind not in (ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS):
        return ""
    *_, namespace, own = account.split(":")
    subjects = item.get("subjects") or []
    if any((row.get("namespace"), row["name"]) == (namespace, own) for row in subjects):
        return ""
    return f"{name} does not name the account {own} of the namespace {namespace}"
