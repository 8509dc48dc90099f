"""Why a job's pods wait: in the scheduler's words, the quota's, the node's or ours.

Pure. Called by `decide`; kept in `status.waiting`, which `get` and the dashboard show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.jobs import pod_status
from muster.operator.actions import EmitEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from muster.api.core import Pod
    from muster.api.meta import Raw
    from muster.jobs.job import Job, Replica
    from muster.operator.observed import Observed

_ORDINARY = ("", "ContainerCreating", "PodInitializing")
_ALIKE = {"ErrImagePull": "ImagePullBackOff"}
"""Two words that a node uses in turn for the same trouble."""


def explain(
    job: Job, mine: Sequence[Pod], observed: Observed, held: Raw | None = None
) -> tuple[Raw, list[EmitEvent]]:
    """The status with the reason why pods wait, and an event if a node has new trouble.

    `held` is why we ourselves let some of them wait.
    """
    before = job.status.get("waiting") or {}
    rest = {name: value for name, value in job.status.items() if name != "waiting"}
    if found := _for_us(job, observed) or held or _for_a_node(mine):
        return {**rest, "waiting": found}, []
    trouble = _on_a_node(mine)
    if trouble is None:
        return rest, []
    if trouble["reason"] == before.get("reason"):
        return {**rest, "waiting": before}, []  # Its words change at every try, and say no more.
    return {**rest, "waiting": trouble}, [
        EmitEvent(trouble["reason"], trouble["message"], "Warning")
    ]


def terminating_pods(wanted: Iterable[Replica], observed: Observed) -> Raw | None:
    """The members in whose place new ones cannot come yet: they were asked to go, and are there."""
    names = {replica.name for replica in wanted}
    leaving = [pod.metadata for pod in observed.pods if pod.metadata.deletion_timestamp is not None]
    found = sorted((meta for meta in leaving if meta.name in names), key=lambda meta: meta.name)
    if not found:
        return None
    others = f" and {len(found) - 1} more" if found[1:] else ""
    held = f" (it has finalizers: {', '.join(found[0].finalizers)})" if found[0].finalizers else ""
    message = f"waits for pod {found[0].name}{others} to end{held}"
    return {"reason": "Terminating", "message": message}


def _for_us(job: Job, observed: Observed) -> Raw | None:
    if observed.of_former_job:
        some = f"{len(observed.of_former_job)} pod{'s' if len(observed.of_former_job) > 1 else ''}"
        message = f"waits for {some} of the former job {job.name} to end"
        return {"reason": "FormerJob", "message": message}
    if not job.total:
        return {"reason": "NoReplicas", "message": "every role has 0 replicas: nothing is to run"}
    if observed.quota_refusal:
        return {"reason": "QuotaExceeded", "message": observed.quota_refusal}
    return observed.blocked or None


def _for_a_node(mine: Sequence[Pod]) -> Raw | None:
    for pod in mine:
        for row in pod.status.conditions:
            if row.type == "PodScheduled" and row.status == "False" and not pod.spec.node_name:
                return {"reason": row.reason, "message": row.message}
    return None


def _on_a_node(mine: Sequence[Pod]) -> Raw | None:
    """A container that a node cannot start, or not any more."""
    for pod in mine:
        for row in (*pod.status.init_container_statuses, *pod.status.container_statuses):
            state = row.state.waiting
            if state is not None and state.reason not in _ORDINARY:
                return _trouble(pod, _ALIKE.get(state.reason, state.reason), state.message)
    return None


def _trouble(pod: Pod, reason: str, message: str) -> Raw:
    """How a container that keeps crashing ended says more than how long the next try is away."""
    if reason == "CrashLoopBackOff":
        return {"reason": reason, "message": f"Pod {pod.metadata.name} {pod_status.failure(pod)}"}
    return {"reason": reason, "message": f"Pod {pod.metadata.name}: {message}"}
