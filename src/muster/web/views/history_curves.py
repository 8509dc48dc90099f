"""The curves of the history: GPUs in use, jobs that run and wait, and how long they waited."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from muster.web.views.job_history import JobHistory, Period, TimeSpan

BINS = 96


class Curves(msgspec.Struct, frozen=True):
    """One value for each bin of time."""

    times: tuple[int, ...]
    gpus: tuple[float, ...]
    running: tuple[float, ...]
    waiting: tuple[float, ...]
    waits: tuple[float | None, ...]
    """Mean seconds that the jobs which started in the bin had waited; None if none did."""

    def data(self) -> dict[str, object]:
        return msgspec.structs.asdict(self)


def curves_of(jobs: Iterable[JobHistory], span: TimeSpan) -> Curves:
    """The curves of all jobs together."""
    gpus, running, waiting = _Curve(span), _Curve(span), _Curve(span)
    waits: list[list[float]] = [[] for _ in range(BINS)]
    for job in jobs:
        for run in job.runs:
            gpus.add(run, job.gpus)
            running.add(run)
        for wait in job.waits:
            waiting.add(wait)
        for run, waited in job.started_runs(span):
            waits[running.bin(run.start)].append(waited)
    begin, width = span.start.timestamp(), span.seconds / BINS
    return Curves(
        times=tuple(int(begin + width * (number + 0.5)) for number in range(BINS)),
        gpus=gpus.values(),
        running=running.values(),
        waiting=waiting.values(),
        waits=tuple(round(sum(rows) / len(rows), 1) if rows else None for rows in waits),
    )


class _Curve:
    """A sum of periods, bin by bin.

    A period covers its first and its last bin in part and all bins between them whole. For these,
    only the two steps are noted: thousands of jobs may have dozens of bins each.
    """

    def __init__(self, span: TimeSpan) -> None:
        self._span, self._width = span, span.seconds / BINS
        self._parts, self._steps = [0.0] * BINS, [0.0] * (BINS + 1)

    def bin(self, moment: datetime) -> int:
        position = (moment - self._span.start).total_seconds() / self._width
        return max(0, min(BINS - 1, int(position)))

    def add(self, period: Period, weight: float = 1.0) -> None:
        start = max(0.0, (period.start - self._span.start).total_seconds() / self._width)
        end = min(float(BINS), (period.end - self._span.start).total_seconds() / self._width)
        if end <= start:
            return
        first, last = int(start), min(BINS - 1, int(end))
        if first == last:
            self._parts[first] += weight * (end - start)
            return
        self._parts[first] += weight * (first + 1 - start)
        self._parts[last] += weight * (end - last)
        self._steps[first + 1] += weight
        self._steps[last] -= weight

    def values(self) -> tuple[float, ...]:
        whole = accumulate(self._steps[:BINS])
        return tuple(round(part + rest, 3) for part, rest in zip(self._parts, whole, strict=True))
