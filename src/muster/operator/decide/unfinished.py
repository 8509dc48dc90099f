"""The replicas of a succeeded job that had failed or kept restarting when it succeeded.

A TFJob succeeds with its chief or worker 0, a PyTorchJob with its master, an MPIJob with its
launcher, whatever the others do. The pods of the others are deleted soon, so the message of the
job's Succeeded condition names them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.jobs import pod_status
from muster.jobs.job_state import crash_of, in_words, times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.api.core import Pod
    from muster.jobs.job import Job, Replica
    from muster.jobs.job_status import JobStatus

_FEW = 2
"""A replica that runs again is named after this many failures: after one it just took longer."""


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
    return f"When the job succeeded, {name} {text}{more}{_remedy(job, first)}."


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


def _remedy(job: Job, replica: Replica) -> str:
    if job.kind != "TFJob" or replica.role != "Worker" or job.success_policy == "AllWorkers":
        return ""
    return "; --success-policy=AllWorkers waits for all workers"
