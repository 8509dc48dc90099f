"""The controller of DaemonSets: reads a set, the nodes, its pods and revisions, decides, writes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from kubekit.control.loop import RequeueAfter
from localkube.controllers.daemon_sets import decide as decisions
from localkube.controllers.daemon_sets import revisions, rolling_update
from localkube.controllers.daemon_sets.decide import Progress
from localkube.controllers.daemon_sets.failed_pods import FailedPods
from localkube.controllers.daemon_sets.pod_manifest import pod_for_node
from localkube.controllers.informers import possible_owners
from localkube.controllers.revisions.history import HASH
from localkube.controllers.revisions.writer import current_revision, delete_revisions
from localkube.controllers.workloads import BURST

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubekit.objects.meta import Key
    from kubekit.watch.informer_cache import Change
    from localkube.controllers.daemon_sets.decide import Plan
    from localkube.controllers.informers import SharedInformers
    from localkube.controllers.pod_control import PodControl
    from localkube.controllers.workloads import Node


def _clock() -> float:
    return asyncio.get_running_loop().time()


@dataclass(frozen=True)
class DaemonSetController:
    pod_control: PodControl
    informers: SharedInformers
    failed_pods: FailedPods = field(default_factory=lambda: FailedPods(_clock))

    def connect(self, wake: Callable[[Key], None]) -> None:
        owners, pods = self.informers.daemon_sets, self.informers.pods

        def on_node(change: Change[Node]) -> None:
            if change.old is None or change.new is None or _differs(change.old, change.new):
                for owner in owners.all():
                    wake(owner.metadata.key)

        self.informers.nodes.subscribe(on_node)
        self.pod_control.connect(owners, pods, partial(possible_owners, owners), wake)

    async def reconcile(self, key: Key) -> RequeueAfter | None:
        daemon_set = self.informers.daemon_sets.get(key)
        if daemon_set is None or daemon_set.metadata.deletion_timestamp is not None:
            return None  # garbage collection deletes its pods and revisions
        meta = daemon_set.metadata
        pending = self.pod_control.expectations.pending(meta.uid)
        if pending is not None:
            return RequeueAfter(pending)
        pods = await self.pod_control.owned(daemon_set, self.informers.pods)
        known = await self.pod_control.owned(daemon_set, self.informers.revisions)
        current = await current_revision(self.pod_control, daemon_set, known, HASH)
        if current is None:
            return None
        progress = Progress(
            daemon_set,
            list(self.informers.nodes.all()),
            pods,
            current.metadata.labels.get(HASH, ""),
            self.pod_control.clock(),
            self.failed_pods.in_backoff(meta.uid),
        )
        plan = decisions.mend(progress) or rolling_update.roll(progress)
        await self._carry_out(progress, plan)
        old = revisions.outdated(daemon_set, known, current, pods)
        await delete_revisions(self.pod_control, old)
        await self.pod_control.write_status(meta, daemon_set.status, decisions.status(progress))
        waits = [decisions.available_in(progress), self.failed_pods.next_in(meta.uid)]
        again = min((seconds for seconds in waits if seconds is not None), default=None)
        return None if again is None else RequeueAfter(again)

    async def _carry_out(self, progress: Progress, plan: Plan) -> None:
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
