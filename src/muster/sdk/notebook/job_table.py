"""A job as a table: HTML for notebooks, lines of text elsewhere. Pure."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from muster.jobs.job_state import FAILED, RUNNING, SUCCEEDED
from muster.jobs.view.units import duration

if TYPE_CHECKING:
    from datetime import datetime

    from muster.jobs.view.instance import Instance
    from muster.jobs.view.summary import JobSummary

_COLOURS = {RUNNING: "#1a73e8", SUCCEEDED: "#188038", FAILED: "#d93025"}
_COLUMNS = ("Replica", "Status", "Node", "GPUs", "Restarts", "Why")
_MAX_ROWS = 32
"""More replicas than this are counted, not listed."""


class JobTable:
    """The job at one moment, for IPython to show."""

    def __init__(self, job: JobSummary, now: datetime) -> None:
        self._job, self._now = job, now

    def __repr__(self) -> str:
        job, facts = self._job, _facts(self._job, self._now)
        rows = [f"{job.trainer}/{job.name} in {job.namespace}: {job.status} {facts}".rstrip()]
        rows += [job.reason] if job.reason else []
        cells = [_COLUMNS, *(_cells(instance) for instance in job.instances[:_MAX_ROWS])]
        widths = [max(len(row[column]) for row in cells) for column in range(len(_COLUMNS))]
        if job.instances:
            padded = ("  ".join(map(str.ljust, row, widths)) for row in cells)
            rows += [f"  {line.rstrip()}" for line in padded]
        return "\n".join([*rows, *filter(None, [_more(job)])])

    def _repr_html_(self) -> str:
        """Texts of the job and its pods are escaped: they may be anybody's."""
        job, colour = self._job, _COLOURS.get(self._job.status, "#80868b")
        head = (
            f"<b>{escape(job.trainer)}/{escape(job.name)}</b> in {escape(job.namespace)} "
            f'<span style="color:{colour}">● {escape(job.status)}</span> '
            f"{escape(_facts(job, self._now))}"
        )
        reason = f"<div>{escape(job.reason)}</div>" if job.reason else ""
        rows = [_html_row("th", _COLUMNS)] if job.instances else []
        rows += [_html_row("td", _cells(instance)) for instance in job.instances[:_MAX_ROWS]]
        table = f'<table style="text-align:left">{"".join(rows)}</table>' if rows else ""
        return f"<div><div>{head}</div>{reason}{table}{escape(_more(job))}</div>"


def _facts(job: JobSummary, now: datetime) -> str:
    counts = f"{job.counts}, " if job.counts else ""
    return f"({counts}{duration(job.duration(now).total_seconds())})"


def _cells(instance: Instance) -> tuple[str, ...]:
    gpus, restarts = instance.gpus or "", instance.restarts or ""
    columns = (instance.name, instance.status, instance.node, gpus, restarts, instance.reason)
    return tuple(map(str, columns))


def _html_row(tag: str, cells: tuple[str, ...]) -> str:
    style = ' style="text-align:left"'
    return f"<tr>{''.join(f'<{tag}{style}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def _more(job: JobSummary) -> str:
    hidden = len(job.instances) - _MAX_ROWS
    return f"and {hidden} more replicas" if hidden > 0 else ""
