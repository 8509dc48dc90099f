"""The chart of the history: jobs as bars in lanes.

There is one lane per job while there are few. Many jobs share lanes: the runs of each are put into
the first lane that is free at their time, and a job that finds no lane is only in the table. Jobs
that wait would fill such lanes, so then only the curves and the table show them. All positions are
percentages of the span of time, so the chart fits every width.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from muster.jobs.view.units import duration, named_or_counted, natural_order
from muster.web.views.pod_owners import Owner

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from muster.web.views.job_history import JobHistory, Period, TimeSpan
    from muster.web.views.pod_owners import Looks

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
    """The only job of the lane, if it has a lane of its own."""


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
    return tuple(lanes), sum(_placed(job, span) for job in jobs) - len(shown)


def _placed(job: JobHistory, span: TimeSpan) -> bool:
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
