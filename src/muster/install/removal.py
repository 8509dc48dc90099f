"""Removing the installation in one namespace. Jobs stay, and CRDs, unless they are asked for.

The roles by which users see and delete their jobs stay as long as the CRDs of jobs.

Objects are found by their label, not by the values of the installation, which nobody remembers. A
cluster may have an operator per team: the subjects of the bindings tell whose roles and leases in
other namespaces are. What a cluster has once (the roles of users, the admission policy) goes with
the last installation that serves the whole cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kubekit.errors import UsageError
from kubekit.objects.kinds import (
    ADMISSION_POLICIES,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CRDS,
    DEPLOYMENTS,
    LEASES,
    POD_DISRUPTION_BUDGETS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    SERVICES,
    Kind,
)
from kubekit.objects.meta import Key, Raw
from kubekit.request_errors import Forbidden, NotFound
from muster.contract import operator_rights, scheduler_rights
from muster.contract.job_kinds import JOB_KINDS
from muster.contract.other_schedulers import LEASE_FIELD_SELECTOR
from muster.contract.waiting_line_format import CONFIG_MAP, NAMESPACE
from muster.install.existing_objects import NETWORK_POLICIES
from muster.install.objects.roles import USER_VERBS
from muster.install.own_installations import LABELS, Binding, read_bindings, served_namespaces
from muster.install.plan import HELM

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kubekit.client.blocking_client import BlockingClient
    from muster.install.objects.values import Values
    from muster.install.plan import Plan

_RBAC_KINDS = (ROLE_BINDINGS, ROLES, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES)
REMOVED: tuple[Kind[Any], ...] = (
    *reversed(ADMISSION_POLICIES),
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    SERVICES,
    NETWORK_POLICIES,
    CONFIG_MAPS,
    *_RBAC_KINDS,
    SERVICE_ACCOUNTS,
)
"""In this order: no job is rejected without an operator, and the components stop before they lose
their rights."""


KEPT = tuple(f"muster-{name}" for name in USER_VERBS)
"""ClusterRoles that let users work with jobs."""


class OwnObject(NamedTuple):
    """An object of the installation."""

    kind: Kind[Any]
    key: Key

    def __str__(self) -> str:
        where = f" in the namespace {self.key.namespace}" if self.key.namespace else ""
        return f"{self.kind.kind.lower()}/{self.key.name}{where}"


class Installation(NamedTuple):
    """The objects of the installation in one namespace, in the order of their deletion."""

    objects: list[OwnObject]
    others: tuple[str, ...]
    """Other namespaces with installations, which stay."""
    kept: tuple[OwnObject, ...] = ()
    """Objects that stay, because users need them for the jobs that stay."""


class Scope(NamedTuple):
    """Which objects belong to the installation in one namespace."""

    namespace: str
    bindings: tuple[Binding, ...]
    is_last: bool
    """Whether no other installation serves the whole cluster, and uses what is there only once."""

    def has(self, kind: Kind[Any], key: Key) -> bool:
        if kind in _RBAC_KINDS:
            return self.has_of_role(key, role=key.name)
        return key.namespace == self.namespace if kind.namespaced else self.is_last

    def has_of_role(self, key: Key, role: str) -> bool:
        """Whether an object of the holder of this role, as its lease, is of this installation."""
        owners = self.owners(Key(key.namespace, role))
        return self.namespace in owners if owners else self._has_unbound(key)

    def owners(self, key: Key) -> frozenset[str]:
        """The namespaces of the accounts that have the role of this name."""
        return frozenset().union(*(row.owners for row in self.bindings if row.key == key))

    def _has_unbound(self, key: Key) -> bool:
        if key.namespace == self.namespace:
            return True
        return self.is_last and key.namespace in ("", NAMESPACE)


def find(client: BlockingClient, namespace: str, *, crds: bool) -> Installation:
    """The installation in a namespace."""
    deployments, everywhere = _labelled(client, DEPLOYMENTS, (namespace,))
    elsewhere = [row for row in deployments if row["metadata"]["namespace"] != namespace]
    others = tuple(sorted({row["metadata"]["namespace"] for row in elsewhere}))
    if crds and others:
        raise UsageError(
            f"Muster is installed in the namespace {others[0]} too, and needs the CRDs",
            hint=f"`muster uninstall --namespace {others[0]}` removes it.",
        )
    places = (namespace, *served_namespaces(row for row in deployments if row not in elsewhere))
    is_last = everywhere and all(served_namespaces([row]) for row in elsewhere)
    scope = Scope(namespace, read_bindings(client, places), is_last)
    kinds = (*REMOVED, CRDS) if crds else REMOVED
    found = [row for kind in kinds for row in _of_kind(client, kind, scope, places)]
    records = [row for row in _records(client, scope, places) if row not in found]
    kept = () if crds else _needed_by_users(client, found)
    going = [row for row in found if row not in kept]
    return Installation([*going, *records], others, kept)


def left_out(client: BlockingClient, namespace: str, before: Values, plan: Plan) -> list[OwnObject]:
    """The objects of the installation in a namespace that this plan leaves out."""
    wanted = {
        (row["kind"], row["metadata"].get("namespace", ""), row["metadata"]["name"])
        for row in plan.objects
    }
    gone = {name for name in before.components if name not in plan.values.components}
    return [
        row
        for row in find(client, namespace, crds=False).objects
        if (row.kind.kind, *row.key) not in wanted and _writer(row) in (None, *gone)
    ]


def _writer(row: OwnObject) -> str | None:
    """The component that wrote a record; None for an object that an installation applies."""
    if row.kind == LEASES:
        return "operator" if row.key.name == operator_rights.LEASE else "scheduler"
    return "scheduler" if row.key == Key(NAMESPACE, CONFIG_MAP) else None


def _needed_by_users(client: BlockingClient, found: Iterable[OwnObject]) -> tuple[OwnObject, ...]:
    """The roles of users, while the cluster has a CRD of jobs."""
    roles = tuple(row for row in found if row.kind == CLUSTER_ROLES and row.key.name in KEPT)
    if not roles:
        return ()
    crds = {item["metadata"]["name"] for item in client.list(CRDS.read_as(dict)).items}
    return roles if any(kind.resource in crds for kind in JOB_KINDS) else ()


def _of_kind(
    client: BlockingClient, kind: Kind[Any], scope: Scope, places: Iterable[str]
) -> Iterator[OwnObject]:
    for item in _labelled(client, kind, places)[0]:
        meta = item["metadata"]
        row = OwnObject(kind, Key(meta.get("namespace", ""), meta["name"]))
        if not scope.has(kind, row.key):
            continue
        if meta["labels"].get("app.kubernetes.io/managed-by") == HELM and kind != CRDS:
            raise UsageError(
                f"{row} was installed with Helm", hint="Remove it with `helm uninstall`."
            )
        yield row


def _labelled(
    client: BlockingClient, kind: Kind[Any], places: Iterable[str]
) -> tuple[list[Raw], bool]:
    """The objects with Muster's label, and whether they are those of all namespaces."""
    raw: Kind[Raw] = kind.read_as(dict)
    try:
        return list(client.list(raw, labels=LABELS).items), True
    except NotFound:
        return [], True  # the cluster does not have the kind
    except Forbidden:
        if not kind.namespaced:
            return [], True  # whoever may not list them has not installed them either
    lists = (client.list(raw, place, labels=LABELS).items for place in dict.fromkeys(places))
    return [item for items in lists for item in items], False


def _records(client: BlockingClient, scope: Scope, places: Iterable[str]) -> Iterator[OwnObject]:
    """The leases and the published line, which the components themselves wrote."""
    try:
        leases = list(client.list(LEASES, fields=LEASE_FIELD_SELECTOR).items)
        line = client.find(CONFIG_MAPS, Key(NAMESPACE, CONFIG_MAP))
    except Forbidden:
        lists = (client.list(LEASES, place).items for place in dict.fromkeys(places))
        leases, line = [lease for items in lists for lease in items], None
    for lease in leases:
        role = lease.metadata.name.split(".")[0]
        is_ours = role == scheduler_rights.LEASE or lease.metadata.name == operator_rights.LEASE
        if is_ours and scope.has_of_role(lease.metadata.key, role):
            yield OwnObject(LEASES, lease.metadata.key)
    if line is not None and scope.has_of_role(line.metadata.key, scheduler_rights.LEASE):
        yield OwnObject(CONFIG_MAPS, line.metadata.key)


def count_jobs(client: BlockingClient) -> int:
    """How many jobs the cluster has."""
    total = 0
    for kind in JOB_KINDS:
        try:
            total += len(client.list(kind).items)
        except (NotFound, Forbidden):
            continue
    return total


def delete(client: BlockingClient, row: OwnObject) -> bool:
    """Delete an object; false if it was gone already."""
    try:
        client.delete(row.kind, row.key, propagation="Background")
    except NotFound:
        return False
    return True
