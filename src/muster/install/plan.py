"""Which objects an installation applies, given what the cluster has. Pure.

Muster is a guest: CRDs of other systems are used as they are, and where another job operator runs,
Muster's operator is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from kubekit.errors import UsageError
from kubekit.objects.kinds import ADMISSION_POLICIES, DEPLOYMENTS
from muster.contract.crds import PART_OF, load_all
from muster.contract.job_resources import JOB_KINDS
from muster.install.bindings import binding_of
from muster.install.objects import manifests
from muster.install.own_operators import OwnOperator

if TYPE_CHECKING:
    from datetime import datetime

    from kubekit.objects.meta import Raw
    from muster.install.found import Found
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
    values, notes = _beside_operators(request, found)
    _refuse_schedulers(values, found, now)
    own, extended, about_crds = _crds(request, found)
    objects, about_policy = _components(values, request.namespace, found)
    _refuse_second(objects, request.namespace, found)
    notes += _beside_own_operators(values, request.namespace, found)
    if not found.namespace_exists:
        objects = [manifests.namespace_of(values, request.namespace), *own, *objects]
    else:
        objects = [*own, *objects]
    return Plan(values, objects, extended, [*notes, *about_crds, *about_policy])


def _components(values: Values, namespace: str, found: Found) -> tuple[list[Raw], list[str]]:
    """The objects of the components, without those that the cluster cannot have."""
    objects = manifests.components(values, namespace)
    policies = {kind.kind for kind in ADMISSION_POLICIES}
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


def _refuse_second(objects: list[Raw], namespace: str, found: Found) -> None:
    """Refuse to take the rights of the same component in another namespace."""
    owners = {binding.key: binding.owners for binding in found.bindings}
    for item in objects:
        if not item["kind"].endswith("RoleBinding"):
            continue
        key = binding_of(item).key
        if others := sorted(owners.get(key, frozenset()) - {namespace}):
            raise UsageError(
                f"{key.name} is installed in the namespace {others[0]}; a second one would take "
                "its rights, and it would stop",
                hint=f"Change it with `muster install --namespace {others[0]}`, or remove it first "
                f"with `muster uninstall --namespace {others[0]}`.",
            )


def _beside_own_operators(values: Values, namespace: str, found: Found) -> list[str]:
    """Refuse an operator for all namespaces beside one for a namespace of these, and the reverse.

    A note instead, where the user may not look for others.
    """
    if not values.operator.enabled:
        return []
    ours = OwnOperator(namespace, values.operator.watch_namespace)
    for other in found.own_operators:
        if not ours.shares_jobs_with(other):
            continue
        remove = f"remove it first with `muster uninstall --namespace {other.namespace}`"
        raise UsageError(
            f"there is {other}; both operators would act on the same jobs",
            hint=f"It serves {ours.served} already. To replace it, {remove}."
            if ours.served
            else f"Leave the operator out with --scheduler-only, or {remove}.",
        )
    if DEPLOYMENTS.resource not in found.unread:
        return []
    return [
        "you may not list the deployments of all namespaces, so it is not known whether another "
        f"operator serves {ours.served or 'them'} already; two would act on the same jobs."
    ]


def _beside_operators(request: Request, found: Found) -> tuple[Values, list[str]]:
    """The values without the operator, where another one runs."""
    values = request.values
    if not (values.operator.enabled and found.operators):
        return values, []
    running = ", ".join(map(str, found.operators))
    if request.operator:
        raise UsageError(
            f"another job operator runs: {running}; two operators would act on the same jobs",
            hint="Scale it to zero first, for example with `kubectl scale --replicas=0`.",
        )
    if values.components == ("operator",):
        raise UsageError(
            f"another job operator runs: {running}; there is nothing else to install",
            hint="Scale it to zero first, and then use --operator.",
        )
    without = replace(values, operator=replace(values.operator, enabled=False))
    return without, [
        f"another job operator runs: {running}. Muster's is not installed; "
        "scale the other one to zero and use --operator to replace it."
    ]


def _refuse_schedulers(values: Values, found: Found, now: datetime) -> None:
    from muster.contract.other_schedulers import ELECTED, find_others

    if not values.scheduler.enabled:
        return
    alive = find_others(
        values.scheduler.names, found.leases, now, gone=lambda holder: holder == ELECTED
    )
    deployed = [
        f"the scheduler of {other.name} runs: {other.seen}"
        for other in found.schedulers
        if other.name in values.scheduler.names
    ]
    if alive or deployed:
        raise UsageError(
            "; ".join([*map(str, alive), *deployed]),
            hint="Stop it first, or install with other names: --scheduler-name.",
        )


def _crds(request: Request, found: Found) -> tuple[list[Raw], list[Raw], list[str]]:
    """Our CRDs to apply, CRDs of others with our versions added, and notes about the rest."""
    own, extended, notes = [], [], []
    for crd in load_all():
        theirs = found.crds.get(crd["metadata"]["name"])
        if theirs is None and CRDS_UNREAD in found.unread:
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
