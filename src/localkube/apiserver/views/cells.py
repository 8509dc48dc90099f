"""Cells of a table: ages, names, conditions, as kubectl words them.

Cells read objects only through `text`, `number`, `rows`, `words` and `fields`, which give an empty
value for anything missing or of the wrong type. So one odd object is an odd row, and never the end
of its table.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kubekit.objects.meta import read_timestamp
from localkube.apiserver.codec import at

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw

Cell = Callable[["Raw", datetime], Any]
"""The cell of one column: a function of the object and the present time."""
NONE, UNKNOWN, UNSET, INVALID = "<none>", "<unknown>", "<unset>", "<invalid>"


def text(obj: Any, path: str, otherwise: str = "") -> str:
    """The text at a dotted path, or `otherwise`."""
    value = at(obj, path)
    return value if isinstance(value, str) and value else otherwise


def number(obj: Any, path: str) -> int:
    """The number at a dotted path, or 0."""
    value = at(obj, path)
    return value if isinstance(value, int) else 0


def fields(obj: Any, path: str) -> Raw:
    """The map at a dotted path, or an empty one."""
    value = at(obj, path)
    return value if isinstance(value, dict) else {}


def rows(obj: Any, path: str) -> list[Raw]:
    """The maps in the list at a dotted path."""
    return [row for row in _list(obj, path) if isinstance(row, dict)]


def words(obj: Any, path: str) -> list[str]:
    """The texts in the list at a dotted path."""
    return [word for word in _list(obj, path) if isinstance(word, str)]


def _list(obj: Any, path: str) -> list[Any]:
    value = at(obj, path)
    return value if isinstance(value, list) else []


def age(since: str, now: datetime) -> str:
    """`5m`, `3h20m`, `12d`: how long ago, as kubectl words it."""
    if not since:
        return UNKNOWN
    start = read_timestamp(since)
    return INVALID if start is None else duration(int((now - start).total_seconds()))


_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "y": 365 * 86400}
# Spans shorter than this many seconds, with the unit and the smaller unit that kubectl shows.
_SPANS = (
    (120, "s", ""),
    (10 * 60, "m", "s"),
    (180 * 60, "m", ""),
    (8 * 3600, "h", "m"),
    (48 * 3600, "h", ""),
    (8 * 86400, "d", "h"),
    (2 * 365 * 86400, "d", ""),
    (8 * 365 * 86400, "y", "d"),
    (float("inf"), "y", ""),
)


def duration(seconds: int) -> str:
    """A span of time with two units at most."""
    if seconds < -1:  # one second in the future is a clock that is a little off
        return INVALID
    seconds = max(seconds, 0)
    unit, small_unit = next((unit, small) for limit, unit, small in _SPANS if seconds < limit)
    count, rest = divmod(seconds, _SECONDS[unit])
    small = rest // _SECONDS[small_unit] if small_unit else 0
    return f"{count}{unit}{small}{small_unit}" if small else f"{count}{unit}"


def text_at(path: str, otherwise: str = "") -> Cell:
    """The column of the text at a dotted path."""
    return lambda obj, now: text(obj, path, otherwise)


def number_at(path: str) -> Cell:
    """The column of the number at a dotted path."""
    return lambda obj, now: number(obj, path)


def ready_replicas(obj: Raw, now: datetime) -> str:
    """How many replicas of a workload are ready, of how many: `1/2`."""
    return f"{number(obj, 'status.readyReplicas')}/{number(obj, 'spec.replicas')}"


def age_of(obj: Raw, now: datetime) -> str:
    """How long ago an object was created."""
    return age(text(obj, "metadata.creationTimestamp"), now)


NAME = {"Name": text_at("metadata.name")}
AGE = {"Age": age_of}
CREATED_AT = {"Created At": text_at("metadata.creationTimestamp")}


def is_being_deleted(obj: Raw) -> bool:
    """Whether an object is being deleted."""
    return bool(text(obj, "metadata.deletionTimestamp"))


def conditions(obj: Raw, type_: str) -> list[Raw]:
    """The conditions of this type in an object's status."""
    return [c for c in rows(obj, "status.conditions") if text(c, "type") == type_]


def condition_is_true(obj: Raw, type_: str) -> bool:
    """Whether the first condition of this type is true."""
    return any(text(c, "status") == "True" for c in conditions(obj, type_)[:1])


def pairs_at(path: str) -> Cell:
    """The column of the labels, or the selector, at a dotted path."""
    return lambda obj, now: (
        ",".join(f"{k}={v}" for k, v in sorted(fields(obj, path).items())) or NONE
    )
