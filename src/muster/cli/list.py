"""`arena list`: the jobs of a namespace or of all."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from muster.cli import find
from muster.cli.cluster import Where, cluster_options
from muster.cli.describe import as_data
from muster.cli.output import duration, structured, table

if TYPE_CHECKING:
    from muster.jobs.view import View

HEADER = ("NAME", "STATUS", "TRAINER", "DURATION", "GPU(Requested)", "GPU(Allocated)", "NODE")


@click.command(name="list")
@click.option("--all-namespaces", "--allNamespaces", "-A", is_flag=True, help="All namespaces.")
@click.option("--output", "-o", type=click.Choice(["wide", "json", "yaml", "name"]), default="wide")
@find.type_option
@cluster_options
def command(where: Where, all_namespaces: bool, output: str, type_: str) -> None:
    """List training jobs, newest first.

    \b
    Examples:
      arena list
      arena list -A -o json
    """
    cluster = where.cluster()
    namespace = "" if all_namespaces else where.namespace_in(cluster)
    with cluster.connect() as client:
        jobs = find.everything(client, namespace, type_)
    now = datetime.now(UTC)
    if output == "name":
        print("\n".join(f"{job.trainer}/{job.name}" for job in jobs))
    elif output == "wide":
        print(table(_rows(jobs, now, all_namespaces)))
    else:
        print(structured([as_data(job, now) for job in jobs], output))


def _rows(jobs: list[View], now: datetime, all_namespaces: bool) -> list[tuple[str, ...]]:
    rows = [HEADER, *(_row(job, now) for job in jobs)]
    if not all_namespaces:
        return rows
    spaces = ["NAMESPACE", *(job.namespace for job in jobs)]
    return [(space, *row) for space, row in zip(spaces, rows, strict=True)]


def _row(job: View, now: datetime) -> tuple[str, ...]:
    chief = job.chief
    active = job.status in ("PENDING", "RUNNING")
    return (
        job.name,
        job.status,
        job.trainer.upper(),
        duration(job.duration(now).total_seconds()),
        str(job.requested_gpus),
        str(job.allocated_gpus) if active else "N/A",
        (chief.node_ip if chief and job.status != "PENDING" else "") or "N/A",
    )
