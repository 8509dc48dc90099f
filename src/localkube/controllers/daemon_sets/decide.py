"""The next steps of a daemon set, and its status: pure.

Every node that fits has one pod. Pods that ended, pods too many and pods on nodes that no longer
fit are deleted first. Only when there is nothing to mend does a rolling update go on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from kubekit.objects.events import EventText
from localkube.controllers import pod_readiness
from localkube.controllers.daemon_sets import node_fit
from localkube.controllers.daemon_sets.node_fit import Fit
from localkube.controllers.daemon_sets.revisions import is_updated

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from kubekit.objects.meta import Raw
    from localkube.controllers.workloads import DaemonSet, Node, Pod


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
        spec = node_fit.pod_spec(self.daemon_set.spec.template)
        ordered = sorted(self.nodes, key=lambda node: node.metadata.name)
        return {node.metadata.name: node_fit.fit(spec, node) for node in ordered}

    @cached_property
    def pods(self) -> dict[str, list[Pod]]:
        """Pods by the node that they are for: bound pods first, then the oldest."""
        pods: dict[str, list[Pod]] = {}
        for pod in sorted(self.owned, key=_age):
            node = node_fit.target_node(pod)
            # Nothing is left to do about a pod that ended and is being deleted.
            if node and not (pod.finished and pod.terminating):
                pods.setdefault(node, []).append(pod)
        return pods

    @property
    def wanted(self) -> list[str]:
        """The nodes that get a pod."""
        return [name for name, fit in self.fits.items() if fit is Fit.RUN]

    def is_available(self, pod: Pod) -> bool:
        return pod_readiness.available(pod, self.daemon_set.spec.min_ready_seconds, self.now)

    def is_updated(self, pod: Pod) -> bool:
        return is_updated(self.daemon_set, self.revision_hash, pod)


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
    if new and old and (not pod_readiness.ready(old[0]) or progress.is_available(new[0])):
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


def status(progress: Progress) -> Raw:
    """The numbers of the status: of the oldest pod of each node."""
    wanted = progress.wanted
    first = [progress.pods[name][0] for name in wanted if name in progress.pods]
    ready = [pod for pod in first if pod_readiness.ready(pod)]
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


def available_in(progress: Progress) -> float | None:
    """Seconds until the next ready pod becomes available."""
    seconds = progress.daemon_set.spec.min_ready_seconds
    if not seconds:
        return None
    times = [pod_readiness.available_at(pod, seconds) for pod in progress.owned]
    waits = [(at - progress.now).total_seconds() for at in times if at and at > progress.now]
    return min(waits, default=None)
