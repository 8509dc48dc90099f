"""What a cluster has before an installation: CRDs, other job operators, other schedulers, the time.

A list that the user may not read counts as empty, and `unread` names it: a user with rights in one
namespace can install an operator there. Leases are judged by the server's clock: this machine's may
be wrong.
"""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kubekit.client import discovery
from kubekit.client.request import Request
from kubekit.objects.kinds import (
    ADMISSION_POLICIES,
    CONFIG_MAPS,
    CRDS,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    POD_DISRUPTION_BUDGETS,
    SERVICES,
    Kind,
)
from kubekit.objects.meta import Key, Raw
from kubekit.request_errors import Forbidden, NotFound
from muster.install import installed_values
from muster.install.other_systems import OtherSystem, deployed_schedulers, other_operators
from muster.install.own_installations import (
    LABELS,
    Binding,
    OwnOperator,
    own_operators,
    read_bindings,
)

if TYPE_CHECKING:
    from kubekit.client.blocking_client import BlockingClient
    from kubekit.client.request import Response
    from muster.install.objects.values import Values


class Reader:
    """Lists objects, and remembers what may not be listed."""

    def __init__(self, client: BlockingClient) -> None:
        self.client = client
        self.unread: list[str] = []

    def list(self, kind: Kind[Any], namespace: str = "", **selectors: Any) -> list[Any]:
        try:
            return list(self.client.list(kind, namespace, **selectors).items)
        except NotFound:
            return []
        except Forbidden:
            if words_for(kind) not in self.unread:
                self.unread.append(words_for(kind))
            return []


def words_for(kind: Kind[Any], key: Key | None = None) -> str:
    """How `unread` names the objects of a kind, or one of them."""
    return kind.resource if key is None else f"{kind.resource} {key}"


NETWORK_POLICIES = Kind("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", dict)
OF_VALUES = (DEPLOYMENTS, CONFIG_MAPS, SERVICES, POD_DISRUPTION_BUDGETS, NETWORK_POLICIES)
"""The kinds whose objects tell the values of an installation."""


class Installed(NamedTuple):
    """The installation that is in a namespace already."""

    values: Values | None
    """None: there is none."""
    unread: tuple[str, ...] = ()
    """What the user may not list in the namespace."""


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


def installed(client: BlockingClient, namespace: str) -> Installed:
    """The values of the installation in a namespace."""
    reader = Reader(client)
    rows = [
        {**row, "kind": kind.kind}
        for kind in OF_VALUES
        for row in reader.list(kind.read_as(dict), namespace, labels=LABELS)
    ]
    values = installed_values.read(rows)
    if values is not None:
        with contextlib.suppress(NotFound, Forbidden):
            policies = client.list(ADMISSION_POLICIES[0], labels=LABELS).items
            values = installed_values.with_policies(values, policies, namespace)
    return Installed(values, tuple(reader.unread))


def look(client: BlockingClient, namespace: str, now: datetime, watched: str = "") -> Found:
    """The state of the cluster, for an operator that serves all namespaces or the given one.

    `now` is the time by the server's clock.
    """
    reader = Reader(client)
    crds = reader.list(CRDS.read_as(dict))
    deployments = reader.list(DEPLOYMENTS)
    leases = reader.list(LEASES)
    own = deployments if not reader.unread else [*reader.list(DEPLOYMENTS, namespace), *deployments]
    return Found(
        namespace_exists=_exists(client, namespace),
        crds={crd["metadata"]["name"]: crd for crd in crds},
        operators=other_operators(deployments, leases, now),
        schedulers=deployed_schedulers(deployments),
        leases=tuple(leases),
        deployments=tuple(row for row in own if _is_ours(row, namespace)),
        own_operators=tuple(
            row for row in own_operators(deployments) if row.namespace != namespace
        ),
        bindings=read_bindings(client, (namespace, watched or namespace)),
        unread=tuple(reader.unread),
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


def _exists(client: BlockingClient, namespace: str) -> bool:
    try:
        return client.find(NAMESPACES, Key("", namespace)) is not None
    except Forbidden:
        return True  # whoever may not read namespaces cannot create one either


def _is_ours(deployment: Raw, namespace: str) -> bool:
    meta = deployment["metadata"]
    name: str = meta["name"]
    return bool(meta["namespace"] == namespace) and name.startswith("muster-")


def seconds_ahead(response: Response, before: datetime) -> float:
    """How far this machine's clock is ahead of the server's; `before` is when the request went."""
    headers = {name.lower(): value for name, value in response.headers.items()}
    if "date" not in headers:
        return 0.0
    # The header has whole seconds: half a second is the best guess for the rest.
    return (before - parsedate_to_datetime(headers["date"])).total_seconds() - 0.5


def server_now(client: BlockingClient) -> datetime:
    """The time by the server's clock."""
    before = datetime.now(UTC)
    ahead = seconds_ahead(client.send(Request("GET", "/version")), before)
    return datetime.now(UTC) - timedelta(seconds=ahead)
