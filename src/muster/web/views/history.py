"""The history of a cluster: a Gantt chart, utilisation, waiting times and GPU hours.

The chart has one lane per job while there are few. Many jobs share lanes: each is put into the
first lane that is free at its time, and what does not fit into the last lane is only in the table.
All positions are percentages of the span of time, so the chart fits every width.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from itertools import accumulate
from typing import TYPE_CHECKING

import msgspec

from muster.web.views.pod_owners import Owner

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from muster.web.views.job_history import JobHistory, Period
    from muster.web.views.pod_owners import Looks

SPANS = {1: "hour", 6: "6 hours", 24: "day"}
DEFAULT_SPAN = 24
MIN_SPAN = timedelta(minutes=1)
MAX_LANES = 40
MAX_ROWS = 200
MAX_OWNERS = 100
BINS = 96
TICKS = 6
_MIN_WIDTH = 0.2
_GAP = 0.1
"""Percent of the chart that is free between two jobs of a lane."""


class HistoryQuery(msgspec.Struct, frozen=True):
    """The choice of a reader: the variables of the address."""

    hours: int = DEFAULT_SPAN
    by: str = "job"

    @classmethod
    def read(cls, variables: Mapping[str, str]) -> HistoryQuery:
        """From an address; values that make no sense count as not given."""
        hours = variables.get("hours", "")
        known = {str(number): number for number in SPANS}
        return cls(
            known.get(hours, DEFAULT_SPAN), "node" if variables.get("by") == "node" else "job"
        )

    def variables(self, **changed: object) -> dict[str, object]:
        values = {**msgspec.structs.asdict(self), **changed}
        return {
            "hours": "" if values["hours"] == DEFAULT_SPAN else values["hours"],
            "by": "" if values["by"] == "job" else values["by"],
        }


class Bar(msgspec.Struct, frozen=True):
    """A job in a lane: where it begins and how long it is, in percent."""

    job: JobHistory
    start: float
    width: float
    waits: bool
    look: str
    """CSS classes."""
    title: str

    @property
    def end(self) -> float:
        return self.start + self.width


class Lane(msgspec.Struct, frozen=True):
    label: str
    bars: tuple[Bar, ...]
    job: JobHistory | None = None
    """The only job of the lane, if it has a lane of its own."""


class Row(msgspec.Struct, frozen=True):
    """One line of the table."""

    job: JobHistory
    begin: datetime
    waited: float
    ran: float
    gpu_hours: float


class Share(msgspec.Struct, frozen=True):
    """The GPU hours of a namespace and an owner."""

    namespace: str
    owner: str
    jobs: int
    gpu_hours: float
    percent: float
    """Of the largest share, for its bar."""


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


class HistoryView(msgspec.Struct, frozen=True):
    query: HistoryQuery
    spans: dict[int, str]
    lanes: tuple[Lane, ...]
    left_out: int
    """Jobs that found no lane."""
    begin: datetime
    """Where the chart begins."""
    ticks: tuple[tuple[float, datetime], ...]
    clock: str
    """The format of times at the ticks."""
    rows: tuple[Row, ...]
    total: int
    shares: tuple[Share, ...]
    curves: Curves
    gpus: int
    """GPUs of the cluster now."""
    gpu_hours: float
    utilisation: float | None
    """Percent of the GPU hours that the cluster has in the span; None without GPUs."""
    median_wait: float | None


class _Span(msgspec.Struct, frozen=True):
    start: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        return (self.end - self.start).total_seconds()

    def percent(self, moment: datetime) -> float:
        share = (moment - self.start).total_seconds() / self.seconds
        return round(100 * max(0.0, min(1.0, share)), 3)

    def overlap(self, period: Period) -> float:
        """Seconds of the period that are within the span."""
        end, start = min(self.end, period.end), max(self.start, period.start)
        return max(0.0, (end - start).total_seconds())


def history_view(
    jobs: Iterable[JobHistory], query: HistoryQuery, gpus: int, looks: Looks, now: datetime
) -> HistoryView:
    """The history of the last hours."""
    start = now - timedelta(hours=query.hours)
    shown = [job for job in jobs if job.end is not None and job.end > start]
    span = _known_span(shown, start, now)
    shown.sort(key=lambda job: (job.begin or now, job.name), reverse=True)
    lanes_of = _lanes_of_nodes if query.by == "node" else _lanes
    lanes, left_out = lanes_of(shown, span, looks)
    waits = sorted(_waits(shown, span))
    hours = sum(_gpu_hours(job, span) for job in shown)
    capacity = gpus * span.seconds / 3600
    return HistoryView(
        query=query,
        spans=SPANS,
        lanes=lanes,
        left_out=left_out,
        begin=span.start,
        ticks=_ticks(span),
        clock="%H:%M" if span.seconds > 60 * TICKS else "%H:%M:%S",
        rows=tuple(_row(job, span, now) for job in shown[:MAX_ROWS]),
        total=len(shown),
        shares=_shares(shown, span),
        curves=_curves(shown, span),
        gpus=gpus,
        gpu_hours=hours,
        utilisation=min(100.0, 100 * hours / capacity) if capacity else None,
        median_wait=waits[len(waits) // 2] if waits else None,
    )


def _known_span(jobs: Iterable[JobHistory], start: datetime, now: datetime) -> _Span:
    """The span from `start`, or from the first job: nothing is known about the time before it."""
    first = min((job.begin for job in jobs if job.begin), default=start)
    return _Span(max(start, min(first, now - MIN_SPAN)), now)


def _bars(job: JobHistory, span: _Span, looks: Looks, node: str = "") -> list[Bar]:
    """The bars of a job, in order; with a node, only its runs there."""
    look = looks.of(Owner(job.namespace, job.kind, job.name))
    rows = [(period, False) for period in job.runs if not node or node in period.nodes]
    rows += [] if node else [(period, True) for period in job.waits]
    bars = []
    for period, waits in rows:
        if period.end < span.start:
            continue
        start, end = span.percent(period.start), span.percent(period.end)
        if not waits:  # a run of less than a second is drawn too
            start = min(start, 100 - _MIN_WIDTH)
            end = max(end, start + _MIN_WIDTH)
        where = f" on {', '.join(period.nodes)}" if period.nodes else ""
        words = "waited" if waits else f"ran{where}"
        title = f"{job.namespace}/{job.name} ({job.state}): {words}"
        bars.append(Bar(job, start, round(end - start, 3), waits, look, title))
    return sorted(bars, key=lambda bar: bar.start)


def _lanes(jobs: Sequence[JobHistory], span: _Span, looks: Looks) -> tuple[tuple[Lane, ...], int]:
    if len(jobs) <= MAX_LANES:
        lanes = tuple(Lane(job.name, tuple(_bars(job, span, looks)), job) for job in jobs)
        return lanes, 0
    packed, left_out = _packed([_bars(job, span, looks) for job in reversed(jobs)], MAX_LANES)
    return tuple(Lane("", tuple(bars)) for bars in packed), left_out


def _lanes_of_nodes(
    jobs: Sequence[JobHistory], span: _Span, looks: Looks
) -> tuple[tuple[Lane, ...], int]:
    """Lanes of nodes; jobs that share a node at the same time need several."""
    by_node: dict[str, list[JobHistory]] = defaultdict(list)
    for job in reversed(jobs):
        for node in job.nodes:
            by_node[node].append(job)
    lanes: list[Lane] = []
    shown: set[tuple[str, str, str]] = set()
    for node in sorted(by_node):
        if len(lanes) == MAX_LANES:
            break
        rows = [bars for job in by_node[node] if (bars := _bars(job, span, looks, node))]
        packed, _ = _packed(rows, MAX_LANES - len(lanes))
        for number, bars in enumerate(packed):
            lanes.append(Lane("" if number else node, tuple(bars)))
            shown |= {(bar.job.namespace, bar.job.kind, bar.job.name) for bar in bars}
    return tuple(lanes), sum(_placed(job, span) for job in jobs) - len(shown)


def _placed(job: JobHistory, span: _Span) -> bool:
    return any(run.nodes and run.end > span.start for run in job.runs)


def _packed(rows: Iterable[list[Bar]], most: int) -> tuple[list[list[Bar]], int]:
    """Rows of bars in as few lanes as their times allow, and the number that did not fit."""
    lanes: list[list[Bar]] = []
    left_out = 0
    for bars in sorted(rows, key=lambda bars: bars[0].start if bars else 0):
        if not bars:
            continue
        lane = next((row for row in lanes if row[-1].end + _GAP <= bars[0].start), None)
        if lane is None and len(lanes) < most:
            lanes.append(lane := [])
        if lane is None:
            left_out += 1
        else:
            lane += bars
    return lanes, left_out


def _ticks(span: _Span) -> tuple[tuple[float, datetime], ...]:
    step = (span.end - span.start) / TICKS
    moments = [span.start + step * number for number in range(TICKS)]
    return tuple((span.percent(moment), moment) for moment in moments)


def _row(job: JobHistory, span: _Span, now: datetime) -> Row:
    return Row(
        job,
        job.begin or now,
        sum(period.seconds for period in job.waits),
        sum(period.seconds for period in job.runs),
        _gpu_hours(job, span),
    )


def _gpu_hours(job: JobHistory, span: _Span) -> float:
    return job.gpus * sum(span.overlap(run) for run in job.runs) / 3600


def _shares(jobs: Iterable[JobHistory], span: _Span) -> tuple[Share, ...]:
    groups: dict[tuple[str, str], list[float]] = defaultdict(list)
    for job in jobs:
        groups[job.namespace, job.owner].append(_gpu_hours(job, span))
    totals = {key: sum(rows) for key, rows in groups.items()}
    largest = max(totals.values(), default=0.0)
    order = sorted(totals, key=lambda key: (-totals[key], key))
    return tuple(
        Share(*key, len(groups[key]), totals[key], 100 * totals[key] / largest if largest else 0)
        for key in order[:MAX_OWNERS]
    )


def _waits(jobs: Iterable[JobHistory], span: _Span) -> Iterator[float]:
    """How long each job that started within the span had waited."""
    for job in jobs:
        for run in job.runs:
            if run.start >= span.start:
                yield sum(wait.seconds for wait in job.waits if wait.end == run.start)


class _Curve:
    """A sum of periods, bin by bin.

    A period covers its first and its last bin in part and all bins between them whole. For these,
    only the two steps are noted: thousands of jobs may have dozens of bins each.
    """

    def __init__(self, span: _Span) -> None:
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


def _curves(jobs: Iterable[JobHistory], span: _Span) -> Curves:
    gpus, running, waiting = _Curve(span), _Curve(span), _Curve(span)
    waits: list[list[float]] = [[] for _ in range(BINS)]
    for job in jobs:
        for run in job.runs:
            gpus.add(run, job.gpus)
            running.add(run)
            if run.start >= span.start:
                seconds = sum(wait.seconds for wait in job.waits if wait.end == run.start)
                waits[running.bin(run.start)].append(seconds)
        for wait in job.waits:
            waiting.add(wait)
    begin, width = span.start.timestamp(), span.seconds / BINS
    return Curves(
        times=tuple(int(begin + width * (number + 0.5)) for number in range(BINS)),
        gpus=gpus.values(),
        running=running.values(),
        waiting=waiting.values(),
        waits=tuple(round(sum(rows) / len(rows), 1) if rows else None for rows in waits),
    )
