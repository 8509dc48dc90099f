"""Roles and bindings that are gone: the one cause of many missing rights.

They are read only after a right was found missing, by the names that an installation gives them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kubekit.errors import Forbidden
from kubekit.objects.kinds import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, Kind
from kubekit.objects.meta import Key, Raw
from kubekit.rights import Right, expand
from muster.install.doctor.access import declared_rights, lease_namespace
from muster.install.doctor.facts import BrokenRole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.client.blocking_client import BlockingClient
    from muster.install.doctor.facts import Component

USER_ROLES = {"muster-view": "see", "muster-edit": "submit"}
"""Roles that an installation for all namespaces adds to Kubernetes' own, and their use."""


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
