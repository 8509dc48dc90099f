"""Backoff: the delay before the pod of a replica that keeps failing is recreated.

`status.failures` counts the failures of each replica. After the first failure the pod is recreated
at once, then after 10 s, 20 s and so on up to five minutes, like the pods of a batch Job. After ten
minutes without a failure the count starts again. When a whole gang restarts because of a failure,
the failure counts for every replica, so that all of them wait and come back together.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec.structs import replace

from muster.api.meta import timestamp
from muster.jobs.job_status import JobStatus, ReplicaFailures, Waiting
from muster.operator.build.labels import index_of, role_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from muster.api.core import Pod
    from muster.jobs.job import Job, Replica

_FIRST_DELAY, _MAX_DELAY = 10.0, 300.0
_FORGET_AFTER = 600.0
"""Seconds without a failure after which earlier ones do not count."""


def record_failures(job: Job, status: JobStatus, pods: Iterable[Pod], now: datetime) -> JobStatus:
    """The status after these pods failed, without failures that are too old to count."""
    failures = {
        name: row
        for name, row in status.failures.items()
        # The delay itself does not count as time without a failure.
        if _seconds_since(row, now) < _FORGET_AFTER + _delay(row)
    }
    for pod in pods:
        name = f"{role_of(job, pod).lower()}-{index_of(pod)}"
        count = failures[name].count + 1 if name in failures else 1
        failures[name] = ReplicaFailures(count, now.replace(microsecond=0))
    return replace(status, failures=failures)


def seconds_left(status: JobStatus, replica: Replica, now: datetime) -> float:
    """Seconds until this replica's pod may be created; 0 or less: at once."""
    row = _failures_of(status, replica)
    return _delay(row) - _seconds_since(row, now) if row else 0.0


def waiting_for_backoff(
    status: JobStatus, replicas: Iterable[Replica], now: datetime
) -> Waiting | None:
    """The replica that waits longest for its backoff, as the reason why the job waits."""
    delays = {replica: seconds_left(status, replica, now) for replica in replicas}
    last = max(delays, key=lambda replica: delays[replica], default=None)
    row = _failures_of(status, last) if last is not None and delays[last] > 0 else None
    if last is None or row is None:
        return None
    at = timestamp(row.at + timedelta(seconds=_delay(row)))
    message = f"{last.role} {last.index} failed {row.count} times; it is recreated at {at}"
    return Waiting("BackOff", message)


def _failures_of(status: JobStatus, replica: Replica) -> ReplicaFailures | None:
    return status.failures.get(f"{replica.role.lower()}-{replica.index}")


def _delay(row: ReplicaFailures) -> float:
    # The cap on doublings keeps the power finite for any count that a status may hold.
    doublings = min(max(row.count - 2, -1), 10)
    return 0.0 if doublings < 0 else min(_FIRST_DELAY * 2.0**doublings, _MAX_DELAY)


def _seconds_since(row: ReplicaFailures, now: datetime) -> float:
    return (now - row.at).total_seconds()
