"""The command that puts back what an installation made. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.contract import operator_rights
from muster.contract.other_schedulers import is_alive
from muster.contract.scheduler_rights import NAMES
from muster.install.objects.values import NAMESPACE
from muster.install.plan import HELM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.install.doctor.facts import Component, Facts

INSTALL = "muster install --image IMAGE"
APPLY_CRDS = "muster crds | muster apply --force-conflicts -f -"


def install_again(facts: Facts, component: Component) -> str:
    """The installation of this component, as far as its objects tell with which flags."""
    namespace = component.key.namespace
    if release := _helm_release(component):
        return f"helm upgrade {release} deploy/chart --namespace {namespace} --reuse-values"
    here = {row.name: row for row in facts.components if row.key.namespace == namespace}
    command = " ".join([f"muster install --image {component.image}", *_flags(namespace, here)])
    return f"{command}   # and with your --values, if you have a file"


def put_back_crds(facts: Facts) -> str:
    """The command that brings the CRDs up to date."""
    operators = [row for row in facts.components if row.name == "operator"]
    if operators and not _helm_release(operators[0]):
        return install_again(facts, operators[0])
    leases = (row for row in facts.leases if row.metadata.name == operator_rights.LEASE)
    # Helm does not update CRDs, and an operator outside of the cluster was not installed.
    outside = any(is_alive(row, facts.server_now) for row in leases)
    return APPLY_CRDS if operators or outside or facts.local else INSTALL


def _flags(namespace: str, here: dict[str, Component]) -> Iterator[str]:
    if namespace != NAMESPACE:
        yield f"--namespace {namespace}"
    for name in ("operator", "scheduler"):
        if here.keys() == {name}:
            yield f"--{name}-only"
    if len(here) > 1 and "dashboard" not in here:
        yield "--no-dashboard"
    if (operator := here.get("operator")) and operator.served_namespace:
        yield f"--watch-namespace {operator.served_namespace}"
    names = here["scheduler"].argument("--scheduler-name") if "scheduler" in here else NAMES
    if tuple(names) != NAMES:
        yield from (f"--scheduler-name {name}" for name in names)


def _helm_release(component: Component) -> str:
    """The release by which Helm installed a component; empty if it did not."""
    meta = component.deployment["metadata"]
    labels = meta.get("labels") or {}
    if labels.get("app.kubernetes.io/managed-by") != HELM:
        return ""
    return str((meta.get("annotations") or {}).get("meta.helm.sh/release-name", "RELEASE"))
