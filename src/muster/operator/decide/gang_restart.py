"""Jobs whose gang restarts as one (`muster.dev/restart: gang`): does the gang still run complete?

`status.whole` records how many replicas of each role ran when all of them did. From then on the
gang breaks if one of those is lost (deleted, evicted, preempted) or if its training restarts in
place. The record is cleared when the gang is taken down, so that our own deletions do not break it
again: until the gang has run complete once more, missing pods are simply recreated.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from muster.operator.build.labels import index_of, replica_spec_of, role_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.api.core import Pod
    from muster.jobs.job import Job, Replica
    from muster.jobs.job_status import JobStatus


class GangBreak(NamedTuple):
    cause: str
    """In a clause."""
    failed: bool
    """Whether the training failed, rather than the cluster taking a pod away."""


def restarts_as_gang(job: Job) -> bool:
    """Whether the gang restarts as one; not if its pods could not be recreated."""
    return job.annotation("restart") == "gang" and not job.from_pods


def record_running_gang(
    job: Job, status: JobStatus, wanted: Sequence[Replica], pods: Sequence[Pod]
) -> JobStatus:
    """The status with the sizes of the gang as it last ran, as far as they are still wanted."""
    sizes = _sizes(status, wanted, pods) if restarts_as_gang(job) else {}
    return replace(status, gang_sizes=sizes)


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
    for one in wanted:
        if one.name not in present and one.index < status.gang_sizes.get(one.role, 0):
            return GangBreak(f"{one.role} {one.index} is gone", failed=False)
    for pod in restarted:
        if _training_restarted(job, pod):
            return GangBreak(f"{role_of(job, pod)} {index_of(pod)} restarted", failed=True)
    return None


def _sizes(status: JobStatus, wanted: Sequence[Replica], pods: Sequence[Pod]) -> dict[str, int]:
    roles = Counter(replica.role for replica in wanted)
    started = {p.metadata.name for p in pods if p.status.phase in ("Running", "Succeeded")}
    if all(replica.name in started for replica in wanted):
        return dict(roles)
    before = status.gang_sizes.items()
    return {role: min(size, roles[role]) for role, size in before if roles[role]}


def _training_restarted(job: Job, pod: Pod) -> bool:
    """Whether the container that trains restarted, and not one beside it or before it."""
    replica_spec = replica_spec_of(job, pod)
    main = replica_spec.container if replica_spec else ""
    return any(row.name == main and row.restart_count for row in pod.status.container_statuses)
