"""How often anything of a job started anew, for backoffLimit.

Pure. Called by `judge`. `status.restarts` is the whole number: pods that were made anew for the
job's own fault, and containers that nodes started anew. `status.restarted` says of each pod how
many of the latter were counted: each restart counts once, and is not forgotten when its pod goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.operator.build.labels import role_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster.api.core import Pod
    from muster.api.meta import Raw
    from muster.jobs.job import Job

FIELD = "restarted"


def count_in_place(job: Job, current: Raw, pods: Iterable[Pod]) -> tuple[Raw, list[Pod]]:
    """The status after a look at these living pods, and those that restarted since the last one."""
    before: Raw = current.get(FIELD) or {}
    rows = {pod.metadata.name: (pod, count) for pod in pods if (count := _in_place(job, pod))}
    fresh = {name: count - before.get(name, 0) for name, (_, count) in rows.items()}
    grown = [pod for name, (pod, _) in rows.items() if fresh[name] > 0]
    after = {name: value for name, value in current.items() if name != FIELD}
    if rows:
        after[FIELD] = {name: count for name, (_, count) in rows.items()}
    return add_restarts(after, sum(fresh[pod.metadata.name] for pod in grown)), grown


def add_restarts(current: Raw, count: int) -> Raw:
    """The status after so many further restarts."""
    return {**current, "restarts": total_restarts(current) + count} if count else current


def total_restarts(current: Raw) -> int:
    """All restarts that were counted."""
    return int(current.get("restarts") or 0)


def restarts_of_pod(pod: Pod) -> int:
    """How often the node started its containers anew."""
    rows = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return sum(row.restart_count for row in rows)


def backoff_limit_reached(job: Job, current: Raw) -> bool:
    """Whether there were more restarts, in place and by replacement, than the job allows.

    A launcher's limit counts failed attempts after the first, as a batch Job's does.
    """
    limit = job.policy.backoff_limit
    if limit is None:
        return False
    return total_restarts(current) > limit if job.mpi else total_restarts(current) >= max(limit, 1)


def _in_place(job: Job, pod: Pod) -> int:
    replica_spec = job.replica_spec(role_of(job, pod))
    return (
        restarts_of_pod(pod) if replica_spec is not None and replica_spec.restart != "Never" else 0
    )
