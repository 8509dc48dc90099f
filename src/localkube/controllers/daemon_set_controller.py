"""The controller of DaemonSets: reads a set, the nodes, its pods and revisions, decides, writes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from localkube.controllers import daemon_set_decision as decisions
from localkube.controllers.controller_revisions import HASH
from localkube.controllers.pod_control import OwnerController, new_pod
from localkube.controllers.workloads import BURST, DAEMON_SETS, DaemonSet, Node, Pod, available_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubekit.objects.meta import Key, Raw
    from kubekit.watch.informer_cache import Change
    from localkube.controllers.daemon_set_decision import Plan

FIRST_DELAY, LONGEST_DELAY = 1.0, 900.0
"""Seconds between deletions of failed pods on one node."""


class _Deletion(NamedTuple):
    at: float
    delay: float


class FailedPods:
    """When the next failed pod of a node may be deleted.

    A pod that fails at once, because its node refuses it, would be deleted and created without end.
    Each deletion doubles the time until the next one on the same node. A node without failures for
    twice the longest time starts again.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._deletions: dict[str, dict[str, _Deletion]] = {}

    def deleted(self, owner: str, node: str) -> None:
        """A failed pod of the owner is being deleted from a node."""
        now, nodes = self._clock(), self._deletions.setdefault(owner, {})
        last = nodes.get(node)
        delay = min(last.delay * 2, LONGEST_DELAY) if last is not None else FIRST_DELAY
        nodes[node] = _Deletion(now, delay)

    def in_backoff(self, owner: str) -> frozenset[str]:
        """The nodes on which failed pods of the owner stay for now."""
        now = self._clock()
        kept = {
            node: deletion
            for node, deletion in self._deletions.pop(owner, {}).items()
            if now - deletion.at < 2 * LONGEST_DELAY
        }
        if kept:
            self._deletions[owner] = kept
        return frozenset(node for node, last in kept.items() if now - last.at < last.delay)

    def next_in(self, owner: str) -> float | None:
        """Seconds until the next node leaves its backoff."""
        now = self._clock()
        waits = (d.at + d.delay - now for d in self._deletions.get(owner, {}).values())
        return min((wait for wait in waits if wait > 0), default=None)


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def pod_for_node(daemon_set: DaemonSet, revision_hash: str, node: str) -> Raw:
    """The pod that only this node may run."""
    body = new_pod(DAEMON_SETS, daemon_set, f"{daemon_set.metadata.name}-")
    meta, spec = body["metadata"], body["spec"]
    meta["labels"] = {**(meta.get("labels") or {}), HASH: revision_hash}
    if decisions.template_generation(daemon_set):
        meta["labels"][decisions.POD_GENERATION] = decisions.template_generation(daemon_set)
    affinity = dict(spec.get("affinity") or {})
    row = {"key": decisions.NODE_NAME, "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [row]}]}
    affinity["nodeAffinity"] = {**(affinity.get("nodeAffinity") or {}), _REQUIRED: terms}
    body["spec"] = {**spec, "tolerations": decisions.tolerations(spec), "affinity": affinity}
    return body


def _clock() -> float:
    return asyncio.get_running_loop().time()


@dataclass(frozen=True)
class DaemonSetController(OwnerController[DaemonSet, Pod]):
    failed_pods: FailedPods = field(default_factory=lambda: FailedPods(_clock))

    def connect(self, wake: Callable[[Key], None]) -> None:
        super().connect(wake)

        def on_node(change: Change[Node]) -> None:
            if change.old is None or change.new is None or _differs(change.old, change.new):
                for owner in self.owners.all():
                    wake(owner.metadata.key)

        self.informers.nodes.subscribe(on_node)

    async def visit(self, owner: DaemonSet) -> float | None:
        meta = owner.metadata
        if meta.deletion_timestamp is not None:
            return None
        pods = await self.pod_control.owned(owner, self.objects)
        known = await self.pod_control.owned(owner, self.informers.revisions)
        current = await self.pod_control.current_revision(owner, known, HASH)
        if current is None:
            return None
        progress = decisions.Progress(
            owner,
            list(self.informers.nodes.all()),
            pods,
            current.metadata.labels.get(HASH, ""),
            self.pod_control.clock(),
            self.failed_pods.in_backoff(meta.uid),
        )
        plan = decisions.mend(progress) or decisions.roll(progress)
        await self._carry_out(progress, plan)
        old = decisions.outdated(owner, known, current, pods)
        await self.pod_control.delete_revisions(old)
        await self.pod_control.write_status(
            meta, owner.status, decisions.daemon_set_status(progress)
        )
        waits = (
            available_in(pods, owner.spec.min_ready_seconds, progress.now),
            self.failed_pods.next_in(meta.uid),
        )
        return min((seconds for seconds in waits if seconds is not None), default=None)

    async def _carry_out(self, progress: decisions.Progress, plan: Plan) -> None:
        daemon_set = progress.daemon_set
        for event in plan.events:
            self.pod_control.record(daemon_set.metadata, event)
        for node in plan.failed_on:
            self.failed_pods.deleted(daemon_set.metadata.uid, node)
        bodies = [
            pod_for_node(daemon_set, progress.revision_hash, node) for node in plan.create[:BURST]
        ]
        error = await self.pod_control.create_pods(daemon_set.metadata, bodies)
        await self.pod_control.delete_pods(daemon_set.metadata, plan.delete[:BURST])
        if error is not None:
            raise error


def _differs(old: Node, new: Node) -> bool:
    """Whether another set of pods may fit the node."""
    return old.metadata.labels != new.metadata.labels or old.spec.taints != new.spec.taints
