"""The history of a cluster: a chart, curves, utilisation, waiting times and GPU hours."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from muster.web.views.history_chart import (
    MAX_LANES,
    Lane,
    clock,
    lanes_of_jobs,
    lanes_of_nodes,
    ticks,
)
from muster.web.views.history_curves import Curves, curves_of
from muster.web.views.job_history import TimeSpan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from muster.web.views.job_history import JobHistory
    from muster.web.views.pod_owners import Looks

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
    span = _known_span(shown, start, now)
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


def _known_span(jobs: Iterable[JobHistory], start: datetime, now: datetime) -> TimeSpan:
    """The span from `start`, or from the first job: nothing is known about the time before it."""
    first = min((job.begin for job in jobs if job.begin), default=start)
    return TimeSpan(max(start, min(first, now - MIN_SPAN)), now)


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
