"""Checks of gangs: who answers to scheduler names, who reads dialects, who waits and why. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kubekit.objects.kinds import CONFIG_MAPS, LEASES, PODS
from kubekit.objects.meta import find_condition
from muster.contract import waiting_line_format
from muster.contract.gang_dialects import DIALECT_BY_NAME, GROUP_KINDS, gang_named_by
from muster.contract.other_schedulers import find_others, is_alive
from muster.contract.scheduler_rights import LEASE, name_lease
from muster.contract.waiting_line_format import NAMESPACE as LEASE_NAMESPACE
from muster.install.doctor.facts import LINE
from muster.install.doctor.finding import Finding, error, ok, warning
from muster.install.doctor.repair import put_back_crds
from muster.install.other_systems import deployed_schedulers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.objects.core import Pod
    from muster.contract.gang import GangKey
    from muster.install.doctor.facts import Facts

DEFAULT = "default-scheduler"


def scheduler_names(facts: Facts) -> Iterator[Finding]:
    """Whether every scheduler name in use is answered by one scheduler."""
    if facts.is_unread(LEASES):
        return
    found: list[Finding] = []
    waiting = Counter(_scheduler(pod) for pod in facts.pending if not _was_looked_at(pod))
    chosen = {
        name: "the operator gives it to gangs"
        for component in facts.components
        for name in component.argument("--gang-scheduler-name")
    }
    used = {**chosen, **{name: f"{n} pods wait for it" for name, n in waiting.items()}}
    for name, why in sorted(used.items()):
        # A scheduler of ours that is installed and does not lead is the components' error.
        if name not in _names_of_muster(facts) and not _answers(name, facts):
            fix = f"muster install --image IMAGE --scheduler-name {name}"
            text = f"no scheduler answers to {name}; {why}"
            found.append(error("scheduler names", text, fix))
    names = {*used, *_names_of_muster(facts)}
    for name in sorted(names):
        found += _twice(name, facts)
    served = ", ".join(sorted(_live_names(facts)))
    yield from found or [ok("scheduler names", f"Muster answers to {served or 'none'}")]


def _scheduler(pod: Pod) -> str:
    return pod.spec.scheduler_name or DEFAULT


def _was_looked_at(pod: Pod) -> bool:
    """Whether a scheduler has said why the pod waits; a gated pod is for nobody yet."""
    return find_condition(pod.status.conditions, "PodScheduled") is not None


def _answers(name: str, facts: Facts) -> bool:
    return bool(find_others([name], facts.leases, facts.server_now) or _deployed(name, facts))


def _deployed(name: str, facts: Facts) -> list[str]:
    """The Deployments of other projects' schedulers that answer to a name."""
    return [other.seen for other in deployed_schedulers(facts.deployments) if other.name == name]


def _names_of_muster(facts: Facts) -> set[str]:
    """The names that installed schedulers of Muster answer to."""
    return {
        name
        for component in facts.components
        if component.name == "scheduler"
        for name in component.argument("--scheduler-name")
    }


def _live_names(facts: Facts) -> set[str]:
    """The names in the live leases of Muster's schedulers, wherever they run."""
    alive = (lease for lease in facts.leases if is_alive(lease, facts.server_now))
    parts = (lease.metadata.name.partition(".") for lease in alive)
    return {name for prefix, _, name in parts if prefix == LEASE and name}


def _twice(name: str, facts: Facts) -> Iterator[Finding]:
    others = find_others([name], facts.leases, facts.server_now)
    found = sorted({f"lease {other.lease}" for other in others})
    if found == [f"lease {LEASE_NAMESPACE}/{name_lease(name)}"]:
        # A scheduler with a lease of its own is counted by that.
        found += _deployed(name, facts)
    if len(found) > 1:
        text = f"{len(found)} schedulers answer to {name}: {', '.join(found)}"
        yield error("scheduler names", text, f"stop one, or give it a name other than {name}")


def dialects(facts: Facts) -> Iterator[Finding]:
    """Whether somebody reads the gangs that pods name, in the dialect in which they do."""
    if facts.is_unread(PODS):
        return
    found: list[Finding] = []
    for component in facts.components:
        for dialect in component.argument("--gang-dialect"):
            kind = GROUP_KINDS.get(dialect)
            if (
                kind is not None
                and kind.plural == "podgroups"
                and kind.resource not in facts.groups
            ):
                text = f"the operator writes gangs as {kind.resource}, which is not served"
                found.append(error("gang dialects", text, put_back_crds(facts)))
    gangs: dict[GangKey, list[Pod]] = {}
    for pod in facts.pending:
        key = gang_named_by(pod)
        if key is not None:
            gangs.setdefault(key, []).append(pod)
    for key, pods in sorted(gangs.items()):
        found += _gang(key, pods, facts)
    yield from found or [
        ok("gang dialects", f"served: {', '.join(sorted(facts.groups)) or 'none'}")
    ]


def _gang(key: GangKey, pods: list[Pod], facts: Facts) -> Iterator[Finding]:
    gang = f"{key.namespace}/{key.name}"
    resources = [kind.resource for kind in DIALECT_BY_NAME[key.dialect].kinds]
    served = [resource for resource in resources if resource in facts.groups]
    if resources and not served:
        text = f"the gang {gang} needs {resources[0]}, which is not served"
        yield error("gang dialects", text, put_back_crds(facts))
    elif resources and all(gang not in facts.groups[resource] for resource in served):
        text = f"{len(pods)} pods name the group {gang}, which does not exist"
        yield error("gang dialects", text, f"create the PodGroup {gang}, or delete the pods")
    name = _scheduler(pods[0])
    if name == DEFAULT and key.dialect != "native" and not _muster_answers(name, facts):
        text = f"the gang {gang} is for {name}, which does not read {key.dialect}: no gang is made"
        yield error("gang dialects", text, "set schedulerName: muster in the pods")


def _muster_answers(name: str, facts: Facts) -> bool:
    lease = name_lease(name)
    return any(
        row.metadata.name == lease and is_alive(row, facts.server_now) for row in facts.leases
    )


def pending_gangs(facts: Facts) -> Iterator[Finding]:
    """The gangs that wait, in line, and why."""
    rows = waiting_line_format.read(facts.line)
    for row in rows:
        namespace, _, name = row.gang.rpartition("/")
        fix = f"arena explain {name} -n {namespace}"
        yield warning("pending gangs", f"{row.gang} since {row.since}: {row}", fix)
    if not rows and not facts.is_unread(CONFIG_MAPS, LINE):
        yield ok("pending gangs", "none")
