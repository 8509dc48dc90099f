"""The end of a job: which pods stay, when the others are deleted, and the final counts.

A TFJob succeeds with its chief or worker 0, a PyTorchJob with its master, an MPIJob with its
launcher, whatever the others do. The other workers usually run the same program and end a moment
later. They get a few seconds for that, so that they end by themselves, keep their pods and logs,
and are counted as they really ended. Until then no pod is deleted, as a worker may still talk to a
parameter server, but for pods that wait for the next try after a crash: none of these is restarted.
Workers that train on after that are stopped: their work is lost, so the status and an event name
them. They have not succeeded, and are not counted as if they had, although training-operator does
so. Pods that only serve the others (parameter servers, workers of an MPIJob) never end by
themselves: they count as succeeded if they ran until the end.

The counts of a finished job follow its pods until none is active. From then on they stay, whoever
deletes the pods. The message of the Succeeded condition names replicas that had failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from muster.jobs import job_sentences, pod_status
from muster.jobs.job_sentences import replica_in_words
from muster.jobs.job_state import clean_pod_policy, crash_of
from muster.jobs.job_status import ReplicaStatus, StoppedPods, UnfinishedReplicas
from muster.operator.build.labels import index_of, replica_spec_of, role_of
from muster.operator.decide import owned_objects, pod_failure, restarts
from muster.operator.decide.job_conditions import not_terminating
from muster.operator.decide.owned_objects import delete_group_objects, event_of_deletion
from muster.operator.decision_types import Action, DeleteJob, EmitEvent, Requeue
from muster.operator.frameworks import framework_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from kubekit.objects.core import Pod
    from muster.jobs.job import Job, Replica
    from muster.jobs.job_status import JobStatus
    from muster.operator.decision_types import Observed

LAST_SECONDS = 5.0
"""Seconds that workers of a job that succeeded have to end by themselves."""
_TRAINING_ROLES = ("Chief", "Master", "Worker", "Evaluator")
_FEW = 2
"""A replica that runs again is named after this many failures: after one it just took longer."""
_MAX_NAMES = 100
"""Names in the status."""
_MAX_WORDS = 3
"""Names in the sentence."""


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
    if clean_pod_policy(job, status) != "None":
        # A pod that may still end by itself keeps its host name.
        used = {p.metadata.name for p in pods.staying if p.finished or pods.seconds_left}
        unused = owned_objects.service_names(observed) - used
    after = _with_counts(job, status, pods, _ended_well(job, observed.pods))
    stopped = [pod for pod in pods.leaving if _may_end(job, pod)]
    after = record_stopped(job, after, stopped)
    groups = delete_group_objects(job, observed)
    actions = [
        *groups,
        *owned_objects.delete_pods(pods.leaving),
        *owned_objects.delete_services(unused),
        *([Requeue(pods.seconds_left)] if pods.seconds_left else ()),
        *_expiry(job, status, now),
    ]
    events = [*event_of_deletion(groups), *event_of_stopped(status, after)]
    return JobEnd(after, events, actions)


def _divide(job: Job, status: JobStatus, observed: Observed, now: datetime) -> _Pods:
    policy, living = clean_pod_policy(job, status), not_terminating(observed.pods)
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
    return framework_of(job).workers_end and role in _TRAINING_ROLES


def _is_active(pod: Pod) -> bool:
    """Whether the pod has a node that does not wait before it restarts the pod's container."""
    placed = bool(pod.spec.node_name) or pod.status.phase not in ("", "Pending")
    return placed and not restarts.waits_for_restart(pod)


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


def unfinished_replicas(
    job: Job, status: JobStatus, pods: Sequence[Pod], wanted: Sequence[Replica]
) -> UnfinishedReplicas | None:
    """The first replica that had not finished, how it failed, and how many others had not either.

    None if every replica had succeeded or was simply still running.
    """
    present = {pod.metadata.name: pod for pod in pods}
    rows = ((r, _unfinished_failure(status, r, present.get(r.name))) for r in wanted)
    failed = [(replica, text) for replica, text in rows if text]
    if not failed:
        return None
    first, text = failed[0]
    name = replica_in_words(first.role.lower(), first.index, first.name)
    remedy = _remedy(job, first.role)
    message = job_sentences.unfinished(name, text, len(failed) - 1, remedy)
    return UnfinishedReplicas(tuple(row.name for row, _ in failed[:_MAX_NAMES]), message)


def _unfinished_failure(status: JobStatus, replica: Replica, pod: Pod | None) -> str:
    """How this replica failed, as the rest of a sentence that begins with its name."""
    if pod is not None and pod.status.phase == "Succeeded":
        return ""
    if pod is not None and pod.status.phase == "Failed":
        return f"had failed: it {pod_status.failure(pod)}"
    crash = crash_of(pod) if pod is not None else None
    runs = pod is not None and pod.status.phase == "Running" and not (crash and crash.waits)
    state = "was still running" if runs else "had not finished"
    if crash is not None:
        return "" if runs and crash.restarts < _FEW else f"{state}: it {crash.rest_of_sentence}"
    row = status.failures.get(f"{replica.role.lower()}-{replica.index}")
    if row is None or (runs and row.count < _FEW) or row.last is None:
        return ""
    return f"{state}: {job_sentences.failed_of_late('it', row)}"


def _remedy(job: Job, role: str) -> str:
    """How the next job waits for replicas of this role, as the end of a sentence."""
    if job.kind != "TFJob" or role != "Worker" or job.success_policy == "AllWorkers":
        return ""
    if job.chief or job.chief_role:
        return ""  # it decides, whatever the policy
    return "; --success-policy=AllWorkers waits for all workers"


def record_stopped(job: Job, status: JobStatus, stopped: Sequence[Pod]) -> JobStatus:
    """The status of a succeeded job that now stops these pods, which train."""
    if not stopped or status.stopped is not None or not status.is_true("Succeeded"):
        return status
    rows = sorted(stopped, key=lambda pod: (role_of(job, pod), index_of(pod)))
    pod_names = tuple(pod.metadata.name for pod in rows[:_MAX_NAMES])
    count = len(rows) if len(rows) > _MAX_NAMES else 0
    return replace(status, stopped=StoppedPods(pod_names, _stopped_in_words(job, rows), count))


def event_of_stopped(before: JobStatus, after: JobStatus) -> list[EmitEvent]:
    if after.stopped is None or before.stopped == after.stopped:
        return []
    return [EmitEvent("ReplicasStopped", after.stopped.message)]


def _stopped_in_words(job: Job, pods: Sequence[Pod]) -> str:
    words = [replica_in_words(role_of(job, p).lower(), index_of(p), p.metadata.name) for p in pods]
    if len(words) > _MAX_WORDS:
        words = [*words[: _MAX_WORDS - 1], f"{len(words) - _MAX_WORDS + 1} others"]
    remedy = _remedy(job, role_of(job, pods[0]))
    return job_sentences.stopped(words, _deciding_replica(job), remedy)


def _deciding_replica(job: Job) -> str:
    """The replica whose end was the job's; empty if it could be any."""
    role, index = job.chief or (job.chief_role or "Worker", 0)
    if role == "Worker" and job.kind != "TFJob":
        return ""  # an elastic PyTorchJob succeeds with any worker
    replica = f"worker {index}" if role == "Worker" else f"the {role.lower()}"
    return f" ({replica} had ended)"
