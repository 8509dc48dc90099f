"""The rights that the operator needs on a cluster, no more and no fewer.

A test runs jobs of every kind with exactly these rights, and compares them with the requests in the
audit log of a real kube-apiserver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubekit.objects.kinds import (
    CONFIG_MAPS,
    EVENTS,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from kubekit.rights import READ, MissingRight, Rights, Rule, lease_rules, rule
from muster.contract.gang_dialects import GROUP_KIND_BY_RESOURCE
from muster.contract.job_kinds import JOB_KINDS

if TYPE_CHECKING:
    from kubekit.objects.kinds import Kind
    from kubekit.objects.meta import Raw

ACCOUNT = "muster-operator"
LEASE = "muster-operator"
OWNED: tuple[Kind[Any], ...] = (CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS)
"""Further kinds of object that jobs of some kinds need: MPIJobs."""
_GROUPS = tuple(GROUP_KIND_BY_RESOURCE.values())
_RBAC = "rbac.authorization.k8s.io"
_FILES = tuple(kind for kind in OWNED if kind.group != _RBAC)
_ROLES = tuple(kind for kind in OWNED if kind.group == _RBAC)
_ENFORCED = "only where the admission plugin OwnerReferencesPermissionEnforcement is on: "


def rights() -> Rights:
    """The rights of the operator."""
    return Rights(served=_served(), cluster=(_PRIORITIES,), leases=lease_rules(LEASE))


_PRIORITIES = rule([PRIORITY_CLASSES], READ, "the priority of pods")


def _served() -> tuple[Rule, ...]:
    whole = ("get", *READ, "create", "patch", "delete")
    adopted = ("get", *READ, "create", "patch")
    budgets = [kind for kind in _GROUPS if kind.plural != "podgroups"]
    groups = [kind for kind in _GROUPS if kind.plural == "podgroups"]
    mpi = "MPIJobs"
    by_exec = "MPIJobs whose ranks start by exec"
    adoption = _ENFORCED + "adopting objects that an earlier MPIJob of the name left behind"
    return (
        rule(JOB_KINDS, ("get", *READ, "delete"), "jobs, and deleting those whose TTL is over"),
        rule(JOB_KINDS, ("patch",), "the status of jobs", part="status"),
        rule([PODS, SERVICES], whole, "pods and services of jobs"),
        rule([EVENTS], ("create", "patch"), "events about jobs"),
        rule([RESOURCE_QUOTAS], READ, "the turns of jobs that wait for a quota"),
        rule(groups, whole, "gangs"),
        rule(budgets, whole, "gangs in the dialect pdb"),
        rule(_FILES, adopted, mpi),
        rule(_ROLES, adopted, by_exec),
        rule(
            [PODS],
            ("create", "get"),
            "granted to launchers of MPIJobs, since nobody can grant a right without having it",
            part="exec",
        ),
        rule(JOB_KINDS, ("update",), _ENFORCED + "owning objects", part="finalizers"),
        rule(_FILES, ("delete",), adoption),
        rule(_ROLES, ("delete",), adoption),
    )


def missing_for_ownership(message: str, job: Kind[Raw], owned: Kind[Any]) -> MissingRight | None:
    """The right that the operator lacks to make a job the owner of an object.

    The admission plugin OwnerReferencesPermissionEnforcement says neither who lacks it nor which.
    """
    if "you can't set finalizers on" in message:
        return MissingRight(ACCOUNT, rule([job], ("update",), part="finalizers"))
    if "cannot set an ownerRef on a resource you can't delete" in message:
        return MissingRight(ACCOUNT, rule([owned], ("delete",)))
    return None
