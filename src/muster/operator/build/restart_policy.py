"""Which pods a node restarts in place, and how many restarts the job has left.

A node restarts a container that failed for the first time at once, before the operator sees the
failure. If that failure is the last one that backoffLimit allows, the next attempt must not start.
So the pod gets the policy Never: it fails, and the operator fails the job. After later failures the
node waits for ten seconds or more, and the operator ends the job meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.jobs.job import Job, ReplicaSpec
    from muster.jobs.job_status import JobStatus


def restarts_left(job: Job, status: JobStatus) -> int | None:
    """How many restarts remain until the job fails; 0 or less: none. None without a limit.

    In training-operator the restart that reaches the limit fails the job, and a limit of 0 allows
    none, as 1 does. A batch Job, such as mpi-operator's launcher, may restart as often as its limit
    says; so may a launcher that is not restarted in place, which training-operator never retries.
    """
    limit = job.policy.backoff_limit
    if limit is None:
        return None
    return (limit + 1 if _retries_as_batch_job(job) else max(limit, 1)) - status.restarts


def _retries_as_batch_job(job: Job) -> bool:
    launcher = job.replica_spec("Launcher")
    if job.mpi is None or launcher is None:
        return False
    return job.mpi.launcher_is_job or launcher.restart == "Never"


def pod_restart_policy(job: Job, replica_spec: ReplicaSpec) -> str:
    """The restartPolicy of a new pod."""
    policy = replica_spec.restart
    if policy == "ExitCode":
        return "Never"  # Muster itself decides about exit codes
    left = restarts_left(job, job.status)
    # A pod with several containers fails only when all have ended, which may be much later.
    alone = len(replica_spec.spec["containers"]) == 1
    if policy == "OnFailure" and alone and left is not None and left <= 1:
        return "Never"
    return policy
