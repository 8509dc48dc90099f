"""Ages, durations, amounts and moments as people read them."""

from __future__ import annotations

import math
import re
from collections import Counter
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

UNKNOWN = "N/A"
MAX_NAMES = 3
_MAX_COUNTS = 8
_SPLIT = re.compile(r"([0-9]+)")
_SECONDS = ((60, 1, "s"), (3600, 60, "m"), (86400, 3600, "h"), (31536000, 86400, "d"))
"""The units: the duration up to which each is used, its length and its letter."""


def age(since: datetime | None, now: datetime | None = None) -> str:
    """Time since a moment, in one unit: 5s, 3m, 2h, 4d, 1y; N/A when the moment is not known."""
    if since is None:
        return UNKNOWN
    return duration(((now or datetime.now(UTC)) - since).total_seconds())


def duration(seconds: float) -> str:
    """A duration in one unit, rounded down, as arena writes it."""
    whole = max(0, int(seconds))
    for limit, size, unit in _SECONDS:
        if whole < limit:
            return f"{whole // size}{unit}"
    return f"{whole // 31536000}y"


def next_try(moment: datetime | None, now: datetime) -> str:
    """The end of a reason: `; next try in 20 s`; empty if the moment is not known."""
    if moment is None:
        return ""
    seconds = max(0, math.ceil((moment - now).total_seconds()))
    minutes, rest = divmod(seconds, 60)
    parts = [f"{minutes} min" if minutes else "", f"{rest} s" if rest else ""]
    time = " ".join(part for part in parts if part)
    return f"; next try in {time}" if time else "; next try now"


def cores(milli: int) -> str:
    """Thousandths of a CPU as CPUs: 0.25, 2."""
    return f"{milli / 1000:.2f}".rstrip("0").rstrip(".")


def local_time(moment: datetime | None) -> str:
    """A moment in the reader's own time zone; empty when there is none."""
    return "" if moment is None else in_zone(moment).strftime("%Y-%m-%d %H:%M:%S")


def in_zone(moment: datetime, zone: tzinfo | None = None) -> datetime:
    """The moment in a time zone, by default the reader's; as it is near the limits of time."""
    try:
        return moment.astimezone(zone)
    except (OverflowError, ValueError):
        return moment


def count(number: int, noun: str) -> str:
    """`1 member`, `2 members`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def named_or_counted(names: Sequence[str], noun: str) -> str:
    """`a, b`; of more than MAX_NAMES only the number: `7 pods`."""
    return ", ".join(names) if len(names) <= MAX_NAMES else count(len(names), noun)


def gone_restarts(counts: Mapping[str, int]) -> str:
    """`Restarts of replicas without a pod: worker-0 1, worker-1 2`; empty if there are none."""
    rows = [f"{name} {number}" for name, number in counts.items()]
    more = [f"{len(rows) - _MAX_COUNTS} more"] if len(rows) > _MAX_COUNTS else []
    text = ", ".join([*rows[:_MAX_COUNTS], *more])
    return f"Restarts of replicas without a pod: {text}" if text else ""


def said_once(texts: Sequence[str], above: str = "") -> list[str]:
    """A column of reasons in which none is repeated: the first row has it, and says for how many.

    What stands `above` the table is not said again.
    """
    counts = Counter(texts)
    rows, said = [], {"", above}
    for text in texts:
        others = f" (and {counts[text] - 1} more for the same reason)" * (counts[text] > 1)
        rows.append("" if text in said else f"{text}{others}")
        said.add(text)
    return rows


def natural_order(name: str) -> list[tuple[int, str]]:
    """A key for sorting in which numbers count as numbers: node-2 comes before node-10."""
    return [(int(part[:18]), "") if part.isdecimal() else (-1, part) for part in _SPLIT.split(name)]


def size_of(amount: int) -> str:
    """Bytes as a person reads them: `908 B`, `5.0 MiB`."""
    size = float(amount)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{amount} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
