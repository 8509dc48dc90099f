"""`arena scale JOB --workers N`: change a job's number of replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kubekit.errors import UsageError
from kubekit.objects.annotation_values import read_integer
from muster.cli.each_name import change_each_job
from muster.cli.options import Target, cluster_options, name_argument, type_option
from muster.cli.show.messages import note
from muster.client.jobs import job_operations
from muster.jobs.build.flag_values import MAX_INT32
from muster.jobs.job_state import RESTARTING, RUNNING
from muster.jobs.view.summary import summarize

if TYPE_CHECKING:
    from kubekit.client.blocking_client import BlockingClient
    from muster.client.jobs.lookup import FoundJob


@click.command(name="scale", context_settings={"allow_extra_args": True})
@name_argument()
@click.option(
    "--workers", type=click.IntRange(0, MAX_INT32), help="Number of workers, as submit counts them."
)
@click.option("--ps", type=click.IntRange(0, MAX_INT32), help="Number of parameter servers.")
@type_option
@cluster_options
def command(target: Target, name: str, workers: int | None, ps: int | None, type_: str) -> None:
    """Change the number of a job's workers or parameter servers.

    The master of a PyTorch job counts as one of the workers, as it does for submit. A gang that
    needed all its members needs all of the new number. Running replicas are not restarted: only
    replicas that start from now on see the new numbers. Replicas that still wait are recreated.

    \b
    Example:
      arena scale hello --workers 4
    """
    if words := click.get_current_context().args:
        number = read_integer(words[0]) or "N"
        raise UsageError(
            f"unexpected {' '.join(words)} after the name of the job",
            hint=f"Did you mean --workers={number}?",
        )
    if workers == 0:
        raise UsageError(
            "--workers must be greater than 0", hint=f"`arena suspend {name}` stops all of them."
        )
    counts = {role: n for role, n in (("worker", workers), ("ps", ps)) if n is not None}
    if not counts:
        raise UsageError("no number is given: write --workers N or --ps N")

    def scale(client: BlockingClient, job: FoundJob) -> str:
        operations = job_operations.scale(client, job, counts)
        is_running = summarize(job.raw, []).status in (RUNNING, RESTARTING)
        if is_running and any("/template/" in row["path"] for row in operations):
            note("running replicas keep the old numbers in their environment and labels")
        return "scaled"

    change_each_job(target, [name], type_, scale)
