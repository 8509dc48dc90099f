"""What a cluster has before an installation: CRDs, other job operators, other schedulers.

A list that the user may not read counts as empty, and `unread` names it: a user with rights in one
namespace can install an operator there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from kubekit.client import discovery
from kubekit.errors import Forbidden, NotFound
from kubekit.objects.kinds import ADMISSION_POLICIES, CRDS, DEPLOYMENTS, LEASES, NAMESPACES
from kubekit.objects.meta import Key, Raw
from muster.install import bindings
from muster.install.bindings import Binding  # noqa: TC001 - msgspec resolves annotations
from muster.install.other_systems import (
    OtherSystem,
    deployed_schedulers,
    other_operators,
)
from muster.install.own_operators import OwnOperator, own_operators

if TYPE_CHECKING:
    from datetime import datetime

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.kinds import Kind

T = TypeVar("T")


class Found(msgspec.Struct, frozen=True):
    """The state of a cluster before an installation."""

    namespace_exists: bool = False
    crds: dict[str, Raw] = {}
    operators: tuple[OtherSystem, ...] = ()
    schedulers: tuple[OtherSystem, ...] = ()
    """By their Deployments."""
    leases: tuple[Any, ...] = ()
    deployments: tuple[Raw, ...] = ()
    """Muster's own, if it is installed."""
    own_operators: tuple[OwnOperator, ...] = ()
    """Muster's operators in other namespaces."""
    bindings: tuple[Binding, ...] = ()
    """Of Muster's roles, also by installations in other namespaces."""
    unread: tuple[str, ...] = ()
    serves_policies: bool = True
    """Whether the API server has admission policies."""


def look(client: BlockingClient, namespace: str, now: datetime, watched: str = "") -> Found:
    """The state of the cluster, for an operator that serves all namespaces or the given one.

    `now` is the time by the server's clock.
    """
    unread: list[str] = []
    crds = _list(client, CRDS.read_as(dict), unread)
    deployments = _list(client, DEPLOYMENTS, unread)
    leases = _list(client, LEASES, unread)
    return Found(
        namespace_exists=_exists(client, namespace),
        crds={crd["metadata"]["name"]: crd for crd in crds},
        operators=other_operators(deployments, leases, now),
        schedulers=deployed_schedulers(deployments),
        leases=tuple(leases),
        deployments=tuple(row for row in deployments if _is_ours(row, namespace)),
        own_operators=tuple(
            row for row in own_operators(deployments) if row.namespace != namespace
        ),
        bindings=bindings.read(client, (namespace, watched or namespace)),
        unread=tuple(unread),
        serves_policies=_serves_policies(client),
    )


def _serves_policies(client: BlockingClient) -> bool:
    wanted = ADMISSION_POLICIES[0]
    try:
        response = client.send(discovery.resources_request(wanted.api_version))
    except NotFound:
        return False
    served = {kind.kind for kind in discovery.kinds(response.body, wanted.api_version, dict)}
    return {kind.kind for kind in ADMISSION_POLICIES} <= served


def _list(client: BlockingClient, kind: Kind[T], unread: list[str]) -> list[T]:
    try:
        return list(client.list(kind).items)
    except Forbidden:
        unread.append(kind.resource)
        return []


def _exists(client: BlockingClient, namespace: str) -> bool:
    try:
        return client.find(NAMESPACES, Key("", namespace)) is not None
    except Forbidden:
        return True  # whoever may not read namespaces cannot create one either


def _is_ours(deployment: Raw, namespace: str) -> bool:
    meta = deployment["metadata"]
    name: str = meta["name"]
    return bool(meta["namespace"] == namespace) and name.startswith("muster-")
