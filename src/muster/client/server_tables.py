"""Objects of any kind in the columns that the cluster itself prints, as kubectl shows them.

The server makes the table; a kind is found by its name, its plural or its short name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from muster.api.kinds import (
    CONFIG_MAPS,
    CRDS,
    DEPLOYMENTS,
    EVENTS,
    JOB_KINDS,
    LEASES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PRIORITY_CLASSES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    VOLCANO_POD_GROUPS,
    Kind,
)
from muster.api.meta import Key, Raw, object_name
from muster.kube import request

if TYPE_CHECKING:
    from muster.kube.blocking_client import BlockingClient
    from muster.kube.request import Request

TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json"
_APPS = ("apps", "v1")
_KINDS: tuple[tuple[Kind[Any], str], ...] = (
    (PODS, "po"),
    (NODES, "no"),
    (EVENTS, "ev"),
    (SERVICES, "svc"),
    (CONFIG_MAPS, "cm"),
    (SECRETS, ""),
    (NAMESPACES, "ns"),
    (LEASES, ""),
    (CRDS, "crd"),
    (POD_DISRUPTION_BUDGETS, "pdb"),
    (PRIORITY_CLASSES, "pc"),
    (VOLCANO_POD_GROUPS, "pg"),
    (PERSISTENT_VOLUME_CLAIMS, "pvc"),
    (PERSISTENT_VOLUMES, "pv"),
    (SERVICE_ACCOUNTS, "sa"),
    (Kind("", "v1", "endpoints", "Endpoints", dict), "ep"),
    (Kind("", "v1", "resourcequotas", "ResourceQuota", dict), "quota"),
    (DEPLOYMENTS, "deploy"),
    (Kind(*_APPS, "replicasets", "ReplicaSet", dict), "rs"),
    (Kind(*_APPS, "statefulsets", "StatefulSet", dict), "sts"),
    *((kind, "") for kind in JOB_KINDS),
)


def _words(kind: Kind[Any], short: str) -> set[str]:
    return {kind.plural, kind.kind.lower(), f"{kind.plural}.{kind.group}".rstrip("."), short}


KINDS_BY_WORD: dict[str, Kind[Raw]] = {
    word: kind.read_as(dict) for kind, short in _KINDS for word in _words(kind, short) if word
}

PLURALS = {kind.plural for kind in KINDS_BY_WORD.values()}
"""Words that always mean a kind; any other word may be the name of a job."""


class _Column(msgspec.Struct):
    name: str
    priority: int = 0


class _Row(msgspec.Struct):
    cells: list[Any]
    object: dict[str, Any] = {}


class Table(msgspec.Struct):
    """The server's table."""

    columns: list[_Column] = msgspec.field(name="columnDefinitions", default_factory=list)
    rows: list[_Row] = []


class ObjectQuery(NamedTuple):
    """Objects of a kind, in one namespace or in all: one by its name, or those with labels."""

    kind: Kind[Raw]
    namespace: str
    name: str = ""
    labels: str = ""

    def request(self) -> Request:
        namespace = self.namespace if self.kind.namespaced else ""
        if self.name:
            return request.get(self.kind, Key(namespace, self.name))
        return request.list_page(
            self.kind, namespace, labels=self.labels, limit=0, continue_token=""
        )


def fetch(client: BlockingClient, query: ObjectQuery) -> Table:
    """The objects as a table."""
    response = client.send(query.request()._replace(accept=TABLE))
    return msgspec.json.decode(response.body, type=Table)


def fetch_raw(client: BlockingClient, query: ObjectQuery) -> Raw:
    """The object itself, or the list."""
    raw: Raw = msgspec.json.decode(client.send(query.request()).body, type=dict)
    return raw


def object_names(table: Table, kind: Kind[Raw]) -> list[str]:
    """`pod/x`, `tfjob.kubeflow.org/x`"""
    type_ = {"apiVersion": kind.api_version, "kind": kind.kind}
    return [object_name({**row.object, **type_}) for row in table.rows]
