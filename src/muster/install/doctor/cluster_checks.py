"""Checks of the cluster itself: API server, clocks, CRDs, nodes. Pure."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from kubekit.objects.kinds import CRDS, NODES
from kubekit.objects.meta import find_condition
from kubekit.objects.quantity import parse_whole
from muster.contract.crds import PART_OF, load_all
from muster.contract.job_resources import JOB_KINDS
from muster.install.doctor.finding import Finding, error, ok, warning
from muster.install.doctor.repair import INSTALL, put_back_crds
from muster.install.plan import missing_versions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.objects.core import Node, Pod
    from kubekit.objects.meta import Raw
    from muster.install.doctor.facts import Facts

OLDEST = (1, 28)
MAX_SKEW = 5.0
"""Seconds; leases last 15, and are given up well before."""
GPU_LABEL = "nvidia.com/gpu.present"
GPUS = "nvidia.com/gpu"


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
        found.append(error("CRDs", f"missing: {', '.join(missing)}", put_back_crds(facts)))
    for crd in load_all():
        name = crd["metadata"]["name"]
        if name in facts.crds:
            found += _crd(crd, facts.crds[name], needed.get(name, ""), put_back_crds(facts))
    yield from found or [ok("CRDs", f"{len(facts.crds.keys() & needed)} kinds of jobs")]


def _crd(ours: Raw, crd: Raw, needed: str, fix: str) -> Iterator[Finding]:
    name = crd["metadata"]["name"]
    served = [row["name"] for row in crd["spec"]["versions"] if row.get("served")]
    own = (crd["metadata"].get("labels") or {}).get(PART_OF) == "muster"
    for row in (crd.get("status") or {}).get("conditions") or []:
        if row["type"] in ("Established", "NamesAccepted") and row["status"] == "False":
            text = f"{name} is not served: {row.get('message') or row.get('reason')}"
            yield error("CRDs", text, f"kubectl describe crd {name}")
    if needed and needed not in served:
        text = f"{name} does not serve {needed}, which the operator reads"
        yield error("CRDs", text, fix if own else f"{INSTALL} --take-crds")
    elif own and (missing := missing_versions(ours, crd)):
        versions = ", ".join(version["name"] for version in missing)
        yield error("CRDs", f"{name} lacks {versions} of this release", fix)


def nodes(facts: Facts) -> Iterator[Finding]:
    """Whether nodes are ready, and offer the devices that pods request."""
    if facts.is_unread(NODES):
        return
    found: list[Finding] = []
    ready = [node for node in facts.nodes if _is_ready(node)]
    if not ready:
        found.append(error("nodes", "no node is ready", "kubectl get nodes"))
    for node in facts.nodes:
        found += _node(node, ready=node in ready)
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
