"""Restarts of a job: how many it may have, when, and with which pods; and its deadlines.

`status.restarts` counts all restarts, for backoffLimit: pods that were recreated because the
training failed, and containers that nodes restarted in place or restart after a back-off.
`status.restarted` records per pod how many restarts in place are included, so that each restart
counts once and still counts when its pod is gone. `status.earlierRestarts` counts, for people, the
restarts of each replica that its present pod does not show.

Backoff: `status.failures` counts the failures of each replica. After the first failure the pod is
recreated at once, then after 10 s, 20 s and so on up to five minutes, like the pods of a batch Job.
After ten minutes without a failure the count starts again. When a whole gang restarts because of a
failure, the failure counts for every replica, so that all of them wait and come back together.

Replicas that restart together (`muster.dev/restart: gang`): `status.whole` records how many
replicas of each role ran when all of them ran. From then on the gang breaks if a replica is lost
(deleted, evicted, preempted) or if its training restarts in place. The record is cleared when the
gang is deleted for a restart, so that our own deletions do not break it again: until the gang has
run complete once more, missing pods are simply recreated. An MPI launcher restarts with the workers
if one of them failed or is lost, but its own failure or loss breaks no gang.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from kubekit.objects import meta
from kubekit.objects.annotation_values import read_integer
from muster.contract.gang import RESTART_ANNOTATION, RESTART_SCOPES
from muster.jobs import names, pod_status
from muster.jobs.job_sentences import (
    REPLICA_GONE,
    RESTARTED_IN_PLACE,
    failed_of_late,
    replica_in_words,
)
from muster.jobs.job_status import BACKOFF, Ending, JobRestart, JobStatus, ReplicaFailures, Waiting
from muster.operator.build.labels import index_of, replica_spec_of, role_of
from muster.operator.build.pods import restarts_left

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from kubekit.objects.core import Pod
    from muster.jobs.job import Job, Replica
    from muster.operator.decision_types import Settings

_CUT_OFF = 1
"""The start of a job is stored in whole seconds, so up to one second before it really started: a
deadline waits for that second too, and never ends a job early."""
_FIRST_DELAY, _MAX_DELAY = 10.0, 300.0
_FORGET_AFTER = 600.0
"""Seconds without a failure after which earlier ones do not count."""


def with_default_scope(job: Job, settings: Settings) -> Job:
    """The job; its replicas restart together by default if the administrator chose that."""
    says = job.annotation("restart") in RESTART_SCOPES
    if says or settings.restart != "gang" or not job.dies_together:
        return job
    return replace(job, annotations={**job.annotations, RESTART_ANNOTATION: "gang"})


def count_in_place(job: Job, status: JobStatus, pods: Iterable[Pod]) -> tuple[JobStatus, list[Pod]]:
    """The status with the restarts of these living pods, and the pods with new restarts.

    Replicas that restart together and are seen to restart at the same time count as one.
    """
    counts = {pod.metadata.name: (pod, n) for pod in pods if (n := _counted_restarts(job, pod))}
    new = {name: n - status.in_place_restarts.get(name, 0) for name, (_, n) in counts.items()}
    restarted = [pod for name, (pod, _) in counts.items() if new[name] > 0]
    # Only living pods are remembered, so that the status does not grow with every replacement.
    earlier = Counter(status.earlier_restarts)
    for name, count in status.in_place_restarts.items():
        if name not in counts:
            earlier[names.replica_key(job.name, name)] += count
    status = replace(status, earlier_restarts=dict(earlier))
    status = replace(status, in_place_restarts={name: n for name, (_, n) in counts.items()})
    together = [pod for pod in restarted if role_of(job, pod) in job.restarts_together]
    alone = [pod for pod in restarted if role_of(job, pod) not in job.restarts_together]
    count = max((new[pod.metadata.name] for pod in together), default=0)
    return add_restarts(status, count + sum(new[p.metadata.name] for p in alone)), restarted


def add_restarts(status: JobStatus, count: int) -> JobStatus:
    return replace(status, restarts=status.restarts + count) if count else status


def count_earlier(job: Job, status: JobStatus, replaced: Iterable[Pod]) -> JobStatus:
    """The status with the replacement of these pods; `count_in_place` adds their own restarts."""
    counts = dict(status.earlier_restarts)
    for pod in replaced:
        name = f"{role_of(job, pod).lower()}-{index_of(pod)}"
        counts[name] = counts.get(name, 0) + 1
    return replace(status, earlier_restarts=counts)


def restarts_of_pod(pod: Pod) -> int:
    """How often the node restarted the pod's containers, with those that wait for a restart."""
    rows = pod.status.all_container_statuses
    # The next restart counts before the node starts it, so that no attempt beyond the limit starts.
    return sum(row.restart_count + row.waits_for_restart for row in rows)


def waits_for_restart(pod: Pod) -> bool:
    """Whether the node waits before it restarts a container of this pod."""
    return any(row.waits_for_restart for row in pod.status.all_container_statuses)


def backoff_limit_reached(job: Job, status: JobStatus) -> bool:
    """Whether the restarts, in place and by replacement, use up what the job allows."""
    left = restarts_left(job, status)
    return left is not None and left <= 0


def seconds_to_deadline(job: Job, status: JobStatus, now: datetime) -> float | None:
    """Seconds that the job may still be active; None if it has no deadline."""
    if job.policy.active_deadline is None or status.start_time is None:
        return None
    return job.policy.active_deadline + _CUT_OFF - (now - status.start_time).total_seconds()


def seconds_to_start(job: Job, status: JobStatus, now: datetime) -> float | None:
    """Seconds in which the job must start to run; None if it runs already or has no deadline."""
    limit = read_integer(job.annotations.get(names.STARTING_DEADLINE, ""))
    start = status.start_time
    if start is None or limit is None:
        return None
    running = status.condition("Running")
    since = running.transitioned_at if running else None
    if since is not None and since >= start:  # An older time is from before a suspension.
        return None
    return limit + _CUT_OFF - (now - start).total_seconds()


def seconds_to_deadlines(job: Job, status: JobStatus, now: datetime) -> list[float]:
    """Seconds to each deadline that is to come."""
    both = (seconds_to_deadline(job, status, now), seconds_to_start(job, status, now))
    return [left for left in both if left is not None and left > 0]


def _counted_restarts(job: Job, pod: Pod) -> int:
    replica_spec = replica_spec_of(job, pod)
    if replica_spec is None or replica_spec.restart == "Never":
        return 0
    return restarts_of_pod(pod)


class GangBreak(NamedTuple):
    cause: JobRestart
    failed: Pod | None = None
    """The pod in which the training failed; None if the cluster took a pod away."""


def breaks_gang(job: Job, role: str) -> bool:
    """Whether the failure or loss of a replica of this role restarts others too."""
    return role in job.restarts_together and role != "Launcher"


def record_running_gang(
    job: Job, status: JobStatus, wanted: Sequence[Replica], pods: Sequence[Pod]
) -> JobStatus:
    """The status with the sizes of the gang when it last ran complete, capped by its spec."""
    members = [replica for replica in wanted if breaks_gang(job, replica.role)]
    if not members:
        return replace(status, gang_sizes={})
    roles = Counter(replica.role for replica in members)
    phases = {pod.metadata.name: pod.status.phase for pod in pods}
    if all(phases.get(replica.name) in ("Running", "Succeeded") for replica in members):
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
    if not status.gang_sizes:
        return None
    present = {pod.metadata.name for pod in pods}
    for replica in wanted:
        # A replica beyond the recorded size is new: the job was scaled up.
        was_running = replica.index < status.gang_sizes.get(replica.role, 0)
        if was_running and replica.name not in present:
            gone = Ending(replica.name, replica.role.lower(), replica.index)
            return GangBreak(JobRestart(REPLICA_GONE, gone))
    crashed = [pod for pod in restarted if _training_restarted(job, pod)]
    if not crashed:
        return None
    first = pod_status.first_failed(crashed)
    ending = pod_status.brief(pod_status.ending_of(first))
    return GangBreak(JobRestart(RESTARTED_IN_PLACE, ending), first)


def _training_restarted(job: Job, pod: Pod) -> bool:
    """Whether the container that trains restarted, rather than a sidecar or init container."""
    if not breaks_gang(job, role_of(job, pod)):
        return False
    replica_spec = replica_spec_of(job, pod)
    main = replica_spec.container if replica_spec else ""
    return any(row.name == main and row.restart_count for row in pod.status.container_statuses)


def record_failures(
    job: Job,
    status: JobStatus,
    delayed: Iterable[Pod],
    failed: Iterable[Pod],
    now: datetime,
) -> JobStatus:
    """The status after some pods failed, without failures that are too old to count.

    `delayed` are the pods that wait for it: those that failed, or all pods of their gang. Only
    `failed` are to blame.
    """
    culprits = {pod.metadata.uid for pod in failed}
    failures = {
        name: row
        for name, row in status.failures.items()
        # The delay itself does not count as time without a failure.
        if (now - row.at).total_seconds() < _FORGET_AFTER + _delay(row)
    }
    for pod in delayed:
        name = f"{role_of(job, pod).lower()}-{index_of(pod)}"
        count = failures[name].count + 1 if name in failures else 1
        is_culprit = pod.metadata.uid in culprits
        last = pod_status.brief(pod_status.ending_of(pod)) if is_culprit else None
        failures[name] = ReplicaFailures(count, now.replace(microsecond=0), last)
    return replace(status, failures=failures)


def seconds_left(status: JobStatus, replica: Replica, now: datetime) -> float:
    """Seconds until this replica's pod may be created; 0 or less: at once."""
    row = status.failures.get(_name(replica))
    return meta.seconds_left(row.at, _delay(row), now) if row else 0.0


def waiting_for_backoff(
    job: Job, status: JobStatus, replicas: Iterable[Replica], now: datetime
) -> Waiting | None:
    """The reason why these replicas are not recreated yet: how the last of them failed, and when.

    Of a gang that restarts as a whole only the replica that failed is to blame.
    """
    waiting = [replica for replica in replicas if seconds_left(status, replica, now) > 0]
    if not waiting:
        return None
    rows = {replica: status.failures[_name(replica)] for replica in waiting}
    last = max(waiting, key=lambda r: (rows[r].last is not None, seconds_left(status, r, now)))
    row = rows[last]
    until = meta.shifted(row.at, _delay(row))
    as_gang = any(breaks_gang(job, replica.role) for replica in waiting)
    if as_gang:
        until = max(meta.shifted(r.at, _delay(r)) for r in rows.values())
    name = replica_in_words(last.role.lower(), last.index, last.name)
    return Waiting(BACKOFF, failed_of_late(name, row, with_gang=as_gang), until)


def _name(replica: Replica) -> str:
    return f"{replica.role.lower()}-{replica.index}"


def _delay(row: ReplicaFailures) -> float:
    # The cap on doublings keeps the power finite for any count that a status may hold.
    doublings = min(max(row.count - 2, -1), 10)
    return 0.0 if doublings < 0 else min(_FIRST_DELAY * 2.0**doublings, _MAX_DELAY)
