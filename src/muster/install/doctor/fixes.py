"""The commands that mend what doctor finds in an installation. Pure.

A command leaves everything else as it is: `muster install` keeps the values that it is not told to
change. Kept apart because they know the flags of `install` and of Helm, which the checks need not.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from muster.contract import operator_rights
from muster.contract.other_schedulers import is_alive
from muster.contract.scheduler_rights import NAMES
from muster.install.objects.values import NAMESPACE
from muster.install.plan import HELM

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from muster.install.doctor.facts import Component, Facts

INSTALL = "muster install --image IMAGE"


def install_again(component: Component, flags: str = "", values: Mapping[str, str] = {}) -> str:
    """The command that makes the objects of an installation again, with the values it has.

    It changes only what the flags name; `values` are the same for Helm.
    """
    namespace = component.key.namespace
    if release := _helm_release(component):
        sets = [f"--set {shlex.quote(f'{key}={value}')}" for key, value in values.items()]
        words = ["helm upgrade", release, f"deploy/chart --namespace {namespace} --reuse-values"]
        return " ".join([*words, *sets])
    place = "" if namespace == NAMESPACE else f"--namespace {namespace}"
    return " ".join(filter(None, ("muster install", place, flags)))


def add_operator(facts: Facts) -> str:
    """The command that installs an operator, beside the components that are there."""
    component = next(iter(facts.components), None)
    if component is None:
        return INSTALL
    return install_again(component, "--operator", {"operator.enabled": "true"})


def answer_to(names: Sequence[str], facts: Facts) -> str:
    """The command by which a scheduler of Muster answers to these names too.

    Every tenant can write a name into a pod: in a command it is quoted.
    """
    here = {row.name: row for row in reversed(facts.components) if not row.served_namespace}
    if facts.local:
        return "create the pods again, with schedulerName: muster"
    given = here["operator"].argument("--gang-scheduler-name") if "operator" in here else ()
    live = [] if "scheduler" in here else sorted(facts.live_names)
    known = _names_of(here["scheduler"]) if "scheduler" in here else (*(live or NAMES), *given)
    all_names = dict.fromkeys((*known, *names))
    flags = " ".join(f"--scheduler-name {shlex.quote(name)}" for name in all_names)
    if live:
        return f"start `muster scheduler`, which runs outside of the cluster, with {flags}"
    component = here.get("scheduler") or here.get("operator") or next(iter(here.values()), None)
    if component is not None:
        sets = {"scheduler.enabled": "true", "scheduler.names": f"{{{','.join(all_names)}}}"}
        return install_again(component, flags, sets)
    alone = "--scheduler-only " if facts.components else ""  # beside the operators of namespaces
    return f"{INSTALL} {alone}{flags if names else ''}".rstrip()


def _names_of(scheduler: Component) -> Sequence[str]:
    return scheduler.argument("--scheduler-name") or NAMES


def apply_crds(*names: str) -> str:
    """The command that applies these CRDs of ours, and leaves all others as they are."""
    return f"muster crds {' '.join(names)} | muster apply --force-conflicts -f -"


def take_crds(facts: Facts, name: str) -> str:
    """The command that adds our versions to a CRD of another system."""
    operator = next((row for row in facts.components if row.name == "operator"), None)
    if operator is not None and _helm_release(operator):
        return f"kubectl edit crd {name}   # add the versions that `muster crds {name}` prints"
    return f"{install_again(operator) if operator else INSTALL} --take-crds"


def put_back_crds(facts: Facts, *names: str) -> str:
    """The command that brings CRDs up to date."""
    operators = [row for row in facts.components if row.name == "operator"]
    if operators and not _helm_release(operators[0]):
        return install_again(operators[0])
    leases = (row for row in facts.leases if row.metadata.name == operator_rights.LEASE)
    # Helm does not update CRDs, and an operator outside of the cluster was not installed.
    outside = any(is_alive(row, facts.server_now) for row in leases)
    return apply_crds(*names) if operators or outside or facts.local else INSTALL


def _helm_release(component: Component) -> str:
    """The release by which Helm installed a component; empty if it did not."""
    meta = component.deployment["metadata"]
    labels = meta.get("labels") or {}
    if labels.get("app.kubernetes.io/managed-by") != HELM:
        return ""
    return str((meta.get("annotations") or {}).get("meta.helm.sh/release-name", "RELEASE"))
