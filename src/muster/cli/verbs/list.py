"""`arena list`: the jobs of a namespace or of all."""

from __future__ import annotations

import gc
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

import click

from muster.api.meta import Key
from muster.cli import options
from muster.cli.options import cluster_options
from muster.cli.show import live
from muster.cli.show.live import Frame
from muster.cli.show.table import json_or_yaml, table
from muster.cli.show.units import duration
from muster.client.jobs import lookup
from muster.jobs.summary import FAILED, PENDING, RUNNING, SUCCEEDED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from muster.api.meta import Raw
    from muster.client.target import Target
    from muster.jobs.summary import JobSummary

HEADER = ("NAME", "STATUS", "TRAINER", "DURATION", "GPU(Requested)", "GPU(Allocated)", "NODE")
NONE: Mapping[Key, str] = MappingProxyType({})
STATUSES = (PENDING, RUNNING, SUCCEEDED, FAILED)


@click.command(name="list")
@click.option("--all-namespaces", "--allNamespaces", "-A", is_flag=True, help="All namespaces.")
@click.option("--output", "-o", type=click.Choice(["wide", "json", "yaml", "name"]), default="wide")
@click.option(
    "--status", "statuses", multiple=True, type=click.Choice(STATUSES, case_sensitive=False),
    help="Only jobs in this state.  [repeatable]",
)  # fmt: skip
@click.option("--watch", "-w", is_flag=True, help="Show them again when they change.")
@options.type_option
@cluster_options
def command(
    target: Target,
    all_namespaces: bool,
    output: str,
    statuses: tuple[str, ...],
    watch: bool,
    type_: str,
) -> None:
    """List training jobs, newest first.

    \b
    Examples:
      arena list
      arena list -A --status running
      arena list -w
    """
    gc.set_threshold(1_000_000)  # many jobs are many objects, and none of them is in a cycle
    cluster = target.cluster()
    namespace = "" if all_namespaces else target.namespace_in(cluster)
    with cluster.connect() as client:

        def look() -> Frame:
            found = lookup.list_jobs(client, namespace, type_)
            jobs = [job for job in found if not statuses or job.status in statuses]
            boards: Mapping[Key, str] = {}
            if output in ("json", "yaml"):
                from muster.client.jobs import tensorboard_url

                boards = tensorboard_url.by_service(client, cluster, namespace)
            return frame(jobs, datetime.now(UTC), output, spaces=all_namespaces, boards=boards)

        if watch:
            live.show(look)
        elif text := look().text:
            print(text)


def frame(
    jobs: Sequence[JobSummary],
    now: datetime,
    output: str,
    *,
    spaces: bool,
    boards: Mapping[Key, str] = NONE,
) -> Frame:
    """The jobs in the form asked for, and what must change for it to be news."""
    state = [(job.key, job.status, job.allocated_gpus) for job in jobs]
    if output == "name":
        return Frame("\n".join(f"{job.trainer}/{job.name}" for job in jobs), state)
    if output == "wide":
        return Frame(table(rows(jobs, now, spaces=spaces)), state)
    from muster.cli.show.job_details import Extras, as_data
    from muster.jobs import names

    def data(job: JobSummary) -> Raw:
        board = boards.get(Key(job.namespace, names.tensorboard(job.name)), "")
        return as_data(job, now, Extras(board=board))

    return Frame(json_or_yaml([data(job) for job in jobs], output), state)


def rows(jobs: Sequence[JobSummary], now: datetime, *, spaces: bool) -> list[tuple[str, ...]]:
    """The table of jobs, with its header."""
    made = [HEADER, *(row(job, job.duration(now)) for job in jobs)]
    return with_namespaces(made, jobs) if spaces else made


def with_namespaces(
    rows: Sequence[tuple[str, ...]], jobs: Sequence[JobSummary]
) -> list[tuple[str, ...]]:
    """The table with the jobs' namespaces in front."""
    first = ["NAMESPACE", *(job.namespace for job in jobs)]
    return [(space, *row) for space, row in zip(first, rows, strict=True)]


def row(job: JobSummary, time: timedelta) -> tuple[str, ...]:
    """One job, with how long it has run or been there."""
    chief = job.chief
    return (
        job.name,
        job.status,
        job.trainer.upper(),
        duration(time.total_seconds()),
        str(job.requested_gpus),
        "N/A" if job.over else str(job.allocated_gpus),
        (chief.node_ip if chief and job.status != PENDING else "") or "N/A",
    )
