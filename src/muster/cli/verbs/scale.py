"""`arena scale JOB --workers N`: change how many replicas a job has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from muster.api.meta import object_name
from muster.cli import options
from muster.cli.failures import change_each_job
from muster.cli.show.messages import note
from muster.client.jobs import changes
from muster.errors import UsageError
from muster.jobs.submission.flag_values import LARGEST
from muster.jobs.summary import RUNNING, summarize

if TYPE_CHECKING:
    from muster.client.jobs.lookup import FoundJob
    from muster.client.target import Target
    from muster.kube.blocking_client import BlockingClient


@click.command(name="scale")
@options.name_argument()
@click.option(
    "--workers", type=click.IntRange(0, LARGEST), help="Number of workers, as submit counts them."
)
@click.option("--ps", type=click.IntRange(0, LARGEST), help="Number of parameter servers.")
@options.type_option
@options.cluster_options
def command(target: Target, name: str, workers: int | None, ps: int | None, type_: str) -> None:
    """Change the number of a job's workers or parameter servers.

    Of a PyTorch job the master counts as one of the workers, as it does for submit. A gang that
    started only with all its members wants all of the new number. Instances that run are left
    alone: the new numbers are told to those that start from now on.

    \b
    Example:
      arena scale hello --workers 4
    """
    if workers == 0:
        raise UsageError(
            "--workers must be greater than 0", hint=f"`arena suspend {name}` stops all of them."
        )
    counts = {role: n for role, n in (("worker", workers), ("ps", ps)) if n is not None}
    if not counts:
        raise UsageError("say how many: --workers N or --ps N")

    def scale(client: BlockingClient, job: FoundJob) -> str:
        operations = changes.scale(client, job, counts)
        is_running = summarize(job.raw, []).status == RUNNING
        if is_running and any("/template/" in row["path"] for row in operations):
            note("instances that run keep the former numbers in their environment and labels")
        return f"{object_name(job.raw)} scaled"

    change_each_job(target, [name], type_, scale)
