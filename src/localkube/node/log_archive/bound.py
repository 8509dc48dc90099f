"""Which archived logs are removed so that the archive stays within its bound: pure.

First every replica is limited by itself, so that one replica that restarts for days does not push
out the logs of all others: its oldest attempts go, never its newest. Then, if all logs together are
too large, logs of finished jobs go, of the job that ended first before those of the next, and the
oldest attempts of a job first. Only when no finished job has logs left do the oldest attempts of
running jobs go; the newest log of a running job always stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

TOTAL = 1 << 30
"""Bytes of all archived logs together."""
PER_REPLICA = 256 << 20
"""Bytes of all archived attempts at one container of one replica."""
OVERHEAD = 8 << 10
"""Bytes that an entry occupies besides its log: a directory and a small file."""


class Entry(NamedTuple):
    """An archived log, as far as the bound needs it."""

    job: str
    replica: str
    """Pod name and container: the same for all attempts at it."""
    name: str
    at: float
    """When the attempt ended."""
    size: int

    @property
    def charge(self) -> int:
        return self.size + OVERHEAD


def over_replica_bound(entries: Iterable[Entry], limit: int) -> list[Entry]:
    """The oldest attempts of replicas whose logs are too large; never the newest attempt."""
    replicas: dict[tuple[str, str], list[Entry]] = {}
    for entry in sorted(entries, key=_newest_first):
        replicas.setdefault((entry.job, entry.replica), []).append(entry)
    return [entry for attempts in replicas.values() for entry in _beyond(attempts, limit)]


def _beyond(newest_first: Sequence[Entry], limit: int) -> list[Entry]:
    used = 0
    for position, entry in enumerate(newest_first):
        used += entry.charge
        if used > limit and position > 0:
            return list(newest_first[position:])
    return []


def over_total_bound(
    entries: Sequence[Entry], ended: Mapping[str, float], limit: int
) -> list[Entry]:
    """The logs to remove if all together are too large; `ended` has when each finished job ended.

    A job that is not in `ended` still runs.
    """
    newest: dict[str, Entry] = {}
    for entry in sorted(entries, key=_newest_first):
        newest.setdefault(entry.job, entry)

    finished = [entry for entry in entries if entry.job in ended]
    running = [entry for entry in entries if entry.job not in ended and entry != newest[entry.job]]

    def order(entry: Entry) -> tuple[float, str, float, str]:
        return ended[entry.job], entry.job, entry.at, entry.name

    candidates = [*sorted(finished, key=order), *sorted(running, key=_oldest_first)]
    excess = sum(entry.charge for entry in entries) - limit
    removed = []
    for entry in candidates:
        if excess <= 0:
            break
        removed.append(entry)
        excess -= entry.charge
    return removed


def _oldest_first(entry: Entry) -> tuple[float, str]:
    return entry.at, entry.name


def _newest_first(entry: Entry) -> tuple[float, str]:
    return -entry.at, entry.name
