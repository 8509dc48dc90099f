"""The replicas of a succeeded job that had failed, kept restarting or still trained by then.

A TFJob succeeds with its chief or worker 0, a PyTorchJob with its master, an MPIJob with its
launcher, whatever the others do. The pods of the others are deleted soon, so the message of the
job's Succeeded condition names those that had failed. Workers that train on are stopped some
seconds later. Their work is lost, so the status and an event name them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from muster.jobs import pod_status
from muster.jobs.job_state import crash_of, in_words, times
from muster.jobs.job_status import StoppedPods
from muster.operator.action_types import EmitEvent
from muster.operator.build.labels import index_of, role_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubekit.objects.core import Pod
    from muster.jobs.job import Job, Replica
    from muster.jobs.job_status import JobStatus

_FEW = 2
"""A replica that runs again is named after this many failures: after one it just took longer."""
_MAX_NAMES = 100
"""Names in the status."""
_MAX_WORDS = 3
"""Names in the sentence."""


def unfinished(job: Job, status: JobStatus, pods: Sequence[Pod], wanted: Sequence[Replica]) -> str:
    """The first replica that had not finished, how it failed, and how many others had not either.

    Empty if every replica had succeeded or was simply still running.
    """
    present = {pod.metadata.name: pod for pod in pods}
    rows = ((r, _failure(status, r, present.get(r.name))) for r in wanted)
    failed = [(replica, text) for replica, text in rows if text]
    if not failed:
        return ""
    (first, text), others = failed[0], len(failed) - 1
    name = in_words(first.role.lower(), first.index, first.name)
    more = f"; {others} other {'replica' if others == 1 else 'replicas'} failed too" * bool(others)
    return f"When the job succeeded, {name} {text}{more}{_remedy(job, first.role)}."


def _failure(status: JobStatus, replica: Replica, pod: Pod | None) -> str:
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
    if row is None or not row.ending or (runs and row.count < _FEW):
        return ""
    return f"{state}: it failed {times(row.count)}; the last time it {row.ending}"


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
    return replace(status, stopped=StoppedPods(pod_names, _sentence(job, rows), count))


def event_of_stopped(before: JobStatus, after: JobStatus) -> list[EmitEvent]:
    if after.stopped is None or before.stopped == after.stopped:
        return []
    return [EmitEvent("ReplicasStopped", after.stopped.message)]


def _sentence(job: Job, pods: Sequence[Pod]) -> str:
    words = [in_words(role_of(job, p).lower(), index_of(p), p.metadata.name) for p in pods]
    if len(words) > _MAX_WORDS:
        words = [*words[: _MAX_WORDS - 1], f"{len(words) - _MAX_WORDS + 1} others"]
    subject = " and ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)
    subject = f"{subject[0].upper()}{subject[1:]} {'were' if words[1:] else 'was'} stopped"
    cause = f"because the job had succeeded{_deciding_replica(job)}"
    return f"{subject} {cause}{_remedy(job, role_of(job, pods[0]))}."


def _deciding_replica(job: Job) -> str:
    """The replica whose end was the job's; empty if it could be any."""
    role, index = job.chief or (job.chief_role or "Worker", 0)
    if role == "Worker" and job.kind != "TFJob":
        return ""  # an elastic PyTorchJob succeeds with any worker
    replica = f"worker {index}" if role == "Worker" else f"the {role.lower()}"
    return f" ({replica} had ended)"
