"""Why a job's pods wait, for `status.waiting`: the message of the component that holds them up.

The operator itself may hold back creations (a name is taken, a quota, a backoff), the scheduler may
have no node for a pod, or a node may be unable to start a container. The earliest cause wins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from muster.jobs import pod_status
from muster.jobs.job_status import JobStatus, Waiting
from muster.operator.action_types import EmitEvent
from muster.operator.observed_job import NAME_TAKEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kubekit.objects.core import Pod
    from muster.jobs.job import Job, Replica
    from muster.operator.observed_job import Observed

_ORDINARY = ("", "ContainerCreating", "PodInitializing")
_SAME_PROBLEM = {"ErrImagePull": "ImagePullBackOff"}
"""A node alternates between these two reasons; without this, each change would be an event."""


def explain(
    job: Job, status: JobStatus, pods: Sequence[Pod], observed: Observed, delay: Waiting | None
) -> tuple[JobStatus, list[EmitEvent]]:
    """The status with the reason why pods wait, and an event if a problem is new.

    `delay` is the reason why the operator does not create some pods yet.
    """
    if waiting := _before_creation(job, observed):
        # A taken name may need a person, so it gets an event.
        is_new = waiting.reason == NAME_TAKEN and waiting != status.waiting
        return replace(status, waiting=waiting), [_warning(waiting)] if is_new else []
    if waiting := delay or _for_a_node(pods):
        return replace(status, waiting=waiting), []
    waiting = _on_a_node(pods)
    if waiting is None:
        return replace(status, waiting=None), []
    if status.waiting is not None and waiting.reason == status.waiting.reason:
        return status, []  # The message changes at every attempt without telling more.
    return replace(status, waiting=waiting), [_warning(waiting)]


def _warning(waiting: Waiting) -> EmitEvent:
    return EmitEvent(waiting.reason, waiting.message, "Warning")


def terminating_pods(wanted: Iterable[Replica], observed: Observed) -> Waiting | None:
    """The pods that must be gone before new pods can have their names."""
    names = {replica.name for replica in wanted}
    metas = [pod.metadata for pod in observed.pods if pod.metadata.deletion_timestamp is not None]
    blocking = sorted((meta for meta in metas if meta.name in names), key=lambda meta: meta.name)
    if not blocking:
        return None
    first, others = blocking[0], f" and {len(blocking) - 1} more" if blocking[1:] else ""
    cause = f" (it has finalizers: {', '.join(first.finalizers)})" if first.finalizers else ""
    return Waiting("Terminating", f"waits for pod {first.name}{others} to end{cause}")


def _before_creation(job: Job, observed: Observed) -> Waiting | None:
    """Why pods cannot be created."""
    if observed.of_former_job:
        count = len(observed.of_former_job)
        pods = f"{count} pod{'s' if count > 1 else ''}"
        return Waiting("FormerJob", f"waits for {pods} of the former job {job.name} to end")
    if not job.total:
        return Waiting("NoReplicas", "every role has 0 replicas: there is nothing to run")
    if observed.quota_refusal:
        return Waiting("QuotaExceeded", observed.quota_refusal)
    return observed.blocked


def _for_a_node(pods: Sequence[Pod]) -> Waiting | None:
    for pod in pods:
        for row in pod.status.conditions:
            if row.type == "PodScheduled" and row.status == "False" and not pod.spec.node_name:
                return Waiting(row.reason, row.message)
    return None


def _on_a_node(pods: Sequence[Pod]) -> Waiting | None:
    """A container that a node cannot start, or cannot start again."""
    for pod in pods:
        for row in pod.status.all_container_statuses:
            state = row.state.waiting
            if state is not None and state.reason not in _ORDINARY:
                reason = _SAME_PROBLEM.get(state.reason, state.reason)
                # How a crashing container ended tells more than when the node restarts it.
                crashes = reason == "CrashLoopBackOff"
                problem = f" {pod_status.failure(pod)}" if crashes else f": {state.message}"
                return Waiting(reason, f"Pod {pod.metadata.name}{problem}")
    return None
