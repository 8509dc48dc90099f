"""Which objects an installation applies, given what the cluster has. Pure.

Muster is a guest: CRDs of other systems are used as they are. What an installation does beside
other systems and other installations of Muster is in `other_systems` and `own_installations`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from kubekit.errors import UsageError
from kubekit.objects.kinds import ADMISSION_POLICIES
from muster.contract.crds import PART_OF, load_all
from muster.contract.job_kinds import JOB_KINDS
from muster.contract.other_schedulers import is_alive
from muster.contract.scheduler_rights import name_lease
from muster.install import other_systems, own_installations
from muster.install.objects import manifests

if TYPE_CHECKING:
    from datetime import datetime

    from kubekit.objects.meta import Raw
    from muster.install.existing_objects import Found
    from muster.install.objects.values import Values

HELM = "Helm"


class Request(msgspec.Struct, frozen=True):
    """The user's wish."""

    values: Values
    namespace: str
    operator: bool = False
    """Install the operator even though CRDs or operators of others are here."""
    take_crds: bool = False


class Plan(msgspec.Struct, frozen=True):
    """The objects to apply, CRDs of others to extend, and sentences for the user."""

    values: Values
    objects: list[Raw]
    extended_crds: list[Raw] = []
    notes: list[str] = []


def plan(request: Request, found: Found, now: datetime) -> Plan:
    """The plan; UsageError if Muster must not be installed like this."""
    _refuse_helm(found)
    values, notes = other_systems.beside_operators(request, found)
    other_systems.refuse_schedulers(values, found, now)
    other_systems.refuse_unanswered(values, found, now)
    values = _with_running_scheduler(values, found, now)
    own, extended, about_crds = _crds(request, found)
    objects, about_policy = _components(values, request.namespace, found)
    own_installations.refuse_second(objects, request.namespace, found)
    notes += own_installations.beside_own_operators(values, request.namespace, found)
    if not found.namespace_exists:
        objects = [manifests.namespace_of(values, request.namespace), *own, *objects]
    else:
        objects = [*own, *objects]
    return Plan(values, objects, extended, [*notes, *about_crds, *about_policy])


def _with_running_scheduler(values: Values, found: Found, now: datetime) -> Values:
    """The values of an operator that is installed alone, beside a scheduler of Muster's."""
    own, name = values.operator, name_lease(values.operator.gang_scheduler_name)
    goes = any(row["metadata"]["name"] == "muster-scheduler" for row in found.deployments)
    if (
        values.pod_scheduler
        or goes
        or not any(lease.metadata.name == name and is_alive(lease, now) for lease in found.leases)
    ):
        return values
    return replace(values, operator=replace(own, pod_scheduler_name=own.gang_scheduler_name))


def _components(values: Values, namespace: str, found: Found) -> tuple[list[Raw], list[str]]:
    """The objects of the components, without those that the cluster cannot have."""
    objects = manifests.components(values, namespace)
    policies = {kind.kind for kind in ADMISSION_POLICIES}
    if values.priority_classes and not found.serves_policies:
        raise UsageError(
            f"the cluster has no {ADMISSION_POLICIES[0].kind} (Kubernetes 1.30), so namespaces "
            "cannot be kept from a PriorityClass",
            hint="Install without --priority-class, and with the scheduler's setting preempt: "
            "false if priorities must not matter.",
        )
    if found.serves_policies or policies.isdisjoint(item["kind"] for item in objects):
        return objects, []
    return [item for item in objects if item["kind"] not in policies], [
        f"the cluster has no {ADMISSION_POLICIES[0].kind} (Kubernetes 1.30): mistakes in jobs are "
        "reported by the operator, after a job is created."
    ]


def _refuse_helm(found: Found) -> None:
    for row in found.deployments:
        labels = row["metadata"].get("labels") or {}
        if labels.get("app.kubernetes.io/managed-by") == HELM:
            name = row["metadata"]["name"]
            raise UsageError(
                f"{name} was installed with Helm",
                hint="Change it with `helm upgrade`, or `helm uninstall` it first.",
            )


def _crds(request: Request, found: Found) -> tuple[list[Raw], list[Raw], list[str]]:
    """Our CRDs to apply, CRDs of others with our versions added, and notes about the rest."""
    own, extended, notes = [], [], []
    wanted = manifests.definitions(request.values)
    for crd in load_all():
        theirs = found.crds.get(crd["metadata"]["name"])
        if theirs is None and (crd not in wanted or CRDS_UNREAD in found.unread):
            continue
        if theirs is None or (theirs["metadata"].get("labels") or {}).get(PART_OF) == "muster":
            own.append(crd)
        elif request.take_crds and (missing := missing_versions(crd, theirs)):
            extended.append(with_versions(theirs, missing))
        elif note := _about(crd, theirs):
            notes.append(note)
    return own, extended, notes


CRDS_UNREAD = "customresourcedefinitions.apiextensions.k8s.io"


def missing_versions(crd: Raw, theirs: Raw) -> list[Raw]:
    """Our versions that another system's CRD does not have."""
    names = {version["name"] for version in theirs["spec"]["versions"]}
    return [version for version in crd["spec"]["versions"] if version["name"] not in names]


def with_versions(theirs: Raw, missing: list[Raw]) -> Raw:
    """The CRD with more served versions; it stays theirs, and so does the stored version."""
    conversion = (theirs["spec"].get("conversion") or {}).get("strategy", "None")
    name = theirs["metadata"]["name"]
    if conversion != "None":
        raise UsageError(
            f"the CRD {name} converts its versions by a webhook, which does not know Muster's",
            hint="Install without --take-crds.",
        )
    added = [{**version, "storage": False} for version in missing]
    spec = {**theirs["spec"], "versions": [*theirs["spec"]["versions"], *added]}
    return {**theirs, "spec": spec}


def _about(crd: Raw, theirs: Raw) -> str:
    """A warning about another system's CRD that does not serve what Muster reads."""
    name = crd["metadata"]["name"]
    needed = {kind.resource: kind.version for kind in JOB_KINDS}.get(name)
    served = [row["name"] for row in theirs["spec"]["versions"] if row.get("served")]
    if needed is None or needed in served:
        return ""
    return (
        f"the CRD {name} belongs to another system and does not serve {needed}, which Muster's "
        "operator reads; --take-crds adds Muster's versions to it."
    )
