"""Jobs whose gang restarts as one (`muster.dev/restart: gang`): is it still the gang that ran?

Pure. Called by `judge`. `status.whole` keeps how many of each role ran when all of them did. From
then on the gang breaks if one of those is lost (deleted, evicted, preempted) or its training starts
anew in place. The record goes when the gang is taken down, so that what we take away ourselves
breaks nothing: until the gang has been whole again, whoever is missing is only made anew.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from muster.operator.build.labels import index_of, role_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.api.core import Pod
    from muster.api.meta import Raw
    from muster.jobs.job import Job, Replica

FIELD = "whole"


class GangBreak(NamedTuple):
    why: str
    """In a clause."""
    failed: bool
    """Whether the training failed, and not the cluster took something away."""


def restarts_as_gang(job: Job) -> bool:
    """Whether the job's gang restarts as one; not if nobody knows how to make it again."""
    return job.annotation("restart") == "gang" and not job.from_pods


def record_running_gang(
    job: Job, current: Raw, wanted: Sequence[Replica], there: Sequence[Pod]
) -> Raw:
    """The status with the gang as it last ran, or the part of that which is still wanted."""
    sizes = _sizes(current, wanted, there) if restarts_as_gang(job) else {}
    rest = {name: value for name, value in current.items() if name != FIELD}
    return {**rest, FIELD: sizes} if sizes else rest


def find_break(
    job: Job, current: Raw, wanted: Sequence[Replica], there: Sequence[Pod], grown: Sequence[Pod]
) -> GangBreak | None:
    """Why the gang must restart; None if it is whole, or has never been.

    `there` are its pods that stay, `grown` those with a container that started anew in place.
    """
    sizes: Raw = current.get(FIELD) or {}
    if not restarts_as_gang(job) or not sizes:
        return None
    present = {pod.metadata.name for pod in there}
    for replica in wanted:
        if replica.name not in present and replica.index < sizes.get(replica.role, 0):
            return GangBreak(f"{replica.role} {replica.index} is gone", failed=False)
    for pod in grown:
        if _trained_anew(job, pod):
            return GangBreak(f"{role_of(job, pod)} {index_of(pod)} started anew", failed=True)
    return None


def _sizes(current: Raw, wanted: Sequence[Replica], there: Sequence[Pod]) -> Raw:
    roles = Counter(replica.role for replica in wanted)
    up = {p.metadata.name for p in there if p.status.phase in ("Running", "Succeeded")}
    if all(replica.name in up for replica in wanted):
        return dict(roles)
    before: Raw = current.get(FIELD) or {}
    return {role: min(size, roles[role]) for role, size in before.items() if roles[role]}


def _trained_anew(job: Job, pod: Pod) -> bool:
    """Whether it was the container that trains, and not one beside it or before it."""
    replica_spec = job.replica_spec(role_of(job, pod))
    main = replica_spec.container if replica_spec else ""
    return any(row.name == main and row.restart_count for row in pod.status.container_statuses)
