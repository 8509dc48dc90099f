"""Checks of the components: installed, ready, led, alone, with their rights. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.objects.kinds import DEPLOYMENTS, LEASES
from kubekit.objects.meta import Key
from kubekit.rights import MissingRight, Rule, account_name, compact, expand
from muster.contract import operator_rights, scheduler_rights
from muster.contract.other_schedulers import is_alive
from muster.contract.waiting_line_format import NAMESPACE as LEASE_NAMESPACE
from muster.install.doctor.finding import Finding, error, ok, warning
from muster.install.doctor.repair import INSTALL, install_again
from muster.install.installation import pod_problem, readiness
from muster.install.other_systems import other_operators
from muster.install.own_operators import own_operators, sharing_jobs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.install.doctor.facts import Component, Facts

LEASE_NAMES = {"operator": operator_rights.LEASE, "scheduler": scheduler_rights.LEASE}


def components(facts: Facts) -> Iterator[Finding]:
    """Whether each component runs, and one of its replicas leads."""
    if facts.local:
        yield ok("components", "the local cluster runs its own operator and scheduler")
        return
    if facts.is_unread(DEPLOYMENTS):
        return
    others = other_operators(facts.deployments, facts.leases, facts.server_now)
    for component in facts.components:
        yield from _component(component, facts)
    for name in LEASE_NAMES:
        if not any(row.name == name for row in facts.components):
            yield _absent(name, facts, [str(other) for other in others])
    if others and any(row.name == "operator" for row in facts.components):
        first = next(row for row in facts.components if row.name == "operator")
        text = f"two operators act on the same jobs: {first.key.name} and {others[0]}"
        fix = f"kubectl -n {first.key.namespace} scale deployment {first.key.name} --replicas=0"
        yield error("components", text, fix + "   # or stop the other one")
    for one, two in sharing_jobs(own_operators(facts.deployments)):
        text = f"two operators act on the same jobs: {one}, and {two}"
        yield error("components", text, f"muster uninstall --namespace {two.namespace}")
    yield from _images(facts)


def _component(component: Component, facts: Facts) -> Iterator[Finding]:
    key, name = component.key, facts.name_of(component)
    ready, wanted = readiness(component.deployment)
    if wanted == 0:
        count = 2 if component.name in LEASE_NAMES else 1
        fix = f"kubectl -n {key.namespace} scale deployment {key.name} --replicas={count}"
        yield error("components", f"{name} is scaled to zero", fix)
    elif ready < wanted:
        why = pod_problem(component.pods) or _replica_failure(component)
        # Without the right to list its objects, a component starts and never becomes ready.
        lacks = facts.missing.get(name)
        why = why or ("it lacks rights, see below" if lacks else "no reason is known")
        fix = f"kubectl -n {key.namespace} describe pods -l app.kubernetes.io/name={key.name}"
        text = f"{name}: {ready} of {wanted} ready: {why}"
        yield (error if ready == 0 else warning)("components", text, fix)
    elif not _is_led(component, facts):
        fix = f"kubectl -n {key.namespace} logs deployment/{key.name}"
        why = ": it lacks rights, see below" if facts.missing.get(name) else ""
        yield error("components", f"{name}: no replica holds the lease {key.name}{why}", fix)
    else:
        yield ok("components", f"{name}: {ready} of {wanted} ready")


def _replica_failure(component: Component) -> str:
    """Why the cluster refuses the pods of a Deployment: a quota, a missing account."""
    rows = (component.deployment.get("status") or {}).get("conditions") or []
    failures = (row for row in rows if row["type"] == "ReplicaFailure" and row["status"] == "True")
    return next((str(row.get("message", "")) for row in failures), "")


def _is_led(component: Component, facts: Facts) -> bool:
    if component.name not in LEASE_NAMES or facts.is_unread(LEASES):
        return True
    places = component.argument("--leader-elect-resource-namespace") or [LEASE_NAMESPACE]
    key = Key(places[-1], LEASE_NAMES[component.name])
    return any(
        lease.metadata.key == key and is_alive(lease, facts.server_now) for lease in facts.leases
    )


def _absent(name: str, facts: Facts, others: list[str]) -> Finding:
    lease = LEASE_NAMES[name]
    if any(row.metadata.name == lease and is_alive(row, facts.server_now) for row in facts.leases):
        return ok("components", f"muster-{name} runs outside the cluster")
    if name == "operator" and others:
        return ok("components", f"jobs have another operator: {', '.join(others)}")
    role = "acts on jobs" if name == "operator" else "places gangs"
    return error("components", f"nobody {role}: muster-{name} is not installed", INSTALL)


def _images(facts: Facts) -> Iterator[Finding]:
    images = {row.image for row in facts.components}
    if len(images) > 1:
        text = f"the components run different images: {', '.join(sorted(images))}"
        yield warning("components", text, INSTALL)


def rights(facts: Facts) -> Iterator[Finding]:
    """Whether the components and the user have the rights that they need."""
    found = list(_broken_roles(facts))
    missing = [MissingRight(who, rule) for who, rule in _without_cause(facts)]
    found += [error("rights", row.problem, row.fix) for row in missing]
    asked = {account_name(c.account) for c in facts.components if facts.name_of(c) in facts.missing}
    for row, where in facts.reported.items():
        if row.who not in asked:  # else its rights are known, and the event may be older
            found.append(warning("rights", f"{row.problem}, by an event on {where}", row.fix))
    found += [warning("rights", f"you may not list {name}: not checked") for name in facts.unread]
    complete = ", ".join(facts.missing)
    yield from found or [ok("rights", f"complete: {complete}")]


def _broken_roles(facts: Facts) -> Iterator[Finding]:
    """One finding for a role or binding that is gone, instead of one for each of its rights."""
    operators = [row for row in facts.components if row.name == "operator"]
    owners = {facts.name_of(row): row for row in facts.components}
    for who, broken in facts.broken_roles.items():
        component = owners.get(who) or next(iter(operators))
        for row in broken:
            text = f"{who} lacks rights: {row.problem}" if who in owners else row.problem
            yield error("rights", text, install_again(facts, component))


def _without_cause(facts: Facts) -> Iterator[tuple[str, Rule]]:
    """The missing rules that no broken role or binding explains."""
    for who, rules in facts.missing.items():
        known = frozenset().union(*(row.rights for row in facts.broken_roles.get(who, ())))
        rest = [right for right in expand(rules) if right not in known]
        yield from ((who, rule) for rule in compact(rest))
