"""What a failed pod means for its job: replace it, retry it, or give up.

Pure. Called by `judge`. A pod that the cluster took away (evicted, its node lost or shut down,
refused by the kubelet before any container started) was not the job's fault: it is replaced
whatever its restart policy, and does not count against backoffLimit.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from muster.api.meta import is_true

if TYPE_CHECKING:
    from muster.api.core import ContainerStatus, Pod
    from muster.jobs.job import Job, Replica

_TAKEN = (
    "Evicted",
    "NodeLost",
    "NodeShutdown",
    "Shutdown",
    "Terminated",
    "Preempting",
    "Preempted",
)
_REFUSED = ("NodeAffinity", "UnexpectedAdmissionError", "NodePorts", "TopologyAffinityError")


class Fate(Enum):
    REPLACE = "replace"
    """The cluster's doing: a new one, uncounted."""
    RETRY = "retry"
    """The job's doing, and its policy allows another try."""
    FATAL = "fatal"
    """The job fails."""
    IGNORED = "ignored"
    """The job goes on without it."""


def fate(job: Job, replica: Replica, pod: Pod) -> Fate:
    """What is to become of a pod in phase Failed."""
    if taken(pod):
        return Fate.REPLACE
    if replica.restart in ("OnFailure", "Always"):
        return Fate.RETRY
    if replica.restart == "ExitCode" and retryable(exit_code(pod, replica.container)):
        return Fate.RETRY
    if replica.role == "Launcher" and job.policy.backoff_limit is not None:
        return Fate.RETRY
    if job.dynamic_workers and replica.role == "Worker":
        return Fate.IGNORED
    return Fate.FATAL


def taken(pod: Pod) -> bool:
    """Whether the cluster, and not the training, ended this pod."""
    if is_true(pod.status.conditions, "DisruptionTarget") or pod.status.reason in _TAKEN:
        return True
    refused = pod.status.reason in _REFUSED or pod.status.reason.startswith("OutOf")
    return refused and not _ever_started(pod)


def _ever_started(pod: Pod) -> bool:
    rows = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return any(_started(row) for row in rows)


def _started(row: ContainerStatus) -> bool:
    states = (row.state, row.last_state)
    return any(s.running is not None or s.terminated is not None for s in states)


def exit_code(pod: Pod, container: str) -> int | None:
    """The exit code of the container that trains, if it is known."""
    for row in pod.status.container_statuses:
        if row.name == container and row.state.terminated is not None:
            return row.state.terminated.exit_code
    return None


def retryable(code: int | None) -> bool:
    """Codes from 128 say that a signal ended it; with no code at all nothing says otherwise."""
    return code is None or code >= 128


def restarts(pod: Pod) -> int:
    """How often the node started its containers anew."""
    rows = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return sum(row.restart_count for row in rows)


def exhausted(job: Job, restarted: int) -> bool:
    """Whether so many restarts, in place and by replacement, are more than the job allows.

    A launcher's limit counts failed attempts after the first, as a batch Job's does.
    """
    limit = job.policy.backoff_limit
    if limit is None:
        return False
    return restarted > limit if job.mpi else restarted >= max(limit, 1)
