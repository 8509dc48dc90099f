"""Declared rights as RBAC objects: service account, roles and bindings of one component.

The dashboard has no rights: it uses those of its user. An installation makes roles of what its
users need, to be bound to them: `muster-dashboard` for readers and, in addition,
`muster-dashboard-edit` for those who change something. A test opens the pages and makes the changes
with exactly these rights, and compares them with the audit log of a real kube-apiserver.
Kubernetes' own role `edit` has the second part too, with the jobs that an installation adds to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.objects.kinds import CONFIG_MAPS, EVENTS, NAMESPACES, NODES, PODS
from kubekit.rights import READ, Resource, Rights, Rule, rule
from muster.contract import operator_rights, scheduler_rights
from muster.contract.crds import PART_OF
from muster.contract.gang_dialects import DIALECTS
from muster.contract.job_kinds import JOB_KINDS
from muster.contract.waiting_line_format import CONFIG_MAP, NAMESPACE as LEASE_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.objects.meta import Raw
    from muster.install.objects.values import Values


GROUP = "rbac.authorization.k8s.io"
AGGREGATE = f"{GROUP}/aggregate-to-"


def labels(component: str = "") -> dict[str, str]:
    """The labels of every object of Muster; `app.kubernetes.io/name` selects one component."""
    own = {"app.kubernetes.io/name": f"muster-{component}"} if component else {}
    return {**own, PART_OF: "muster"}


def metadata(component: str, namespace: str = "") -> Raw:
    """The metadata of an object that is named as its component."""
    place = {"namespace": namespace} if namespace else {}
    return {"name": f"muster-{component}", **place, "labels": labels(component)}


def rights_of(component: str, values: Values) -> Rights:
    """The rights that a component needs with these values."""
    if component == "dashboard":
        return reader_rights()
    if component == "dashboard-edit":
        return editor_rights()
    if component == "scheduler":
        return scheduler_rights.rights(values.scheduler.names)
    return operator_rights.rights()


def lease_namespace(component: str, values: Values) -> str:
    """The namespace of a component's leases: of an operator for one namespace, that one."""
    served = values.operator.watch_namespace if component == "operator" else ""
    return served or LEASE_NAMESPACE


def build(component: str, values: Values, namespace: str) -> list[Raw]:
    """The service account of a component, and the roles with exactly its rights."""
    account: Raw = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(component, namespace),
    }
    if component == "dashboard":  # it acts with the tokens of its users and has none itself
        return [{**account, "automountServiceAccountToken": False}]
    rights = rights_of(component, values)
    subject: Raw = {"kind": "ServiceAccount", "name": f"muster-{component}", "namespace": namespace}
    leases = lease_namespace(component, values)
    if component == "operator" and values.operator.watch_namespace:
        # No role of the whole cluster: priority classes then do not order a gang's minResources.
        return [account, *_granted(component, (*rights.served, *rights.leases), subject, leases)]
    return [
        account,
        *_granted(component, (*rights.served, *rights.cluster), subject),
        *_granted(component, rights.leases, subject, leases),
    ]


def _granted(component: str, rules: Iterable[Rule], subject: Raw, namespace: str = "") -> list[Raw]:
    """A role and its binding: in one namespace, or in all."""
    prefix = "" if namespace else "Cluster"
    role, binding = f"{prefix}Role", f"{prefix}RoleBinding"
    return [
        _role(role, metadata(component, namespace), rules),
        {
            "apiVersion": f"{GROUP}/v1",
            "kind": binding,
            "metadata": metadata(component, namespace),
            "roleRef": {"apiGroup": GROUP, "kind": role, "name": f"muster-{component}"},
            "subjects": [subject],
        },
    ]


def dashboard_roles() -> list[Raw]:
    """Roles of users of the dashboard; nobody has them until somebody binds them to users."""
    rights = reader_rights()
    edit = {"name": "muster-dashboard-edit", "labels": labels("dashboard")}
    return [
        _role("ClusterRole", metadata("dashboard"), (*rights.served, *rights.cluster)),
        _role("ClusterRole", edit, editor_rights().served),
        _role("Role", metadata("dashboard", LEASE_NAMESPACE), rights.leases),
    ]


def reader_rights() -> Rights:
    """The rights of a reader, who changes nothing."""
    return Rights(
        served=(
            rule(JOB_KINDS, ("get", *READ), "jobs"),
            rule([PODS], ("get", *READ), "pods of jobs"),
            rule([PODS], ("get",), "logs", part="log"),
            rule([EVENTS], READ, "events and history"),
            Rule(("metrics.k8s.io",), ("pods",), ("list",), why="curves of usage"),
        ),
        cluster=(rule([NODES], READ, "the map of the cluster"),),
        # Pages watch the line; `arena get` and `arena explain` get it, with the same role.
        leases=(Rule(("",), (CONFIG_MAPS.plural,), ("get", *READ), (CONFIG_MAP,), "the line"),),
    )


def editor_rights() -> Rights:
    """The further rights of a user who submits, suspends and deletes jobs, and uses models."""
    return Rights(
        served=(
            rule(JOB_KINDS, ("create", "patch", "delete"), "submit, suspend, resume and delete"),
            rule([NAMESPACES], ("get",), "whether a namespace admits only restricted pods"),
            rule([PODS], ("get",), "scalars of a job's TensorBoard", part="proxy"),
            # RBAC cannot limit lists by label, so this is every ConfigMap of the namespace.
            rule(
                [CONFIG_MAPS],
                ("get", *READ, "create", "patch", "delete"),
                "models, hostfiles, and records of submitted jobs",
            ),
            Rule(("batch",), ("jobs",), ("create", "delete"), why="readers of models in volumes"),
            rule([PODS], ("create", "delete"), "trying and downloading models"),
            rule([PODS], ("create", "get"), "downloading models", part="exec"),
        )
    )


GROUPS = tuple(dict.fromkeys(kind for dialect in DIALECTS for kind in dialect.kinds))
"""The kinds of objects by which gangs are declared. A budget counts, too, and `edit` has it."""
USER_VERBS = {
    "view": ("get", "list", "watch"),
    "edit": ("create", "update", "patch", "delete", "deletecollection"),
}


def user_roles(*, jobs: bool = True) -> list[Raw]:
    """What Kubernetes' own roles `view`, `edit` and `admin` mean for gangs and `jobs`.

    The server aggregates these roles into its own. Without Muster's operator, the roles for jobs
    are those of another one.
    """
    return [
        _role(
            "ClusterRole",
            {"name": f"muster-{name}", "labels": {**labels(), f"{AGGREGATE}{name}": "true"}},
            [*([user_rule(JOB_KINDS, name)] if jobs else []), user_rule(GROUPS, name)],
        )
        for name in USER_VERBS
    ]


def user_rule(kinds: Iterable[Resource], role: str) -> Rule:
    """What the users of a role may do with these kinds."""
    return rule(kinds, USER_VERBS[role])


def _role(kind: str, meta: Raw, rules: Iterable[Rule]) -> Raw:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": meta,
        "rules": [rule.as_rbac() for rule in rules],
    }
