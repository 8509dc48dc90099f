"""Objects of any kind in the columns that the cluster itself prints, as kubectl shows them.

Used by `get pods`, `get nodes`, `get events` and the like. The server makes the table; here its
kind is found by the word that was typed, and its cells are laid out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from muster.api.kinds import (
    CONFIG_MAPS,
    CRDS,
    EVENTS,
    JOB_KINDS,
    LEASES,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PRIORITY_CLASSES,
    SECRETS,
    SERVICES,
    VOLCANO_POD_GROUPS,
    Kind,
)
from muster.api.meta import Key, Raw, object_name
from muster.cli.show.table import table
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
    (Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", dict), "pvc"),
    (Kind("", "v1", "persistentvolumes", "PersistentVolume", dict, namespaced=False), "pv"),
    (Kind("", "v1", "serviceaccounts", "ServiceAccount", dict), "sa"),
    (Kind("", "v1", "endpoints", "Endpoints", dict), "ep"),
    (Kind("", "v1", "resourcequotas", "ResourceQuota", dict), "quota"),
    (Kind(*_APPS, "deployments", "Deployment", dict), "deploy"),
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
"""The words that mean nothing but a list; a job may have any other's name."""


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
    """Which objects: of a kind, in a namespace or in all, perhaps one, perhaps labelled so."""

    kind: Kind[Raw]
    namespace: str
    name: str = ""
    labels: str = ""

    def request(self) -> Request:
        space = self.namespace if self.kind.namespaced else ""
        if self.name:
            return request.get(self.kind, Key(space, self.name))
        return request.list_page(self.kind, space, labels=self.labels, limit=0, continue_token="")


def fetch(client: BlockingClient, asked: ObjectQuery) -> Table:
    """The table of what is asked for."""
    answer = client.send(asked.request()._replace(accept=TABLE))
    return msgspec.json.decode(answer.body, type=Table)


def fetch_raw(client: BlockingClient, asked: ObjectQuery) -> Raw:
    """The object itself, or the list."""
    answer = client.send(asked.request())
    found: Raw = msgspec.json.decode(answer.body, type=dict)
    return found


def as_text(found: Table, *, wide: bool, spaces: bool) -> str:
    """The table laid out; `spaces` puts the namespace first."""
    shown = [i for i, column in enumerate(found.columns) if wide or not column.priority]
    head = [found.columns[i].name.upper() for i in shown]
    rows = [[_cell(row.cells[i]) for i in shown if i < len(row.cells)] for row in found.rows]
    if spaces:
        head.insert(0, "NAMESPACE")
        for cells, row in zip(rows, found.rows, strict=True):
            cells.insert(0, str((row.object.get("metadata") or {}).get("namespace") or ""))
    return table([head, *rows])


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "<none>" if value is None else str(value)


def names(found: Table, kind: Kind[Raw]) -> list[str]:
    """`pod/x`, `tfjob.kubeflow.org/x`"""
    of = {"apiVersion": kind.api_version, "kind": kind.kind}
    return [object_name({**row.object, **of}) for row in found.rows]
