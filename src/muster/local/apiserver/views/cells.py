"""The words of a table's cells: ages, names, conditions, as kubectl words them.

Pure; used by `columns.py`, `pod_cells.py` and `tables.py`.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.api.meta import Raw

NONE, UNKNOWN, UNSET = "<none>", "<unknown>", "<unset>"


def age(since: str | None, now: datetime) -> str:
    """`5m`, `3h20m`, `12d`: how long ago, as kubectl words it."""
    if not since:
        return UNKNOWN
    seconds = int((now - datetime.fromisoformat(since)).total_seconds())
    return duration(seconds)


def duration(seconds: int) -> str:
    """A span of time with two units at most."""
    if seconds < -1:
        return "<invalid>"
    seconds = max(seconds, 0)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _pair(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _pair(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    years = days // 365
    return _pair(years, "y", days % 365, "d") if years < 8 else f"{years}y"


def _pair(big: int, unit: str, small: int, small_unit: str) -> str:
    return f"{big}{unit}{small}{small_unit}" if small else f"{big}{unit}"


def name_of(obj: Raw) -> str:
    """The first cell."""
    return str(obj["metadata"]["name"])


def age_of(obj: Raw, now: datetime) -> str:
    """How long an object has been there."""
    return age(obj["metadata"].get("creationTimestamp"), now)


def condition(status: Raw, type_: str) -> Raw:
    """The condition of this type, or nothing."""
    found = (c for c in status.get("conditions") or () if c.get("type") == type_)
    return next(found, {})
