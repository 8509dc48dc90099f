"""What a cluster has before an installation: CRDs, other job operators, other schedulers.

A list that the user may not read counts as empty, and `unread` names it: a user with rights in one
namespace can install an operator there.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from muster.api.kinds import ADMISSION_POLICIES, CRDS, DEPLOYMENTS, LEASES, NAMESPACES
from muster.api.meta import Key, Raw
from muster.errors import Forbidden, NotFound
from muster.kube import discovery
from muster.scheduler.other_schedulers import is_alive

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster.api.core import Lease
    from muster.api.kinds import Kind
    from muster.kube.blocking_client import BlockingClient

T = TypeVar("T")

OPERATORS = (
    "training-operator",
    "tf-operator",
    "tf-job-operator",
    "pytorch-operator",
    "mpi-operator",
)
"""Job operators that act on the same kinds: the names of their Deployments, images and leases."""
TRAINING_OPERATOR_LEASE = ".training-operator.kubeflow.org"


class OtherOperator(msgspec.Struct, frozen=True, order=True):
    """A job operator that runs here, and by which object it was found."""

    name: str
    seen: str

    def __str__(self) -> str:
        return f"{self.name} ({self.seen})"


class Found(msgspec.Struct, frozen=True):
    """The state of a cluster before an installation."""

    namespace_exists: bool = False
    crds: dict[str, Raw] = {}
    operators: tuple[OtherOperator, ...] = ()
    leases: tuple[Any, ...] = ()
    deployments: tuple[Raw, ...] = ()
    """Muster's own, if it is installed."""
    unread: tuple[str, ...] = ()
    serves_policies: bool = True
    """Whether the API server has admission policies."""


def look(client: BlockingClient, namespace: str) -> Found:
    """The state of the cluster now."""
    unread: list[str] = []
    crds = _list(client, CRDS.read_as(dict), unread)
    deployments = _list(client, DEPLOYMENTS, unread)
    leases = _list(client, LEASES, unread)
    return Found(
        namespace_exists=_exists(client, namespace),
        crds={crd["metadata"]["name"]: crd for crd in crds},
        operators=other_operators(deployments, leases, datetime.now(UTC)),
        leases=tuple(leases),
        deployments=tuple(row for row in deployments if _is_ours(row, namespace)),
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


def other_operators(
    deployments: Iterable[Raw], leases: Iterable[Lease], now: datetime
) -> tuple[OtherOperator, ...]:
    """The job operators that run: a Deployment that is not scaled to zero, or a live lease."""
    found = set()
    for row in deployments:
        meta, spec = row["metadata"], row.get("spec") or {}
        name = _operator_of(row)
        if name and spec.get("replicas", 1) > 0:
            where = f"deployment {meta['name']} in the namespace {meta['namespace']}"
            found.add(OtherOperator(name, where))
    by_name = {other.name for other in found}
    for lease in leases:
        name = lease.metadata.name
        name = "training-operator" if name.endswith(TRAINING_OPERATOR_LEASE) else name
        if name in OPERATORS and name not in by_name and is_alive(lease, now):
            where = f"lease {lease.metadata.name} in the namespace {lease.metadata.namespace}"
            found.add(OtherOperator(name, where))
    return tuple(sorted(found))


def _operator_of(deployment: Raw) -> str:
    """The job operator that a Deployment runs, by its name or its image; empty if none."""
    template = (deployment.get("spec") or {}).get("template") or {}
    containers = (template.get("spec") or {}).get("containers") or []
    images = [str(row.get("image", "")) for row in containers]
    repositories = [
        image.partition("@")[0].rpartition("/")[2].partition(":")[0] for image in images
    ]
    names = [deployment["metadata"]["name"], *repositories]
    return next((name for name in names if name in OPERATORS), "")
