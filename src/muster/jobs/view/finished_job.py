"""A finished job: how its replicas ended, and which of its pods are left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.jobs.job_state import crash_of
from muster.jobs.pod_status import any_running
from muster.jobs.view.units import named_or_counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubekit.objects.core import Pod
    from muster.jobs.job import Job
    from muster.jobs.job_status import JobStatus


def replica_ends(job: Job | None, status: JobStatus, pods: Sequence[Pod]) -> dict[str, int]:
    """How the replicas of a finished job ended; complete once no pod of a succeeded job runs."""
    deleted = (pod.metadata.deletion_timestamp for pod in pods if pod.status.phase == "Running")
    rows = status.counts.values()
    counts = {
        "succeeded": sum(row.succeeded for row in rows),
        "failed": sum(row.failed for row in rows),
    }
    if status.outcome != "Succeeded" or not rows or None in deleted or any(r.active for r in rows):
        return counts
    rest = max(0, (job.total if job is not None else 0) - sum(counts.values()))
    stopped = min(rest, status.stopped.total if status.stopped else 0)
    return counts | {"stopped": stopped, "not finished": rest - stopped}


def is_settling(job: Job | None, status: JobStatus) -> bool:
    """Whether other replicas of a succeeded job may still end by themselves, or are stopped."""
    # With the policy None, the pods run on.
    stops = job is not None and job.policy.clean_pod_policy != "None"
    return stops and any(row.active for row in status.counts.values())


def left_pods(job: Job | None, pods: Sequence[Pod]) -> str:
    """The pods that nodes still run or restart, and why; empty if none."""
    # With the policies Running and All, the operator deletes such pods.
    if job is None or job.policy.clean_pod_policy != "None":
        return ""
    crashing = [pod.metadata.name for pod in pods if crash_of(pod) is not None]
    running = [
        pod.metadata.name
        for pod in pods
        if any_running([pod]) and pod.metadata.name not in crashing
    ]
    clauses = []
    if crashing:
        be = "is" if len(crashing) == 1 else "are"
        clauses.append(
            f"{named_or_counted(crashing, 'pod')} {be} still restarted after every failure"
        )
    if running:
        rest = "runs and holds its room" if len(running) == 1 else "run and hold their room"
        clauses.append(f"{named_or_counted(running, 'pod')} still {rest}")
    if not clauses:
        return ""
    return (
        f"{' and '.join(clauses)}, because the job's cleanPodPolicy is None; "
        f"`arena delete {job.name}` ends that"
    )
