"""Jobs whose gang restarts as a whole (`muster.dev/restart: gang`): is the gang still complete?

`status.whole` records how many replicas of each role ran when all of them ran. From then on the
gang breaks if a replica is lost (deleted, evicted, preempted) or if its training restarts in place.
The record is cleared when the gang is deleted for a restart, so that our own deletions do not break
it again: until the gang has run complete once more, missing pods are simply recreated.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from muster.jobs import pod_status
from muster.operator.build.labels import index_of, replica_spec_of, role_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubekit.objects.core import Pod
    from muster.jobs.job import Job, Replica
    from muster.jobs.job_status import JobStatus


class GangBreak(NamedTuple):
    cause: str
    """A clause, as in "because worker 1 is gone"."""
    failed: Pod | None = None
    """The pod in which the training failed; None if the cluster took a pod away."""


def restarts_as_gang(job: Job) -> bool:
    """Whether the gang restarts as a whole; not if its pods could not be recreated."""
    return job.annotation("restart") == "gang" and not job.from_pods


def record_running_gang(
    job: Job, status: JobStatus, wanted: Sequence[Replica], pods: Sequence[Pod]
) -> JobStatus:
    """The status with the sizes of the gang when it last ran complete, capped by its spec."""
    if not restarts_as_gang(job):
        return replace(status, gang_sizes={})
    roles = Counter(replica.role for replica in wanted)
    phases = {pod.metadata.name: pod.status.phase for pod in pods}
    if all(phases.get(replica.name) in ("Running", "Succeeded") for replica in wanted):
        return replace(status, gang_sizes=dict(roles))
    sizes = {role: min(size, roles[role]) for role, size in status.gang_sizes.items()}
    return replace(status, gang_sizes={role: size for role, size in sizes.items() if size})


def find_break(
    job: Job,
    status: JobStatus,
    wanted: Sequence[Replica],
    pods: Sequence[Pod],
    restarted: Sequence[Pod],
) -> GangBreak | None:
    """Why the gang must restart; None if it is complete, or never was.

    `pods` are its pods that stay, `restarted` those with a container that restarted in place.
    """
    if not restarts_as_gang(job) or not status.gang_sizes:
        return None
    present = {pod.metadata.name for pod in pods}
    for replica in wanted:
        # A replica beyond the recorded size is new: the job was scaled up.
        was_running = replica.index < status.gang_sizes.get(replica.role, 0)
        if was_running and replica.name not in present:
            return GangBreak(f"{replica.role} {replica.index} is gone")
    for pod in restarted:
        if _training_restarted(job, pod):
            cause = f"{role_of(job, pod)} {index_of(pod)} restarted after it"
            return GangBreak(f"{cause} {pod_status.failure(pod)}", pod)
    return None


def _training_restarted(job: Job, pod: Pod) -> bool:
    """Whether the container that trains restarted, rather than a sidecar or init container."""
    replica_spec = replica_spec_of(job, pod)
    main = replica_spec.container if replica_spec else ""
    return any(row.name == main and row.restart_count for row in pod.status.container_statuses)
