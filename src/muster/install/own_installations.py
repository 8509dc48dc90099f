"""Muster's own installations on a cluster: whose the rights are, which operators share jobs, and
which further installation is refused.

A cluster has one operator for all namespaces, or several for one namespace each. The two kinds have
different leases, so only this check keeps one of each from acting on the same jobs.

The names of roles and bindings are fixed, so a cluster has each of them once: a second installation
of the same component would take the rights of the first. The subjects of the bindings tell which
installation has them.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, NamedTuple

from kubekit.errors import UsageError
from kubekit.objects.kinds import CLUSTER_ROLE_BINDINGS, DEPLOYMENTS, ROLE_BINDINGS
from kubekit.objects.meta import Key
from kubekit.request_errors import Forbidden
from muster.contract.crds import PART_OF

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.meta import Raw
    from muster.install.existing_objects import Found
    from muster.install.objects.values import Values


LABELS = f"{PART_OF}=muster"
OPERATOR = "muster-operator"


class OwnOperator(NamedTuple):
    """An operator of Muster that is not scaled to zero."""

    namespace: str
    """Of its Deployment."""
    served: str
    """The one namespace that it serves; empty: all."""

    def __str__(self) -> str:
        serves = f"the namespace {self.served} alone" if self.served else "all namespaces"
        return f"{OPERATOR} in the namespace {self.namespace}, which serves {serves}"

    def shares_jobs_with(self, other: OwnOperator) -> bool:
        """Whether both act on the jobs of a namespace."""
        return not (self.served and other.served) or self.served == other.served


def own_operators(deployments: Iterable[Raw]) -> list[OwnOperator]:
    """Muster's operators that run."""
    return [
        OwnOperator(row["metadata"]["namespace"], next(iter(served_namespaces([row])), ""))
        for row in deployments
        if _is_operator(row) and (row.get("spec") or {}).get("replicas", 1) > 0
    ]


def served_namespaces(deployments: Iterable[Raw]) -> list[str]:
    """The namespaces to which operators are limited."""
    containers = (row["spec"]["template"]["spec"]["containers"][0] for row in deployments)
    words = (str(word) for container in containers for word in container.get("args") or [])
    return [word.partition("=")[2] for word in words if word.startswith("--namespace=")]


def sharing_jobs(operators: Iterable[OwnOperator]) -> Iterator[tuple[OwnOperator, OwnOperator]]:
    """Every pair of operators that act on the same jobs; the one for all namespaces is first."""
    ordered = sorted(operators, key=lambda row: (bool(row.served), row))
    return (
        pair for pair in itertools.combinations(ordered, 2) if pair[0].shares_jobs_with(pair[1])
    )


def _is_operator(deployment: Raw) -> bool:
    labels = deployment["metadata"].get("labels") or {}
    return labels.get("app.kubernetes.io/name") == OPERATOR and PART_OF in labels


class Binding(NamedTuple):
    """A binding, which is named as its role, and the namespaces of its service accounts."""

    key: Key
    """Without a namespace: a ClusterRoleBinding."""
    owners: frozenset[str]


def read_bindings(client: BlockingClient, namespaces: Iterable[str]) -> tuple[Binding, ...]:
    """Muster's bindings; of a user with few rights, those in the given namespaces."""
    return tuple(map(binding_of, _items(client, namespaces)))


def _items(client: BlockingClient, namespaces: Iterable[str]) -> Iterator[Raw]:
    with contextlib.suppress(Forbidden):  # whoever may not list them cannot change them either
        yield from client.list(CLUSTER_ROLE_BINDINGS, labels=LABELS).items
    try:
        yield from client.list(ROLE_BINDINGS, labels=LABELS).items
    except Forbidden:
        for namespace in dict.fromkeys(namespaces):
            try:
                yield from client.list(ROLE_BINDINGS, namespace, labels=LABELS).items
            except Forbidden:
                continue


def binding_of(item: Raw) -> Binding:
    """The binding in an object."""
    meta = item["metadata"]
    subjects = item.get("subjects") or []
    owners = frozenset(str(row["namespace"]) for row in subjects if row.get("namespace"))
    return Binding(Key(meta.get("namespace", ""), meta["name"]), owners)


def beside_own_operators(values: Values, namespace: str, found: Found) -> list[str]:
    """Refuse an operator for all namespaces beside one for a namespace of these, and the reverse.

    A note instead, where the user may not look for others.
    """
    if not values.operator.enabled:
        return []
    ours = OwnOperator(namespace, values.operator.watch_namespace)
    for other in found.own_operators:
        if not ours.shares_jobs_with(other):
            continue
        remove = f"remove it first with `muster uninstall --namespace {other.namespace}`"
        raise UsageError(
            f"there is {other}; both operators would act on the same jobs",
            hint=f"It serves {ours.served} already. To replace it, {remove}."
            if ours.served
            else f"Leave the operator out with --scheduler-only, or {remove}.",
        )
    if DEPLOYMENTS.resource not in found.unread:
        return []
    return [
        "you may not list the deployments of all namespaces, so it is not known whether another "
        f"operator serves {ours.served or 'them'} already; two would act on the same jobs."
    ]


def refuse_second(objects: list[Raw], namespace: str, found: Found) -> None:
    """Refuse to take the rights of the same component in another namespace."""
    owners = {binding.key: binding.owners for binding in found.bindings}
    for item in objects:
        if not item["kind"].endswith("RoleBinding"):
            continue
        key = binding_of(item).key
        if others := sorted(owners.get(key, frozenset()) - {namespace}):
            raise UsageError(
                f"{key.name} is installed in the namespace {others[0]}; a second one would take "
                "its rights, and it would stop",
                hint=f"Change it with `muster install --namespace {others[0]}`, or remove it first "
                f"with `muster uninstall --namespace {others[0]}`.",
            )
