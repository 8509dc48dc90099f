"""How long a member that keeps failing waits before it is made anew.

Pure. `judge` notes every failure in `status.failures`, `ensure` asks when a member may come back.
The first time is at once, then after 10 s, 20 s and so on up to five minutes, as a batch Job does
it. Whoever went well for ten minutes begins anew.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from muster.api.meta import timestamp
from muster.operator.build.labels import index_of, role_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster.api.core import Pod
    from muster.api.meta import Raw
    from muster.jobs.job import Job, Replica

FIELD = "failures"
_FIRST, _LONGEST = 10.0, 300.0
_WELL = 600.0
"""Seconds without a failure after which all is forgiven."""


def record_failures(job: Job, current: Raw, failed: Iterable[Pod], now: datetime) -> Raw:
    """The status after the failure of these; what was forgiven is forgotten."""
    before: Raw = current.get(FIELD) or {}
    rows = {name: row for name, row in before.items() if _ago(row, now) < _WELL + _pause(row)}
    for pod in failed:
        name = f"{role_of(job, pod).lower()}-{index_of(pod)}"
        count = rows[name]["count"] + 1 if name in rows else 1
        rows[name] = {"count": count, "at": timestamp(now)}
    rest = {name: value for name, value in current.items() if name != FIELD}
    return {**rest, FIELD: rows} if rows else rest


def seconds_left(current: Raw, replica: Replica, now: datetime) -> float:
    """Seconds until this member may be made; none or less: now."""
    row = (current.get(FIELD) or {}).get(f"{replica.role.lower()}-{replica.index}")
    return _pause(row) - _ago(row, now) if row else 0.0


def reason(current: Raw, wanted: Iterable[Replica], now: datetime) -> Raw | None:
    """Why some of these are not there yet, for `status.waiting`."""
    times = {replica: seconds_left(current, replica, now) for replica in wanted}
    late = [replica for replica, seconds in times.items() if seconds > 0]
    if not late:
        return None
    last = max(late, key=lambda replica: times[replica])
    row = current[FIELD][f"{last.role.lower()}-{last.index}"]
    at = timestamp(datetime.fromisoformat(row["at"]) + timedelta(seconds=_pause(row)))
    message = f"{last.role} {last.index} failed {row['count']} times; it comes back at {at}"
    return {"reason": "BackOff", "message": message}


def is_readable(value: object) -> bool:
    """Whether it is what we write into the status."""
    return isinstance(value, dict) and all(_is_row(row) for row in value.values())


def _is_row(row: object) -> bool:
    if not isinstance(row, dict) or not isinstance(row.get("count"), int):
        return False
    try:
        return datetime.fromisoformat(str(row.get("at"))).tzinfo is not None
    except ValueError:
        return False


def _pause(row: Raw) -> float:
    again = min(max(int(row["count"]) - 2, -1), 10)
    return 0.0 if again < 0 else min(_FIRST * 2.0**again, _LONGEST)


def _ago(row: Raw, now: datetime) -> float:
    return (now - datetime.fromisoformat(row["at"])).total_seconds()
