"""Objects of any kind as tables that the server makes, like those of kubectl.

A kind is found by its name, its plural or its short name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kubekit.client import request
from kubekit.objects import kinds
from kubekit.objects.kinds import Kind, decoder_of
from kubekit.objects.meta import Key, Raw, object_name
from muster.contract.job_kinds import JOB_KINDS
from muster.contract.pod_groups import VOLCANO_POD_GROUPS

if TYPE_CHECKING:
    from kubekit.client.blocking_client import BlockingClient
    from kubekit.client.request import Request

TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json"
_RBAC = "rbac.authorization.k8s.io"
_KINDS: tuple[tuple[Kind[Any], str], ...] = (
    (kinds.PODS, "po"),
    (kinds.NODES, "no"),
    (kinds.EVENTS, "ev"),
    (kinds.SERVICES, "svc"),
    (kinds.CONFIG_MAPS, "cm"),
    (kinds.SECRETS, ""),
    (kinds.NAMESPACES, "ns"),
    (kinds.LEASES, ""),
    (kinds.CRDS, "crd"),
    (kinds.CRDS, "crds"),  # not a regular plural, but what people type
    (kinds.POD_DISRUPTION_BUDGETS, "pdb"),
    (kinds.PRIORITY_CLASSES, "pc"),
    (VOLCANO_POD_GROUPS, "pg"),
    (kinds.PERSISTENT_VOLUME_CLAIMS, "pvc"),
    (kinds.PERSISTENT_VOLUMES, "pv"),
    (kinds.SERVICE_ACCOUNTS, "sa"),
    (Kind("", "v1", "endpoints", "Endpoints", dict), "ep"),
    (Kind("", "v1", "resourcequotas", "ResourceQuota", dict), "quota"),
    (kinds.DEPLOYMENTS, "deploy"),
    (Kind("apps", "v1", "replicasets", "ReplicaSet", dict), "rs"),
    (Kind("apps", "v1", "statefulsets", "StatefulSet", dict), "sts"),
    *(
        (Kind.of(f"{_RBAC}/v1", kind, dict, namespaced=not kind.startswith("Cluster")), "")
        for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    ),
    (Kind.of("storage.k8s.io/v1", "StorageClass", dict, namespaced=False), "sc"),
    *((kind, "") for kind in JOB_KINDS),
)
"""Kinds that `arena get` lists, each with its short name."""


KINDS_BY_WORD: dict[str, Kind[Raw]] = {
    word: kind.read_as(dict)
    for kind, short in _KINDS
    for word in (kind.plural, kind.kind.lower(), f"{kind.plural}.{kind.group}".rstrip("."), short)
    if word
}

ALL: tuple[Kind[Any], ...] = (kinds.PODS, kinds.SERVICES, kinds.DEPLOYMENTS)
"""Kinds that `arena get all` lists next to the jobs."""
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
    rows_or_null: list[_Row] | None = msgspec.field(name="rows", default=None)
    """kube-apiserver sends null for an empty list of roles."""

    @property
    def rows(self) -> list[_Row]:
        return self.rows_or_null or []


class ObjectQuery(NamedTuple):
    """Objects of a kind, in one namespace or in all: the named object, or all with the labels."""

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
    return decoder_of(Table).decode(response.body)


def fetch_raw(client: BlockingClient, query: ObjectQuery) -> Raw:
    """The object itself, or the list."""
    raw: Raw = msgspec.json.decode(client.send(query.request()).body, type=dict)
    return raw


def object_names(table: Table, kind: Kind[Raw]) -> list[str]:
    """`pod/x`, `tfjob.kubeflow.org/x`"""
    type_ = {"apiVersion": kind.api_version, "kind": kind.kind}
    return [object_name({**row.object, **type_}) for row in table.rows]
