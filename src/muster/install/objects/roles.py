"""Declared rights as RBAC objects: service account, roles and bindings of one component."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.rights import Rights, rule
from muster.contract import operator_rights, scheduler_rights
from muster.contract.crds import PART_OF
from muster.contract.job_resources import JOB_KINDS
from muster.contract.waiting_line_format import NAMESPACE as LEASE_NAMESPACE
from muster.install.objects import dashboard_rights

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.objects.meta import Raw
    from kubekit.rights import Rule
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
        return dashboard_rights.rights()
    if component == "dashboard-edit":
        return dashboard_rights.changes()
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
    version = f"{GROUP}/v1"
    return [
        {
            "apiVersion": version,
            "kind": role,
            "metadata": metadata(component, namespace),
            "rules": [rule.as_rbac() for rule in rules],
        },
        {
            "apiVersion": version,
            "kind": binding,
            "metadata": metadata(component, namespace),
            "roleRef": {"apiGroup": GROUP, "kind": role, "name": f"muster-{component}"},
            "subjects": [subject],
        },
    ]


def dashboard_roles() -> list[Raw]:
    """Roles of users of the dashboard; nobody has them until somebody binds them to users."""
    rights = dashboard_rights.rights()
    edit = {"name": "muster-dashboard-edit", "labels": labels("dashboard")}
    roles: list[tuple[str, Raw, tuple[Rule, ...]]] = [
        ("ClusterRole", metadata("dashboard"), (*rights.served, *rights.cluster)),
        ("ClusterRole", edit, dashboard_rights.changes().served),
        ("Role", metadata("dashboard", LEASE_NAMESPACE), rights.leases),
    ]
    return [
        {
            "apiVersion": f"{GROUP}/v1",
            "kind": kind,
            "metadata": meta,
            "rules": [rule.as_rbac() for rule in rules],
        }
        for kind, meta, rules in roles
    ]


USER_VERBS = {
    "view": ("get", "list", "watch"),
    "edit": ("create", "update", "patch", "delete", "deletecollection"),
}


def user_roles() -> list[Raw]:
    """What Kubernetes' own roles `view`, `edit` and `admin` mean for jobs, by aggregation."""
    return [
        {
            "apiVersion": f"{GROUP}/v1",
            "kind": "ClusterRole",
            "metadata": {
                "name": f"muster-{name}",
                "labels": {**labels(), f"{AGGREGATE}{name}": "true"},
            },
            "rules": [rule(JOB_KINDS, verbs).as_rbac()],
        }
        for name, verbs in USER_VERBS.items()
    ]
