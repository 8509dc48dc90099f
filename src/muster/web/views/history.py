"""The history of a cluster: a chart, curves, utilisation, waiting times and GPU hours.

The chart shows jobs as bars in lanes. There is one lane per job while there are few. Many jobs
share lanes: the runs of each are put into the first lane that is free at their time, and a job that
finds no lane is only in the table. Jobs that wait would fill such lanes, so then only the curves
and the table show them. All positions are percentages of the span of time, so the chart fits every
width.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import TYPE_CHECKING

import msgspec

from muster.jobs.view.units import duration, named_or_counted, natural_order
from muster.web.views.job_history import JobHistory, Period, TimeSpan
from muster.web.views.owner_colours import Looks, Owner

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


SPANS = {1: "hour", 6: "6 hours", 24: "day"}
DEFAULT_SPAN = 24
MIN_SPAN = timedelta(minutes=1)
MAX_ROWS = 200
MAX_OWNERS = 100


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


class Row(msgspec.Struct, frozen=True):
    """One line of the table."""

    job: JobHistory
    begin: datetime
    waited: float
    ran: float
    gpu_hours: float


class OwnerShare(msgspec.Struct, frozen=True):
    """The hours of a namespace and an owner."""

    namespace: str
    owner: str
    jobs: int
    hours: float
    """For which their jobs ran."""
    gpu_hours: float


class HistoryView(msgspec.Struct, frozen=True):
    query: HistoryQuery
    spans: dict[int, str]
    lanes: tuple[Lane, ...]
    packed: bool
    """Whether jobs share lanes, which then have no names, and show only runs."""
    left_out: int
    """Jobs that found no lane."""
    begin: datetime
    """Where the chart begins."""
    ticks: tuple[tuple[float, datetime], ...]
    clock: str
    """The format of times at the ticks."""
    rows: tuple[Row, ...]
    total: int
    shares: tuple[OwnerShare, ...]
    curves: Curves
    gpus: int
    """GPUs of the cluster now."""
    gpu_hours: float
    uses_gpus: bool
    """Whether the cluster has GPUs, or had some that jobs used."""
    utilisation: float | None
    """Percent of the GPU hours that the cluster has in the span; None without GPUs."""
    median_wait: float | None

    def percent(self, share: OwnerShare) -> float:
        """Of the largest share, for its bar: GPU hours, or hours where nobody used a GPU."""
        first = self.shares[0]
        if first.gpu_hours:
            return 100 * share.gpu_hours / first.gpu_hours
        return 100 * share.hours / first.hours if first.hours else 0.0


def history_view(
    jobs: Iterable[JobHistory], query: HistoryQuery, gpus: int, looks: Looks, now: datetime
) -> HistoryView:
    """The history of the last hours."""
    start = now - timedelta(hours=query.hours)
    shown = [job for job in jobs if job.end is not None and job.end > start]
    # Nothing is known about the time before the first job.
    first = min((job.begin for job in shown if job.begin), default=start)
    span = TimeSpan(max(start, min(first, now - MIN_SPAN)), now)
    shown.sort(key=lambda job: (job.begin or now, job.name), reverse=True)
    lanes_of = lanes_of_nodes if query.by == "node" else lanes_of_jobs
    lanes, left_out = lanes_of(shown, span, looks)
    waits = sorted(waited for job in shown for _, waited in job.started_runs(span))
    hours = sum(_gpu_hours(job, span) for job in shown)
    capacity = gpus * span.seconds / 3600
    return HistoryView(
        query=query,
        spans=SPANS,
        lanes=lanes,
        packed=query.by == "job" and len(shown) > MAX_LANES,
        left_out=left_out,
        begin=span.start,
        ticks=ticks(span),
        clock=clock(span),
        rows=tuple(_row(job, span, now) for job in shown[:MAX_ROWS]),
        total=len(shown),
        shares=_shares(shown, span),
        curves=curves_of(shown, span),
        gpus=gpus,
        gpu_hours=hours,
        uses_gpus=bool(gpus or hours),
        utilisation=min(100.0, 100 * hours / capacity) if capacity else None,
        median_wait=waits[len(waits) // 2] if waits else None,
    )


def _row(job: JobHistory, span: TimeSpan, now: datetime) -> Row:
    return Row(
        job,
        job.begin or now,
        sum(period.seconds for period in job.waits),
        sum(period.seconds for period in job.runs),
        _gpu_hours(job, span),
    )


def _hours(job: JobHistory, span: TimeSpan) -> float:
    return sum(span.overlap(run) for run in job.runs) / 3600


def _gpu_hours(job: JobHistory, span: TimeSpan) -> float:
    return job.gpus * _hours(job, span)


def _shares(jobs: Iterable[JobHistory], span: TimeSpan) -> tuple[OwnerShare, ...]:
    groups: dict[tuple[str, str], list[JobHistory]] = defaultdict(list)
    for job in jobs:
        groups[job.namespace, job.owner].append(job)
    shares = [
        OwnerShare(
            *key,
            len(own),
            sum(_hours(job, span) for job in own),
            sum(_gpu_hours(job, span) for job in own),
        )
        for key, own in sorted(groups.items())
    ]
    shares.sort(key=lambda share: (share.gpu_hours, share.hours), reverse=True)
    return tuple(shares[:MAX_OWNERS])


MAX_LANES = 40
_TICKS = 6
"""At most, about."""
_LAST_TICK = 94
"""Percent of the width: the text of a later one has no room."""
_MINUTE, _HOUR = 60, 3600
_STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(_MINUTE * number for number in (1, 2, 3, 5, 10, 15, 20, 30)),
    *(_HOUR * number for number in (1, 2, 3, 4, 6)),
)
_MIN_WIDTH = 0.2
_GAP = 0.1
"""Percent of the chart that is free between two jobs of a lane."""


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
    """The only job of the lane, if it has its own lane."""


def ticks(span: TimeSpan) -> tuple[tuple[float, datetime], ...]:
    """The marks of the axis: position and time."""
    step = _step(span)
    first = -(-span.start.timestamp() // step)
    count = int(span.end.timestamp() // step - first) + 1
    moments = [datetime.fromtimestamp((first + n) * step, UTC) for n in range(count)]
    rows = [(span.percent(moment), moment) for moment in moments]
    return tuple(row for row in rows if row[0] <= _LAST_TICK)


def clock(span: TimeSpan) -> str:
    """The format of times at the marks."""
    return "%H:%M" if _step(span) >= _MINUTE else "%H:%M:%S"


def _step(span: TimeSpan) -> int:
    """Seconds between two marks, of which a reader can count the multiples."""
    return next((step for step in _STEPS if span.seconds <= step * _TICKS), _STEPS[-1])


def _bars(
    job: JobHistory, span: TimeSpan, looks: Looks, node: str = "", *, waits: bool = False
) -> list[Bar]:
    """The runs of a job, in order, with a node only those there; with `waits`, its waits too."""
    look = looks.of(Owner(job.namespace, job.kind, job.name))
    rows = [(period, False) for period in job.runs if not node or node in period.nodes]
    rows += [(period, True) for period in job.waits] if waits else []
    bars = []
    for period, is_wait in rows:
        if period.end < span.start:
            continue
        start, end = span.percent(period.start), span.percent(period.end)
        if not is_wait:  # a run of less than a second is drawn too
            start = min(start, 100 - _MIN_WIDTH)
            end = max(end, start + _MIN_WIDTH)
        title = _title(job, period, "waited" if is_wait else "ran")
        bars.append(Bar(job, start, round(end - start, 3), is_wait, look, title))
    return sorted(bars, key=lambda bar: bar.start)


def _title(job: JobHistory, period: Period, verb: str) -> str:
    where = f" on {named_or_counted(period.nodes, 'node')}" if period.nodes else ""
    return f"{job.namespace}/{job.name} ({job.state}): {verb} {duration(period.seconds)}{where}"


def lanes_of_jobs(
    jobs: Sequence[JobHistory], span: TimeSpan, looks: Looks
) -> tuple[tuple[Lane, ...], int]:
    """The lanes, and the number of jobs that found none."""
    if len(jobs) <= MAX_LANES:
        lanes = tuple(
            Lane(job.name, tuple(_bars(job, span, looks, waits=True)), job) for job in jobs
        )
        return lanes, 0
    packed, left_out = _packed([_bars(job, span, looks) for job in reversed(jobs)], MAX_LANES)
    return tuple(Lane("", tuple(bars)) for bars in packed), left_out


def lanes_of_nodes(
    jobs: Sequence[JobHistory], span: TimeSpan, looks: Looks
) -> tuple[tuple[Lane, ...], int]:
    """As for jobs; jobs that share a node at the same time need several lanes of it."""
    by_node: dict[str, list[JobHistory]] = defaultdict(list)
    for job in reversed(jobs):
        for node in job.nodes:
            by_node[node].append(job)
    lanes: list[Lane] = []
    shown: set[tuple[str, str, str]] = set()
    for node in sorted(by_node, key=natural_order):
        if len(lanes) == MAX_LANES:
            break
        rows = [bars for job in by_node[node] if (bars := _bars(job, span, looks, node))]
        packed, _ = _packed(rows, MAX_LANES - len(lanes))
        for number, bars in enumerate(packed):
            lanes.append(Lane("" if number else node, tuple(bars)))
            shown |= {(bar.job.namespace, bar.job.kind, bar.job.name) for bar in bars}
    placed = [job for job in jobs if any(run.nodes and run.end > span.start for run in job.runs)]
    return tuple(lanes), len(placed) - len(shown)


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
