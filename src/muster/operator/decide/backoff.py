"""Backoff: the delay before the pod of a replica that keeps failing is recreated.

`status.failures` counts the failures of each replica. After the first failure the pod is recreated
at once, then after 10 s, 20 s and so on up to five minutes, like the pods of a batch Job. After ten
minutes without a failure the count starts again. When a whole gang restarts because of a failure,
the failure counts for every replica, so that all of them wait and come back together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubekit.objects import meta
from muster.jobs import pod_status
from muster.jobs.job_state import in_words
from muster.jobs.job_status import BACKOFF, JobStatus, ReplicaFailures, Waiting
from muster.operator.build.labels import index_of, role_of
from muster.operator.decide.gang_restart import restarts_as_gang

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from kubekit.objects.core import Pod
    from muster.jobs.job import Job, Replica

_FIRST_DELAY, _MAX_DELAY = 10.0, 300.0
_FORGET_AFTER = 600.0
"""Seconds without a failure after which earlier ones do not count."""


def record_failures(
    job: Job,
    status: JobStatus,
    delayed: Iterable[Pod],
    failed: Iterable[Pod],
    now: datetime,
) -> JobStatus:
    """The status after some pods failed, without failures that are too old to count.

    `delayed` are the pods that wait for it: those that failed, or all pods of their gang.
    """
    culprits = {pod.metadata.uid for pod in failed}
    failures = {
        name: row
        for name, row in status.failures.items()
        # The delay itself does not count as time without a failure.
        if _seconds_since(row, now) < _FORGET_AFTER + _delay(row)
    }
    for pod in delayed:
        name = f"{role_of(job, pod).lower()}-{index_of(pod)}"
        count = failures[name].count + 1 if name in failures else 1
        ending = pod_status.failure(pod) if pod.metadata.uid in culprits else ""
        failures[name] = ReplicaFailures(count, now.replace(microsecond=0), ending)
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
    last = max(waiting, key=lambda r: (bool(rows[r].ending), seconds_left(status, r, now)))
    row = rows[last]
    until = meta.shifted(row.at, _delay(row))
    name = in_words(last.role.lower(), last.index, last.name)
    if restarts_as_gang(job):
        until = max(meta.shifted(r.at, _delay(r)) for r in rows.values())
        message = f"the gang failed {row.count} times; the last time {name} {row.ending}"
    else:
        message = f"{name} failed {row.count} times; the last time it {row.ending}"
    return Waiting(BACKOFF, message if row.ending else message.partition(";")[0], until)


def _name(replica: Replica) -> str:
    return f"{replica.role.lower()}-{replica.index}"


def _delay(row: ReplicaFailures) -> float:
    # The cap on doublings keeps the power finite for any count that a status may hold.
    doublings = min(max(row.count - 2, -1), 10)
    return 0.0 if doublings < 0 else min(_FIRST_DELAY * 2.0**doublings, _MAX_DELAY)


def _seconds_since(row: ReplicaFailures, now: datetime) -> float:
    return (now - row.at).total_seconds()
