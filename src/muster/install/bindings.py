"""Bindings of Muster's roles: their subjects tell which installation has the rights.

The names of roles and bindings are fixed, so a cluster has each of them once: a second installation
of the same component would take the rights of the first.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

from kubekit.errors import Forbidden
from kubekit.objects.kinds import CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS
from kubekit.objects.meta import Key
from muster.contract.crds import PART_OF

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.meta import Raw

LABELS = f"{PART_OF}=muster"


class Binding(NamedTuple):
    """A binding, which is named as its role, and the namespaces of its service accounts."""

    key: Key
    """Without a namespace: a ClusterRoleBinding."""
    owners: frozenset[str]


def read(client: BlockingClient, namespaces: Iterable[str]) -> tuple[Binding, ...]:
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
