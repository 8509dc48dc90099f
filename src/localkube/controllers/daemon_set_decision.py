"""On which nodes the pods of a daemon set run, its next steps and its status: pure.

The controller chooses the node and the scheduler binds the pod, through a node affinity that names
the node. So the controller reads nodeSelector, affinity and taints as the scheduler does, and
leaves room and ports to the scheduler.

Every node that fits has one pod. Pods that ended, pods too many and pods on nodes that no longer
fit are deleted first. Only when there is nothing to mend does a rolling update go on: without a
surge, old pods are deleted, as many as `maxUnavailable` allows, and `mend` creates their
successors. With a surge, successors are created first, as many as `maxSurge` allows, and an old pod
is deleted when its successor is available. Old pods that are not available are replaced at once:
that makes nothing worse.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from kubekit.objects.annotation_values import read_integer
from kubekit.objects.core import tolerates
from kubekit.objects.events import EventText
from kubekit.objects.quantity import MAX_INT64
from kubekit.objects.selectors import InvalidSelector, Requirement, Selector
from localkube.controllers import workloads
from localkube.controllers.controller_revisions import HASH, by_number
from localkube.controllers.workloads import ControllerRevision, DaemonSet, Node, Pod, PodSpec, share

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from kubekit.objects.affinity import NodeSelectorTerm, SelectorRequirement
    from kubekit.objects.meta import Raw


# -- nodes ----------------------------------------------------------------------------------------

NODE_NAME = "metadata.name"
_NO_EXECUTE, _NO_SCHEDULE = "NoExecute", "NoSchedule"
# Not evicted from a node in trouble: the same node is the only place where the pod may run.
_TOLERATED = (
    ("not-ready", _NO_EXECUTE),
    ("unreachable", _NO_EXECUTE),
    ("disk-pressure", _NO_SCHEDULE),
    ("memory-pressure", _NO_SCHEDULE),
    ("pid-pressure", _NO_SCHEDULE),
    ("unschedulable", _NO_SCHEDULE),
)
_ON_HOST_NETWORK = ("network-unavailable", _NO_SCHEDULE)


class Fit(Enum):
    """What a daemon set does with one node."""

    RUN = "run"
    """The node gets a pod."""
    STAY = "stay"
    """The node gets no pod, but keeps the pod that it has."""
    LEAVE = "leave"
    """The node must have no pod."""


def pod_spec(template: Raw) -> PodSpec:
    """The spec of the pods of a template, with the tolerations that every daemon pod has."""
    spec: Raw = template.get("spec") or {}
    return msgspec.convert({**spec, "tolerations": tolerations(spec)}, PodSpec)


def tolerations(spec: Raw) -> list[Raw]:
    """The tolerations of a daemon pod; the added ones replace those that differ in time only."""
    added = [*_TOLERATED, *([_ON_HOST_NETWORK] if spec.get("hostNetwork") else [])]
    rows: list[Raw] = list(spec.get("tolerations") or ())
    for name, effect in added:
        toleration = {
            "key": f"node.kubernetes.io/{name}",
            "operator": "Exists",
            "effect": effect,
        }
        others = [{**row, "tolerationSeconds": None} for row in rows]
        equal = {**toleration, "tolerationSeconds": None}
        if equal in others:
            rows[others.index(equal)] = toleration
        else:
            rows.append(toleration)
    return rows


def fit_of(spec: PodSpec, node: Node) -> Fit:
    """Whether a node gets, keeps or loses a pod."""
    if spec.node_name not in ("", node.metadata.name) or not _selected(spec, node):
        return Fit.LEAVE
    effects = {
        taint.effect
        for taint in node.spec.taints
        if not any(tolerates(toleration, taint) for toleration in spec.tolerations)
    }
    if _NO_EXECUTE in effects:
        return Fit.LEAVE
    return Fit.STAY if _NO_SCHEDULE in effects else Fit.RUN


def target_node(pod: Pod) -> str:
    """The node of a pod, or the node that it was created for; empty if it names none."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    terms = affinity.required.node_selector_terms if affinity and affinity.required else ()
    for row in (row for term in terms for row in term.match_fields):
        if row.key == NODE_NAME and row.operator == "In":
            return row.values[0] if len(row.values) == 1 else ""
    return ""


def _selected(spec: PodSpec, node: Node) -> bool:
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity else None
    if affinity is None or affinity.required is None:
        return True
    return any(_term_matches(term, node) for term in affinity.required.node_selector_terms)


def _term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    """Whether a node matches every row of a term; an empty term matches none."""
    if not term.match_expressions and not term.match_fields:
        return False
    by_label = _rows_match(term.match_expressions, node.metadata.labels)
    return by_label and _rows_match(term.match_fields, {NODE_NAME: node.metadata.name})


def _rows_match(rows: Iterable[SelectorRequirement], values: dict[str, str]) -> bool:
    try:
        selector = Selector(Requirement(row.key, row.operator, row.values) for row in rows)
    except InvalidSelector:  # as on Kubernetes, a term that cannot be read matches no node
        return False
    return selector.matches(values)


# -- revisions ------------------------------------------------------------------------------------

# The API server counts the templates of a set in the annotation; its pods carry the count.
_GENERATION = "deprecated.daemonset.template.generation"
POD_GENERATION = "pod-template-generation"


def template_generation(daemon_set: DaemonSet) -> str:
    """The number of the set's template; empty if the set has none."""
    text = daemon_set.metadata.annotations.get(_GENERATION, "")
    return "" if read_integer(text, most=MAX_INT64) is None else text


def outdated(
    daemon_set: DaemonSet,
    known: Sequence[ControllerRevision],
    current: ControllerRevision,
    pods: Iterable[Pod],
) -> list[ControllerRevision]:
    """Revisions beyond the history limit that no pod has."""
    used = {pod.metadata.labels.get(HASH) for pod in pods}
    old = [r for r in by_number(known) if r.metadata.name != current.metadata.name]
    surplus = max(0, len(old) - daemon_set.spec.revision_history_limit)
    return [r for r in old if r.metadata.labels.get(HASH) not in used][:surplus]


# -- steps ----------------------------------------------------------------------------------------


@dataclass
class Plan:
    """The writes of one visit."""

    create: list[str] = field(default_factory=list)
    """Names of nodes."""
    delete: list[Pod] = field(default_factory=list)
    events: list[EventText] = field(default_factory=list)
    failed_on: list[str] = field(default_factory=list)
    """Nodes whose failed pods are deleted: the next failure there is deleted later."""

    def __bool__(self) -> bool:
        return bool(self.create or self.delete)


@dataclass(frozen=True)
class Progress:
    """A daemon set, the nodes and its pods at one moment."""

    daemon_set: DaemonSet
    nodes: list[Node]
    owned: list[Pod]
    revision_hash: str
    now: datetime
    in_backoff: frozenset[str] = frozenset()
    """Nodes whose failed pods are left alone for now."""

    @cached_property
    def fits(self) -> dict[str, Fit]:
        """What to do with each node, by its name."""
        spec = pod_spec(self.daemon_set.spec.template)
        ordered = sorted(self.nodes, key=lambda node: node.metadata.name)
        return {node.metadata.name: fit_of(spec, node) for node in ordered}

    @cached_property
    def pods(self) -> dict[str, list[Pod]]:
        """Pods by the node that they are for: bound pods first, then the oldest."""
        pods: dict[str, list[Pod]] = {}
        for pod in sorted(self.owned, key=_age):
            node = target_node(pod)
            # Nothing is left to do about a pod that ended and is being deleted.
            if node and not (pod.finished and pod.terminating):
                pods.setdefault(node, []).append(pod)
        return pods

    @property
    def wanted(self) -> list[str]:
        """The nodes that get a pod."""
        return [name for name, fit in self.fits.items() if fit is Fit.RUN]

    def is_available(self, pod: Pod) -> bool:
        return workloads.available(pod, self.daemon_set.spec.min_ready_seconds, self.now)

    def is_updated(self, pod: Pod) -> bool:
        """Whether a pod has the current template."""
        labels, generation = pod.metadata.labels, template_generation(self.daemon_set)
        same_generation = bool(generation) and labels.get(POD_GENERATION) == generation
        return same_generation or labels.get(HASH) == self.revision_hash


def _age(pod: Pod) -> tuple[bool, float, str]:
    created = pod.metadata.creation_timestamp
    since = created.timestamp() if created else 0.0
    return (not pod.spec.node_name, since, pod.metadata.name)


def allows_surge(daemon_set: DaemonSet) -> bool:
    """Whether a node may have an old and a new pod during an update."""
    strategy = daemon_set.spec.update_strategy
    rolling = strategy.rolling_update if strategy.type == "RollingUpdate" else None
    return rolling is not None and rolling.max_surge not in (0, "0%")


def mend(progress: Progress) -> Plan:
    """One pod on each node that fits, and none on the others."""
    plan = Plan()
    for name, fit in progress.fits.items():
        pods = progress.pods.get(name)
        if fit is Fit.LEAVE:
            plan.delete += [pod for pod in pods or () if not pod.terminating]
        elif pods is None:
            plan.create += [name] if fit is Fit.RUN else []
        else:
            _mend_node(plan, progress, name)
    # Nobody else deletes a pod that waits for a node that is gone.
    for name in progress.pods.keys() - progress.fits.keys():
        plan.delete += [pod for pod in progress.pods[name] if not pod.spec.node_name]
    return plan


def _mend_node(plan: Plan, progress: Progress, node: str) -> None:
    live = [pod for pod in progress.pods[node] if not pod.terminating]
    _delete_ended(plan, progress, node, live)
    running = [pod for pod in live if not pod.finished]
    if not allows_surge(progress.daemon_set):
        plan.delete += running[1:]
        return
    if not running and progress.fits[node] is Fit.RUN:
        plan.create.append(node)
    new = [pod for pod in running if progress.is_updated(pod)]
    old = [pod for pod in running if pod not in new]
    plan.delete += [*new[1:], *old[1:]]
    if new and old and (not workloads.ready(old[0]) or progress.is_available(new[0])):
        plan.delete.append(old[0])


def _delete_ended(plan: Plan, progress: Progress, node: str, pods: Iterable[Pod]) -> None:
    for pod in pods:
        name = pod.metadata.key
        if pod.status.phase == "Succeeded":
            text = f"Found succeeded daemon pod {name} on node {node}, will try to delete it"
            plan.events.append(EventText("SucceededDaemonPod", text))
            plan.delete.append(pod)
        elif pod.status.phase == "Failed" and node not in progress.in_backoff:
            text = f"Found failed daemon pod {name} on node {node}, will try to kill it"
            plan.events.append(EventText("FailedDaemonPod", text, "Warning"))
            plan.delete.append(pod)
            plan.failed_on.append(node)


# -- status --------------------------------------------------------------------------------------


def daemon_set_status(progress: Progress) -> Raw:
    """The numbers of the status: of the oldest pod of each node."""
    wanted = progress.wanted
    first = [progress.pods[name][0] for name in wanted if name in progress.pods]
    ready = [pod for pod in first if workloads.ready(pod)]
    available = sum(map(progress.is_available, ready))
    elsewhere = [name for name in progress.pods if name in progress.fits and name not in wanted]
    counts = {
        "updatedNumberScheduled": sum(map(progress.is_updated, first)),
        "numberAvailable": available,
        "numberUnavailable": len(wanted) - available,
    }
    kept = ("collisionCount", "conditions")
    before = progress.daemon_set.status
    return {
        "desiredNumberScheduled": len(wanted),
        "currentNumberScheduled": len(first),
        "numberMisscheduled": len(elsewhere),
        "numberReady": len(ready),
        "observedGeneration": progress.daemon_set.metadata.generation,
        **{name: count for name, count in counts.items() if count},
        **{name: before[name] for name in kept if name in before},
    }


# -- rolling update -------------------------------------------------------------------------------


def roll(progress: Progress) -> Plan:
    """The next steps of a rolling update; none with the strategy OnDelete."""
    strategy = progress.daemon_set.spec.update_strategy
    if strategy.type != "RollingUpdate":
        return Plan()
    surge, unavailable = _bounds(progress)
    return _surge(progress, surge) if surge else _replace(progress, unavailable)


def _bounds(progress: Progress) -> tuple[int, int]:
    """maxSurge and maxUnavailable as numbers; never both 0, or no pod could be replaced."""
    rolling, whole = progress.daemon_set.spec.update_strategy.rolling_update, len(progress.wanted)
    if rolling is None:
        return 0, 1
    surge, unavailable = share(rolling.max_surge, whole), share(rolling.max_unavailable, whole)
    return surge, unavailable if surge or unavailable else 1


def _places(progress: Progress) -> dict[str, tuple[list[Pod], list[Pod]]]:
    """The new and the old pods of each node that has pods or should have one."""
    places = {}
    for name in sorted({*progress.pods, *progress.wanted}):
        pods = [pod for pod in progress.pods.get(name, ()) if not pod.terminating]
        new = [pod for pod in pods if progress.is_updated(pod)]
        places[name] = (new, [pod for pod in pods if pod not in new])
    return places


def _replace(progress: Progress, most_unavailable: int) -> Plan:
    """Delete old pods within the limit."""
    at_once: list[Pod] = []
    candidates: list[Pod] = []
    unavailable = 0
    for new, old in _places(progress).values():
        if len(new) + len(old) != 1:  # `mend` takes care of this node
            unavailable += 1
        elif new:
            unavailable += not progress.is_available(new[0])
        elif not progress.is_available(old[0]):
            at_once += old
            unavailable += 1
        else:
            candidates += old
    return Plan(delete=[*at_once, *candidates[: max(0, most_unavailable - unavailable)]])


def _surge(progress: Progress, most_extra: int) -> Plan:
    """Create successors within the limit, and delete old pods whose successor is available."""
    plan = Plan()
    candidates: list[str] = []
    leaving: list[Pod] = []
    extra = available = 0
    for name, (new, old) in _places(progress).items():
        if len(new) > 1 or len(old) > 1:  # `mend` takes care of this node
            extra += 1
            continue
        available += sum(map(progress.is_available, old or new))
        if old and not new:
            waits = progress.is_available(old[0])
            if progress.fits.get(name) is Fit.RUN:
                (candidates if waits else plan.create).append(name)
            else:
                (leaving if waits else plan.delete).append(old[0])
        elif old and progress.is_available(new[0]):
            plan.delete += old
        elif old:
            extra += 1
    plan.create += candidates[: max(0, most_extra - extra)]
    # A pod on a node that no longer fits goes when a pod elsewhere has taken over.
    plan.delete += leaving[: max(0, available - len(progress.wanted))]
    return plan
