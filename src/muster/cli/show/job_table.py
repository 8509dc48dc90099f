"""The table of jobs, as `list` and `get jobs` show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.objects.meta import Key, Raw
from muster.cli.show.live import Frame
from muster.cli.show.table import json_or_yaml, table, with_namespaces
from muster.jobs.job_state import FAILED, PENDING, RESTARTING, SUSPENDED
from muster.jobs.view.units import UNKNOWN, duration, next_try

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from muster.client.jobs.tensorboard_url import TensorBoard
    from muster.jobs.view.summary import JobSummary

MAX_NOTES, MAX_WAITING_NOTES = 5, 3
MAX_REASON = 120
"""Characters of the reason of a waiting job; `get` prints all."""
RECENT_SECONDS = 3600
"""For this long `list` says why a job failed; later `get` does."""
HEADER = ("NAME", "STATUS", "TRAINER", "DURATION", "GPU(Requested)", "GPU(Allocated)", "NODE")


def frame(
    jobs: Sequence[JobSummary],
    now: datetime,
    output: str,
    *,
    all_namespaces: bool,
    tensorboards: Mapping[Key, TensorBoard] | None = None,
) -> Frame:
    """The jobs in the given form; `tensorboards` are by the key of their Service."""
    state = [(job.key, job.status, job.allocated_gpus) for job in jobs]
    if output == "name":
        return Frame("\n".join(f"{job.trainer}/{job.name}" for job in jobs), state)
    if output == "wide":
        rows = [HEADER, *(row(job, job.duration(now)) for job in jobs)]
        if all_namespaces:
            rows = with_namespaces(rows, (job.namespace for job in jobs))
        return Frame(table(rows), state)
    from muster.cli.show.job_details import Extras, as_data
    from muster.jobs import names

    def data(job: JobSummary) -> Raw:
        service = Key(job.namespace, names.tensorboard(job.name))
        return as_data(job, now, Extras(tensorboard=(tensorboards or {}).get(service)))

    return Frame(json_or_yaml([data(job) for job in jobs], output), state)


def reason_notes(jobs: Sequence[JobSummary], now: datetime) -> list[str]:
    """A line for each job that restarts, failed of late or waits: which replica, and why.

    The table has arena's columns, which scripts read.
    """
    troubled = [job for job in jobs if job.status == RESTARTING or _failed_recently(job, now)]
    waiting = [job for job in jobs if job.status == PENDING and job.reason]
    return [
        *_bounded(
            [f"{job.name}{job.because}{next_try(job.next_try, now)}" for job in troubled],
            MAX_NOTES,
            "restarting or failed",
        ),
        *_bounded(
            [f"{job.name} waits: {_shortened(job.reason)}" for job in waiting],
            MAX_WAITING_NOTES,
            "waiting",
        ),
    ]


def _bounded(notes: list[str], most: int, rest: str) -> list[str]:
    """The first notes, and the number of the other jobs."""
    more = len(notes) - most
    text = f"{more} more {'jobs are' if more > 1 else 'job is'} {rest}"
    return [*notes[:most], *([text] if more > 0 else ())]


def _shortened(reason: str) -> str:
    if len(reason) <= MAX_REASON:
        return reason
    return f"{reason[:MAX_REASON].rpartition(' ')[0].rstrip(',;:')} …"


def _failed_recently(job: JobSummary, now: datetime) -> bool:
    if job.status != FAILED or job.finished is None or not job.reason:
        return False
    return (now - job.finished).total_seconds() < RECENT_SECONDS


def row(job: JobSummary, time: timedelta) -> tuple[str, ...]:
    """One job, with its duration or its age."""
    return (
        job.name,
        job.status,
        job.trainer.upper(),
        duration(time.total_seconds()),
        str(job.requested_gpus),
        UNKNOWN if job.over else str(job.allocated_gpus),
        _node_address(job) or UNKNOWN,
    )


def _node_address(job: JobSummary) -> str:
    """The address of the chief's node, or, if only other pods of a finished job are left, theirs.

    arena shows the address, not the name, and scripts read it.
    """
    if job.status in (PENDING, SUSPENDED):
        return ""
    rows = [job.chief] if job.chief else job.instances if job.over else ()
    return next((row.node_ip for row in rows if row.node_ip), "")
