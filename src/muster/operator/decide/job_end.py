"""The end of a job: which pods stay, when the others are deleted, and the final counts.

A TFJob succeeds with its chief or worker 0, a PyTorchJob with its master. The other workers usually
run the same program and end a moment later. They get a few seconds for that, so that they end by
themselves, keep their pods and logs, and are counted as they really ended. Until then no pod is
deleted, as a worker may still talk to a parameter server, but for pods that wait for the next try
after a crash: none of these is restarted. Workers that train on after that are stopped. They have
not succeeded, and are not counted as if they had, although training-operator does so. Pods that
only serve the others (parameter servers, workers of an MPIJob) never end by themselves: they count
as succeeded if they ran until the end.

The counts of a finished job follow its pods until none is active. From then on they stay, whoever
deletes the pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from muster.jobs.job_status import ReplicaStatus
from muster.operator.action_types import Action, DeleteJob, EmitEvent, Requeue
from muster.operator.build.labels import replica_spec_of, role_of
from muster.operator.decide import job_limits, missing_objects, pod_failure, unfinished
from muster.operator.decide.gang_object import delete_group_objects, event_of_deletion
from muster.operator.decide.job_conditions import not_terminating
from muster.operator.frameworks import registry

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from kubekit.objects.core import Pod
    from muster.jobs.job import Job
    from muster.jobs.job_status import JobStatus
    from muster.operator.observed_job import Observed

LAST_SECONDS = 5.0
"""Seconds that workers of a job that succeeded have to end by themselves."""
_TRAINING_ROLES = ("Chief", "Master", "Worker")


class _Pods(NamedTuple):
    """The pods of a finished job that are not being deleted yet."""

    staying: list[Pod]
    leaving: list[Pod]
    seconds_left: float
    """Until further pods are deleted; 0: the pods that stay are left in place for good."""


def final_counts(job: Job, status: JobStatus, observed: Observed, now: datetime) -> JobStatus:
    """The status of a job that ends now, with the counts of its replicas at its end."""
    pods = _divide(job, status, observed, now)
    return _with_counts(job, status, pods, {role: row.succeeded for role, row in _rows(status)})


class JobEnd(NamedTuple):
    """What is left to do for a finished job."""

    status: JobStatus
    events: list[EmitEvent]
    actions: list[Action]


def clean_up(job: Job, status: JobStatus, observed: Observed, now: datetime) -> JobEnd:
    """A finished job: delete its objects as its policy says, and the job when its TTL is over.

    The caller writes the status, so that the outcome and the counts are one write.
    """
    pods = _divide(job, status, observed, now)
    unused = set()
    if _clean_pod_policy(job, status) != "None":
        # A pod that may still end by itself keeps its host name.
        used = {p.metadata.name for p in pods.staying if p.finished or pods.seconds_left}
        unused = missing_objects.service_names(observed) - used
    after = _with_counts(job, status, pods, _ended_well(job, observed.pods))
    stopped = [pod for pod in pods.leaving if _may_end(job, pod)]
    after = unfinished.record_stopped(job, after, stopped)
    groups = delete_group_objects(job, observed)
    actions = [
        *groups,
        *missing_objects.delete_pods(pods.leaving),
        *missing_objects.delete_services(unused),
        *([Requeue(pods.seconds_left)] if pods.seconds_left else ()),
        *_expiry(job, status, now),
    ]
    events = [*event_of_deletion(groups), *unfinished.event_of_stopped(status, after)]
    return JobEnd(after, events, actions)


def _divide(job: Job, status: JobStatus, observed: Observed, now: datetime) -> _Pods:
    policy, living = _clean_pod_policy(job, status), not_terminating(observed.pods)
    left = 0.0
    if policy != "None" and any(_may_end(job, pod) for pod in living):
        left = _last_seconds(status, now)
    # A pod without a node must not start now that the job is complete, and none is restarted.
    leaving = [
        pod for pod in living if _is_cleaned(job, pod, policy) and not (left and _is_active(pod))
    ]
    uids = {pod.metadata.uid for pod in leaving}
    return _Pods([pod for pod in living if pod.metadata.uid not in uids], leaving, left)


def _last_seconds(status: JobStatus, now: datetime) -> float:
    if not status.is_true("Succeeded") or status.completion_time is None:
        return 0.0
    return max(0.0, LAST_SECONDS - (now - status.completion_time).total_seconds())


def _may_end(job: Job, pod: Pod) -> bool:
    """Whether the pod trains and can be expected to end by itself when the job is complete."""
    return _trains(job, role_of(job, pod)) and not pod.finished and _is_active(pod)


def _trains(job: Job, role: str) -> bool:
    """Whether pods of the role end by themselves when their training is complete."""
    return registry.framework_of(job).workers_end and role in _TRAINING_ROLES


def _is_active(pod: Pod) -> bool:
    """Whether the pod has a node that does not wait before it restarts the pod's container."""
    placed = bool(pod.spec.node_name) or pod.status.phase not in ("", "Pending")
    return placed and not job_limits.waits_for_restart(pod)


def _with_counts(job: Job, status: JobStatus, pods: _Pods, ended_well: dict[str, int]) -> JobStatus:
    """The status with the counts of its pods; roles without an active pod are final already."""
    if not status.counts:
        return status
    counts = {}
    for role, row in _rows(status):
        staying = [pod for pod in pods.staying if role_of(job, pod) == role]
        leaving = [pod for pod in pods.leaving if role_of(job, pod) == role]
        active = sum(not pod.finished for pod in staying)
        if not (active or row.active):
            counts[role] = row
            continue
        failed = sum(pod.status.phase == "Failed" for pod in (*staying, *leaving))
        succeeded = ended_well.get(role, 0)
        if status.is_true("Succeeded") and not _trains(job, role):
            succeeded += sum(pod.status.phase == "Running" and _is_active(pod) for pod in leaving)
        counts[role] = ReplicaStatus(
            active, max(row.succeeded, succeeded), max(row.failed, failed), row.selector
        )
    return replace(status, replica_statuses=counts)


def _rows(status: JobStatus) -> list[tuple[str, ReplicaStatus]]:
    return list(status.counts.items())


def _ended_well(job: Job, pods: Sequence[Pod]) -> dict[str, int]:
    """The pods of each role that have succeeded, and not only because they were asked to stop."""
    counts: dict[str, int] = {}
    for pod in pods:
        replica_spec = replica_spec_of(job, pod)
        container = replica_spec.container if replica_spec else ""
        if pod.status.phase == "Succeeded" and not pod_failure.ended_by_deletion(pod, container):
            role = role_of(job, pod)
            counts[role] = counts.get(role, 0) + 1
    return counts


def _clean_pod_policy(job: Job, status: JobStatus) -> str:
    policy = job.policy.clean_pod_policy
    if policy == "None" and (job_limits.ended_by_limit(job, status) or status.is_rejected):
        return "Running"  # A job that exceeded a limit or can never start must not run on.
    return policy


def _is_cleaned(job: Job, pod: Pod, policy: str) -> bool:
    """Whether the end of the job deletes this pod.

    mpi-operator's launcher is a batch Job, which keeps its finished pods for their logs.
    """
    if policy == "None" or (pod.finished and _belongs_to_batch_job(job, pod)):
        return False
    return policy == "All" or not pod.finished


def _belongs_to_batch_job(job: Job, pod: Pod) -> bool:
    is_job = job.mpi is not None and job.mpi.launcher_is_job
    return is_job and role_of(job, pod) == "Launcher"


def _expiry(job: Job, status: JobStatus, now: datetime) -> list[Action]:
    if job.policy.ttl_seconds is None or status.completion_time is None:
        return []
    left = job.policy.ttl_seconds - (now - status.completion_time).total_seconds()
    return [Requeue(left)] if left > 0 else [DeleteJob()]
