"""What is wrong with Muster on a cluster: the checks, in the order in which a person would look.

`examine` reads the cluster; the checks judge what was read and are pure. Each finding has the
smallest fix: a command, or a rule for a role. A fix leaves everything else as it is.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Literal

import msgspec

from kubekit.objects import enforced_limits
from kubekit.objects.kinds import CONFIG_MAPS, CRDS, DEPLOYMENTS, LEASES, NODES, PODS
from kubekit.objects.meta import Key, find_condition
from kubekit.objects.quantity import parse_whole
from kubekit.rights import MissingRight, Rule, account_name, compact, expand
from muster.contract import operator_rights, scheduler_rights, waiting_line_format
from muster.contract.crds import PART_OF, load_all
from muster.contract.gang_dialects import DIALECT_BY_NAME, GROUP_KINDS, gang_named_by
from muster.contract.job_kinds import JOB_KINDS
from muster.contract.other_schedulers import DEFAULT_SCHEDULER, find_others, is_alive
from muster.contract.scheduler_rights import name_lease
from muster.contract.unserved_fields import OF_POLICY
from muster.contract.waiting_line_format import NAMESPACE as LEASE_NAMESPACE
from muster.install.doctor.facts import LINE, read
from muster.install.doctor.fixes import (
    INSTALL,
    add_operator,
    answer_to,
    apply_crds,
    install_again,
    put_back_crds,
    take_crds,
)
from muster.install.doctor.rights import (
    broken_roles,
    broken_user_roles,
    lease_namespace,
    missing_of_component,
    missing_of_user,
    reported_by_components,
)
from muster.install.installation import pod_problem, readiness
from muster.install.other_systems import deployed_schedulers, other_operators
from muster.install.own_installations import own_operators, sharing_jobs
from muster.install.plan import missing_versions
from muster.jobs.quota_line import Standing, is_hopeless
from muster.jobs.view.units import count, named_or_counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.core import Node, Pod
    from kubekit.objects.meta import Raw
    from muster.contract.gang import GangKey
    from muster.install.doctor.facts import Component, Facts

Level = Literal["ok", "warning", "error"]
OLDEST = (1, 28)
"""The oldest Kubernetes that is tested."""
MAX_SKEW = 5.0
"""Seconds; leases last 15, and are given up well before."""
GPU_LABEL = "nvidia.com/gpu.present"
GPUS = "nvidia.com/gpu"
LEASE_NAMES = {"operator": operator_rights.LEASE, "scheduler": scheduler_rights.LEASE}


class Finding(msgspec.Struct, frozen=True):
    """What a check found, and the smallest fix: a command, or a rule for a role."""

    check: str
    level: Level
    text: str
    fix: str = ""


def ok(check: str, text: str) -> Finding:
    return Finding(check, "ok", text)


def warning(check: str, text: str, fix: str = "") -> Finding:
    return Finding(check, "warning", text, fix)


def error(check: str, text: str, fix: str) -> Finding:
    """Something that keeps jobs from running; it always has a fix."""
    return Finding(check, "error", text, fix)


def examine(
    client: BlockingClient, namespace: str, *, local: bool, local_problems: Sequence[str] = ()
) -> list[Finding]:
    """The findings of every check on this cluster; a local one names its machine's problems."""
    found = read(client, local=local)
    found = msgspec.structs.replace(found, local_problems=list(local_problems))
    missing = {"you": missing_of_user(client, namespace)}
    reported = reported_by_components(client, namespace, found.components)
    unknown, broken = [], {}
    for component in found.components:
        name, rules = found.name_of(component), missing_of_component(client, component)
        if rules is None:
            unknown.append(
                warning("rights", f"you may not ask for the rights of {name}: not checked")
            )
        else:
            missing[name] = rules
            if rules:
                broken[name] = broken_roles(client, component)
    if any(row.name == "operator" and not row.served_namespace for row in found.components):
        broken["users"] = broken_user_roles(client)
    known = msgspec.structs.replace(found, missing=missing, broken_roles=broken, reported=reported)
    return [*judge(known), *unknown]


def judge(found: Facts) -> list[Finding]:
    """The findings about these facts."""
    checks = (
        api_server,
        clocks,
        crds,
        components,
        rights,
        this_machine,
        nodes,
        scheduler_names,
        dialects,
        pending_gangs,
        quotas,
    )
    return [finding for check in checks for finding in check(found)]


def api_server(facts: Facts) -> Iterator[Finding]:
    """Whether the API server is ready and recent enough."""
    for name, why in facts.failed_checks.items():
        yield error(
            "api server", f"its check {name} fails: {why}", "kubectl get --raw /readyz?verbose"
        )
    match = re.match(r"v(\d+)\.(\d+)", facts.version)
    if match and (int(match[1]), int(match[2])) < OLDEST:
        least = ".".join(map(str, OLDEST))
        yield warning("api server", f"Kubernetes {facts.version} is older than {least}; not tested")
    if not facts.failed_checks:
        yield ok("api server", f"ready, {facts.version}")


def clocks(facts: Facts) -> Iterator[Finding]:
    """Whether the clocks of this machine, of nodes and of components agree with the server's."""
    before = ok("clocks", "agree")
    found = []
    if abs(facts.skew) > MAX_SKEW:
        way = "ahead of" if facts.skew > 0 else "behind"
        text = f"the clock here is {abs(facts.skew):.0f} s {way} the API server's"
        found.append(error("clocks", text, "timedatectl set-ntp true"))
    for lease in facts.leases:
        renewed = lease.spec.renew_time
        ahead = (renewed - facts.server_now).total_seconds() if renewed else 0.0
        if ahead > MAX_SKEW:
            is_node = lease.metadata.namespace == "kube-node-lease"
            who = f"node {lease.metadata.name}" if is_node else f"holder of {lease.metadata.key}"
            text = f"the clock of the {who} is {ahead:.0f} s ahead of the API server's"
            found.append(error("clocks", text, "timedatectl set-ntp true   # on that machine"))
    yield from found or [before]


def crds(facts: Facts) -> Iterator[Finding]:
    """Whether the CRDs are there, are served, and have the versions of this release."""
    if facts.is_unread(CRDS):
        return
    found: list[Finding] = []
    needed = {kind.resource: kind.version for kind in JOB_KINDS}
    missing = [name for name in needed if name not in facts.crds]
    if missing:
        fix = put_back_crds(facts, *missing)
        found.append(error("CRDs", f"missing: {', '.join(missing)}", fix))
    for crd in load_all():
        name = crd["metadata"]["name"]
        if name in facts.crds:
            found += _crd(crd, facts.crds[name], needed.get(name, ""), facts)
    yield from found or [ok("CRDs", f"{len(facts.crds.keys() & needed)} kinds of jobs")]


def _crd(ours: Raw, crd: Raw, needed: str, facts: Facts) -> Iterator[Finding]:
    name = crd["metadata"]["name"]
    fix = put_back_crds(facts, name)
    served = [row["name"] for row in crd["spec"]["versions"] if row.get("served")]
    own = (crd["metadata"].get("labels") or {}).get(PART_OF) == "muster"
    for row in (crd.get("status") or {}).get("conditions") or []:
        if row["type"] in ("Established", "NamesAccepted") and row["status"] == "False":
            text = f"{name} is not served: {row.get('message') or row.get('reason')}"
            yield error("CRDs", text, f"kubectl describe crd {name}")
    if needed and needed not in served:
        text = f"{name} does not serve {needed}, which the operator reads"
        yield error("CRDs", text, fix if own else take_crds(facts, name))
    elif own and (missing := missing_versions(ours, crd)):
        versions = ", ".join(version["name"] for version in missing)
        yield error("CRDs", f"{name} lacks {versions} of this release", fix)


def this_machine(facts: Facts) -> Iterator[Finding]:
    """What the machine of a local cluster does not give its pods; `arena status` shows it too."""
    if not facts.local:
        return
    found = [warning("this machine", text) for text in facts.local_problems]
    published = enforced_limits.enforcement(node.metadata.annotations for node in facts.nodes)
    if reasons := enforced_limits.unenforced(published, published):
        found.append(warning("this machine", enforced_limits.in_words(reasons)))
    yield from found or [ok("this machine", "gives pods all that the local cluster can use")]


def nodes(facts: Facts) -> Iterator[Finding]:
    """Whether nodes are ready, and offer the devices that pods request."""
    if facts.is_unread(NODES):
        return
    found: list[Finding] = []
    ready = [node for node in facts.nodes if _is_ready(node)]
    if not ready:
        found.append(error("nodes", "no node is ready", "kubectl get nodes"))
    rows = [
        (node.metadata.name, row)
        for node in facts.nodes
        for row in _node(node, ready=node in ready)
    ]
    found += _said_once(rows, "node")
    offered = {name for node in ready for name, n in node.status.allocatable.items() if _some(n)}
    for resource, pods in sorted(_requested(facts.pending).items()):
        if resource not in offered:
            text = f"no node offers {resource}, which {pods} pending pods request"
            fix = f"install the device plugin for {resource.partition('/')[0]}, or correct the name"
            found.append(error("nodes", text, fix))
    gpus = sum(parse_whole(node.status.allocatable.get(GPUS, 0)) for node in ready)
    yield from found or [ok("nodes", f"{len(ready)} ready, {gpus} {GPUS}")]


def _node(node: Node, *, ready: bool) -> Iterator[Finding]:
    name = node.metadata.name
    if not ready:
        yield warning("nodes", f"{name} is not ready", f"kubectl describe node {name}")
    elif node.metadata.labels.get(GPU_LABEL) == "true" and not _some(
        node.status.allocatable.get(GPUS, 0)
    ):
        text = f"{name} is labelled {GPU_LABEL}, but offers no {GPUS}"
        fix = f"kubectl get pods -A --field-selector spec.nodeName={name}   # the device plugin"
        yield error("nodes", text, fix)
    if ready and node.spec.unschedulable:
        yield warning("nodes", f"{name} is cordoned", f"kubectl uncordon {name}")


def _said_once(rows: list[tuple[str, Finding]], noun: str) -> Iterator[Finding]:
    """The findings about these objects: the same about several is one, about the first of them."""
    alike: dict[tuple[str, str], list[tuple[str, Finding]]] = {}
    for name, row in rows:
        alike.setdefault((row.level, row.text.replace(name, "…")), []).append((name, row))
    for (_, first), *others in alike.values():
        more = named_or_counted([name for name, _ in others], f"more {noun}")
        text = f"{first.text}; the same for {more}" if others else first.text
        yield msgspec.structs.replace(first, text=text)


def _is_ready(node: Node) -> bool:
    condition = find_condition(node.status.conditions, "Ready")
    return condition is not None and condition.status == "True"


def _some(amount: object) -> bool:
    return str(amount) not in ("0", "")


def _requested(pods: list[Pod]) -> Counter[str]:
    """The pending pods that request each device (a resource with a domain)."""
    counts: Counter[str] = Counter()
    for pod in pods:
        names = {
            name
            for container in pod.spec.containers
            for name in (*container.resources.requests, *container.resources.limits)
            if "/" in name
        }
        counts.update(names)
    return counts


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
        replicas = 2 if component.name in LEASE_NAMES else 1
        fix = f"kubectl -n {key.namespace} scale deployment {key.name} --replicas={replicas}"
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
    key = Key(lease_namespace(component), LEASE_NAMES[component.name])
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
    fix = add_operator(facts) if name == "operator" else answer_to([], facts)
    return error("components", f"nobody {role}: muster-{name} is not installed", fix)


def _images(facts: Facts) -> Iterator[Finding]:
    images = {row.image for row in facts.components}
    if len(images) > 1:
        text = f"the components run different images: {', '.join(sorted(images))}"
        places = {row.key.namespace: row for row in facts.components}.values()
        fixes = [install_again(row, "--image IMAGE", {"image": "IMAGE"}) for row in places]
        yield warning("components", text, " && ".join(fixes))


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
        component = owners.get(who) or next(iter(operators), None)
        for row in broken:
            text = f"{who} lacks rights: {row.problem}" if who in owners else row.problem
            yield error("rights", text, install_again(component) if component else INSTALL)


def _without_cause(facts: Facts) -> Iterator[tuple[str, Rule]]:
    """The missing rules that no broken role or binding explains."""
    for who, rules in facts.missing.items():
        known = frozenset().union(*(row.rights for row in facts.broken_roles.get(who, ())))
        rest = [right for right in expand(rules) if right not in known]
        yield from ((who, rule) for rule in compact(rest))


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
            fix = answer_to([name], facts)
            text = f"no scheduler answers to {name}; {why}"
            found.append(error("scheduler names", text, fix))
    found += _beside_line(facts)
    names = {*used, *_names_of_muster(facts)}
    for name in sorted(names):
        found += _twice(name, facts)
    served = ", ".join(sorted(facts.live_names))
    yield from found or [ok("scheduler names", f"Muster answers to {served or 'none'}")]


def _beside_line(facts: Facts) -> Iterator[Finding]:
    """An operator that was installed before the scheduler: single pods pass by the line."""
    for component in facts.components:
        name = next(iter(component.argument("--gang-scheduler-name")), "")
        if component.argument("--pod-scheduler-name") or name not in facts.live_names:
            continue
        text = (
            f"{facts.name_of(component)} leaves pods outside of gangs to the cluster's own "
            f"scheduler, though Muster's answers to {name}: they pass the gangs in line"
        )
        yield warning("scheduler names", text, install_again(component))


def _scheduler(pod: Pod) -> str:
    return pod.spec.scheduler_name or DEFAULT_SCHEDULER


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


def _twice(name: str, facts: Facts) -> Iterator[Finding]:
    others = find_others([name], facts.leases, facts.server_now)
    found = sorted({f"lease {other.lease}" for other in others})
    if found == [f"lease {LEASE_NAMESPACE}/{name_lease(name)}"]:
        # A scheduler with its own lease is counted by that.
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
                fix = put_back_crds(facts, kind.resource)
                found.append(error("gang dialects", text, fix))
    gangs: dict[GangKey, list[Pod]] = {}
    for pod in facts.pending:
        key = gang_named_by(pod)
        if key is not None:
            gangs.setdefault(key, []).append(pod)
    rows = [
        (str(key), row) for key, pods in sorted(gangs.items()) for row in _gang(key, pods, facts)
    ]
    found += _said_once(rows, "gang")
    found += _unserved(facts)
    yield from found or [
        ok("gang dialects", f"served: {', '.join(sorted(facts.groups)) or 'none'}")
    ]


def _gang(key: GangKey, pods: list[Pod], facts: Facts) -> Iterator[Finding]:
    gang = f"{key.namespace}/{key.name}"
    resources = [kind.resource for kind in DIALECT_BY_NAME[key.dialect].kinds]
    served = [resource for resource in resources if resource in facts.groups]
    if resources and not served:
        text = f"the gang {gang} needs {resources[0]}, which is not served"
        # An installation brings the groups of its operator's dialect only.
        yield error("gang dialects", text, apply_crds(resources[0]))
    elif resources and all(gang not in facts.groups[resource] for resource in served):
        text = f"{len(pods)} pods name the group {gang}, which does not exist"
        yield error("gang dialects", text, f"create the PodGroup {gang}, or delete the pods")
    name = _scheduler(pods[0])
    if name == DEFAULT_SCHEDULER and key.dialect != "native" and name not in facts.live_names:
        text = f"the gang {gang} is for {name}, which does not read {key.dialect}: no gang is made"
        yield error("gang dialects", text, "set schedulerName: muster in the pods")


def _unserved(facts: Facts) -> Iterator[Finding]:
    """One finding about the fields that gangs name and that have no effect."""
    fields: dict[str, set[str]] = {}
    gangs: dict[str, dict[str, None]] = {}
    for gang, found in facts.unserved.items():
        for row in found:
            fields.setdefault(row.instead, set()).add(row.field.removeprefix(OF_POLICY))
            gangs.setdefault(row.instead, {})[gang] = None
    if not gangs:
        return
    order = sorted(gangs, key=lambda instead: sorted(fields[instead]))
    sentences = "; ".join(
        f"{', '.join(sorted(fields[instead]))} of {named_or_counted([*gangs[instead]], 'gang')}: "
        f"{instead}"
        for instead in order
    )
    n = count(len(facts.unserved), "gang")
    namespace, _, name = next(iter(gangs[order[0]])).rpartition("/")
    verb = "names" if len(facts.unserved) == 1 else "name"
    text = f"{n} {verb} fields that have no effect. {sentences}"
    yield warning("gang dialects", text, f"arena explain {name} -n {namespace}")


def pending_gangs(facts: Facts) -> Iterator[Finding]:
    """The gangs that wait: for each reason the first in line, and how many there are."""
    rows = waiting_line_format.read(facts.line)
    counts = Counter(row.code for row in rows)
    for row in {row.code: row for row in reversed(rows)}.values():
        namespace, _, name = row.gang.rpartition("/")
        text, others = f"{row.gang} since {row.since}: {row}", counts[row.code] - 1
        if others:
            words = count(others, "more gang")
            text = f"{text}; {words} wait{'s' * (others == 1)} for the same reason ({row.code})"
        yield warning("pending gangs", text, f"arena explain {name} -n {namespace}")
    if not rows and not facts.is_unread(CONFIG_MAPS, LINE):
        yield ok("pending gangs", "none")


def quotas(facts: Facts) -> Iterator[Finding]:
    """The jobs that wait for a ResourceQuota: all that can never start, the first of each line."""
    lines: dict[tuple[str, str], list[tuple[Standing, str]]] = {}
    for row, why in facts.in_quotas:
        if is_hopeless(row.wait):
            yield _in_quota(row, why)
        else:
            lines.setdefault((row.key.namespace, row.wait.name), []).append((row, why))
    for (_, name), ((first, why), *others) in sorted(lines.items()):
        words = f"; {count(len(others), 'more job')} in the line of {name}" if others else ""
        yield _in_quota(first, f"{why}{words}")
    if not facts.in_quotas and not any(map(facts.is_unread, JOB_KINDS)):
        yield ok("quotas", "no job waits for one")


def _in_quota(row: Standing, why: str) -> Finding:
    text = f"{row.key} since {row.wait.since}: {why}"
    return warning("quotas", text, f"arena explain {row.key.name} -n {row.key.namespace}")
