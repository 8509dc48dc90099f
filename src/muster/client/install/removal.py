"""Removing Muster from a cluster. Jobs stay, and so do the CRDs, unless they are asked for.

Objects are found by their label, not by the values of the installation, which nobody remembers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from muster.api.crds import PART_OF
from muster.api.kinds import (
    ADMISSION_POLICIES,
    CONFIG_MAPS,
    CRDS,
    DEPLOYMENTS,
    JOB_KINDS,
    LEASES,
    POD_DISRUPTION_BUDGETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Kind,
)
from muster.api.meta import Key, Raw
from muster.client.install.plan import HELM
from muster.errors import Forbidden, NotFound, UsageError
from muster.operator import rights as operator_rights
from muster.scheduler import rights as scheduler_rights
from muster.scheduler.other_schedulers import LEASE_FIELD_SELECTOR
from muster.scheduler.waiting_line_format import CONFIG_MAP, NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.kube.blocking_client import BlockingClient

_RBAC = "rbac.authorization.k8s.io/v1"
REMOVED: tuple[Kind[Any], ...] = (
    *reversed(ADMISSION_POLICIES),
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    SERVICES,
    Kind("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", dict),
    CONFIG_MAPS,
    Kind.of(_RBAC, "RoleBinding", dict),
    Kind.of(_RBAC, "Role", dict),
    Kind.of(_RBAC, "ClusterRoleBinding", dict, namespaced=False),
    Kind.of(_RBAC, "ClusterRole", dict, namespaced=False),
    SERVICE_ACCOUNTS,
)
"""In this order: no job is rejected without an operator, and the components stop before they lose
their rights."""


class Installed(NamedTuple):
    """An object of the installation."""

    kind: Kind[Any]
    key: Key

    def __str__(self) -> str:
        return f"{self.kind.kind.lower()}/{self.key.name}"


def find(client: BlockingClient, namespace: str, *, crds: bool) -> list[Installed]:
    """The objects to delete, in order."""
    found = [row for kind in REMOVED for row in _labelled(client, kind, namespace)]
    found += [row for row in _records(client, namespace) if row not in found]
    return [*found, *(_labelled(client, CRDS, namespace) if crds else ())]


def _labelled(client: BlockingClient, kind: Kind[Any], namespace: str) -> Iterator[Installed]:
    labels = f"{PART_OF}=muster"
    raw: Kind[Raw] = kind.read_as(dict)
    try:
        items = client.list(raw, labels=labels).items
    except Forbidden:
        if not kind.namespaced:
            return  # whoever may not list them has not installed them either
        items = client.list(raw, namespace, labels=labels).items
    except NotFound:
        return  # the cluster does not have the kind
    for item in items:
        meta = item["metadata"]
        if meta["labels"].get("app.kubernetes.io/managed-by") == HELM and kind != CRDS:
            raise UsageError(
                f"{kind.kind.lower()}/{meta['name']} was installed with Helm",
                hint="Remove it with `helm uninstall`.",
            )
        yield Installed(kind, Key(meta.get("namespace", ""), meta["name"]))


def _records(client: BlockingClient, namespace: str) -> Iterator[Installed]:
    """The leases and the published line, which the components themselves wrote."""
    try:
        leases = client.list(LEASES, fields=LEASE_FIELD_SELECTOR).items
        line = client.find(CONFIG_MAPS, Key(NAMESPACE, CONFIG_MAP))
    except Forbidden:
        leases, line = client.list(LEASES, namespace).items, None
    for lease in leases:
        name = lease.metadata.name
        if name == operator_rights.LEASE or name.split(".")[0] == scheduler_rights.LEASE:
            yield Installed(LEASES, lease.metadata.key)
    if line is not None:
        yield Installed(CONFIG_MAPS, Key(NAMESPACE, CONFIG_MAP))


def count_jobs(client: BlockingClient) -> int:
    """How many jobs the cluster has."""
    total = 0
    for kind in JOB_KINDS:
        try:
            total += len(client.list(kind).items)
        except (NotFound, Forbidden):
            continue
    return total


def delete(client: BlockingClient, installed: Installed) -> bool:
    """Delete an object; false if it was gone already."""
    try:
        client.delete(installed.kind, installed.key, propagation="Background")
    except NotFound:
        return False
    return True
