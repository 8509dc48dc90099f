"""The end of a pod: what it means for the job, and the event about it.

A pod that failed is replaced or retried, fails the job, or is ignored. A pod that the cluster ended
(evicted, its node lost or shut down, rejected by the kubelet before any container started) is
replaced whatever its restart policy, and does not count for backoffLimit. A pod that was evicted
because it exceeded its own limit of disk has failed: it would do so again. A pod that exits 0 after
it was asked to stop is replaced too: its training is not complete. So is an MPI launcher that ends
because a worker was deleted: Open MPI 5 prints that it "has lost communication with a remote
daemon", and mostly exits 0. Where replicas restart together, so is a launcher that ends after a
worker failed, whatever its exit code.

The event ExitedWithCode has training-operator's words. training-operator reports an end at every
reconcile that sees it. Here each end is reported once: the operator remembers the reported ends of
the pods that exist. An operator that was restarted reports them once more, with the next change of
the job's status.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubekit.objects.enforced_limits import is_over_own_limit
from kubekit.objects.meta import condition_is_true, find_condition, shifted
from muster.jobs.job_status import LauncherStart
from muster.operator.build.labels import index_of, replica_spec_of, role_of
from muster.operator.decide.job_conditions import not_terminating
from muster.operator.decision_types import EmitEvent, RecordExits, Report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubekit.objects.core import ContainerTerminated, Pod
    from muster.jobs.job import Job, ReplicaSpec
    from muster.jobs.job_status import JobStatus

_ENDED_BY_CLUSTER = (
    "Evicted",
    "NodeLost",
    "NodeShutdown",
    "Shutdown",
    "Terminated",
    "Preempting",
    "Preempted",
)
_REJECTED_BY_KUBELET = (
    "NodeAffinity",
    "UnexpectedAdmissionError",
    "NodePorts",
    "TopologyAffinityError",
)
_ELASTIC = ("horovodrun", "discover_hosts", "elastic")
"""In the command of a launcher that survives the loss of a worker."""
_TIME_TO_NOTICE = timedelta(minutes=1)
"""An MPI launcher ends at most this long after it lost a worker."""
_MAX_EVENTS = 8
"""If more pods than this end with the same code at once, they share an event."""


class FailureAction(Enum):
    REPLACE = "replace"
    """The cluster ended the pod: recreate it without counting a restart."""
    RETRY = "retry"
    """The training failed, and the job's policy allows another attempt."""
    FATAL = "fatal"
    """The job fails."""
    IGNORED = "ignored"
    """The job continues without the pod."""


def action_on_failure(job: Job, replica_spec: ReplicaSpec, pod: Pod) -> FailureAction:
    """The action for a pod that failed or was stopped."""
    if ended_by_cluster(pod):
        return FailureAction.REPLACE
    if replica_spec.restart in ("OnFailure", "Always"):
        return FailureAction.RETRY
    if replica_spec.restart == "ExitCode" and retryable(exit_code(pod, replica_spec.container)):
        return FailureAction.RETRY
    # Like a batch Job, a launcher with a backoffLimit is retried whatever its restart policy.
    if replica_spec.role == "Launcher" and job.policy.backoff_limit is not None:
        return FailureAction.RETRY
    if job.dynamic_workers and replica_spec.role == "Worker":
        return FailureAction.IGNORED
    return FailureAction.FATAL


def ended_by_cluster(pod: Pod) -> bool:
    """Whether the cluster, and not the training, ended this pod."""
    if condition_is_true(pod.status.conditions, "DisruptionTarget"):
        return True
    if is_over_own_limit(pod.status.reason, pod.status.message):
        return False
    if pod.status.reason in _ENDED_BY_CLUSTER:
        return True
    rejected = pod.status.reason in _REJECTED_BY_KUBELET or pod.status.reason.startswith("OutOf")
    return rejected and not ever_started(pod)


def ended_by_deletion(pod: Pod, container: str) -> bool:
    """Whether a pod exited 0 only because it had been asked to stop.

    Kubernetes writes times in whole seconds, so a pod that ended within the second of the request
    counts as stopped by it.
    """
    requested = _stop_requested_at(pod) if pod.status.phase == "Succeeded" else None
    if requested is None:
        return False
    end = _end(pod, container)
    at = end.finished_at if end is not None else None
    # Without a time, the deletion is the likelier cause of the end.
    return at is None or at.replace(microsecond=0) >= requested.replace(microsecond=0)


def _stop_requested_at(pod: Pod) -> datetime | None:
    """When the pod was first asked to stop: by its deletion, or by a DisruptionTarget condition."""
    times: list[datetime] = []
    meta, notice = pod.metadata, find_condition(pod.status.conditions, "DisruptionTarget")
    if meta.deletion_timestamp is not None:
        # deletionTimestamp is when the grace period ends, not when the deletion was requested.
        grace = meta.deletion_grace_period_seconds or 0
        times.append(shifted(meta.deletion_timestamp, -grace))
    if notice is not None and notice.status == "True":
        times.append(notice.last_transition_time or datetime.min.replace(tzinfo=UTC))
    return min(times, default=None)


def record_launcher_start(job: Job, status: JobStatus, pods: Sequence[Pod]) -> JobStatus:
    """The status with the number of workers that the running attempt of the launcher began with.

    mpirun reads its hosts when it starts. A worker that is added later is none of its hosts.
    """
    running = (pod for pod in pods if role_of(job, pod) == "Launcher" and _is_running(pod))
    launcher = next(running, None)
    if launcher is None:
        return status
    start = LauncherStart(launcher.metadata.uid, job.count("Worker"), _restarts(job, launcher))
    if status.launcher_start is None or _attempt(status.launcher_start) != _attempt(start):
        return replace(status, launcher_start=start)
    return status


def _is_running(pod: Pod) -> bool:
    return pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None


def _attempt(start: LauncherStart) -> tuple[str, int]:
    return start.pod_uid, start.restarts


def _restarts(job: Job, launcher: Pod) -> int:
    spec, rows = job.replica_spec("Launcher"), launcher.status.container_statuses
    return next((row.restart_count for row in rows if spec and row.name == spec.container), 0)


def _workers_at_start(job: Job, status: JobStatus, launcher: Pod) -> int:
    """The workers that the last attempt of the launcher began with, and that still should exist."""
    start, count = status.launcher_start, job.count("Worker")
    attempt = (launcher.metadata.uid, _restarts(job, launcher))
    return min(count, start.workers) if start and _attempt(start) == attempt else count


def lost_worker(
    job: Job, status: JobStatus, launcher: Pod, pods: Sequence[Pod], now: datetime
) -> int | None:
    """The worker that was deleted just before this launcher ended; None if there is none."""
    replica_spec = job.replica_spec("Launcher")
    end = _end(launcher, replica_spec.container) if replica_spec is not None else None
    start = (end.started_at if end else None) or launcher.metadata.creation_timestamp
    at = end.finished_at if end else None
    if replica_spec is None or start is None or at is None or job.from_pods:
        return None
    if not launcher.finished or _survives_lost_workers(replica_spec):
        return None
    earliest = max(start, at - _TIME_TO_NOTICE)
    workers = {index_of(pod): pod for pod in pods if role_of(job, pod) == "Worker"}
    for index in range(_workers_at_start(job, status, launcher)):
        pod = workers.get(index)
        if pod is None:
            # It may also have been deleted after the end, while no operator ran.
            lost = now - at < _TIME_TO_NOTICE
        else:
            lost = _within(earliest, _stop_requested_at(pod), at)
            # A worker that is there again was created some time after the other was deleted,
            # and perhaps after the launcher's end.
            created = pod.metadata.creation_timestamp
            lost = lost or _within(earliest, created, at + _TIME_TO_NOTICE)
        if lost:
            return index
    return None


def ends_with_workers(job: Job, pod: Pod) -> bool:
    """Whether this pod is a launcher that restarts together with its workers and needs them all."""
    spec = replica_spec_of(job, pod)
    if spec is None or spec.role != "Launcher" or _survives_lost_workers(spec):
        return False
    return spec.role in job.restarts_together


def lost_failed_worker(job: Job, launcher: Pod, pods: Sequence[Pod]) -> bool:
    """Whether a worker had failed when this launcher ended, and makes it restart too."""
    at = ended_at(job, launcher) if launcher.finished else None
    if at is None or not ends_with_workers(job, launcher):
        return False
    workers = (pod for pod in pods if role_of(job, pod) == "Worker")
    ends = (ended_at(job, pod) for pod in workers if pod.status.phase == "Failed")
    return any(end is not None and end <= at for end in ends)


def ended_at(job: Job, pod: Pod) -> datetime | None:
    """When the pod's container that trains ended, if known."""
    replica_spec = replica_spec_of(job, pod)
    end = _end(pod, replica_spec.container) if replica_spec is not None else None
    return end.finished_at if end is not None else None


def _within(after: datetime, time: datetime | None, until: datetime) -> bool:
    return time is not None and after < time <= until


def _survives_lost_workers(launcher: ReplicaSpec) -> bool:
    containers = launcher.spec.get("containers") or ()
    words = [
        str(word)
        for row in containers
        for field in ("command", "args")
        for word in row.get(field) or ()
    ]
    return any(sign in word for sign in _ELASTIC for word in words)


def ever_started(pod: Pod) -> bool:
    """Whether a container of the pod ever ran."""
    rows = pod.status.all_container_statuses
    states = (state for row in rows for state in (row.state, row.last_state))
    return any(state.running is not None or state.terminated is not None for state in states)


def exit_code(pod: Pod, container: str) -> int | None:
    """The exit code of the container that trains, if known."""
    end = _end(pod, container)
    return end.exit_code if end is not None else None


def _end(pod: Pod, container: str) -> ContainerTerminated | None:
    rows = pod.status.container_statuses
    return next((row.state.terminated for row in rows if row.name == container), None)


def retryable(code: int | None) -> bool:
    """Whether a signal ended the container (codes from 128), even if the code is unknown."""
    return code is None or code >= 128


def report_exits(job: Job, pods: Sequence[Pod], reported: frozenset[str]) -> list[Report]:
    """The events about ends that are not reported yet, and the record of all ends."""
    ends = {row[0]: (pod, row[1]) for pod in not_terminating(pods) if (row := _last_end(job, pod))}
    names: dict[int, list[str]] = {}
    for key, (pod, code) in ends.items():
        if key not in reported:
            names.setdefault(code, []).append(f"{pod.metadata.namespace}.{pod.metadata.name}")
    if not names:
        return []
    events = [event for code, rows in names.items() for event in _events(rows, code)]
    return [*events, RecordExits(frozenset(ends))]


def _events(names: Sequence[str], code: int) -> list[EmitEvent]:
    if len(names) <= _MAX_EVENTS:
        return [_event(f"Pod: {name}", code) for name in names]
    listed = f"{', '.join(names[:_MAX_EVENTS])} and {len(names) - _MAX_EVENTS} more"
    return [_event(f"Pods: {listed}", code)]


def _event(subject: str, code: int) -> EmitEvent:
    return EmitEvent("ExitedWithCode", f"{subject} exited with code {code}")


def _last_end(job: Job, pod: Pod) -> tuple[str, int] | None:
    """The last end of the pod's container that trains: which end it is, and the exit code."""
    replica_spec = replica_spec_of(job, pod)
    rows = pod.status.container_statuses
    row = next((r for r in rows if replica_spec and r.name == replica_spec.container), None)
    end = (row.state.terminated or row.last_state.terminated) if row else None
    if row is None or end is None:
        return None
    # A container that runs again is one attempt further.
    further = row.state.terminated is None and not row.waits_for_restart
    return f"{pod.metadata.uid}/{row.restart_count - further}", end.exit_code
