"""`arena suspend JOB…`: stop jobs and keep them; `arena resume` starts them again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from muster.api.meta import object_name
from muster.cli import options
from muster.cli.failures import change_each_job
from muster.client.jobs import changes

if TYPE_CHECKING:
    from muster.client.jobs.lookup import FoundJob
    from muster.client.target import Target
    from muster.kube.blocking_client import BlockingClient


@click.command(name="suspend")
@options.name_argument(many=True)
@options.type_option
@options.cluster_options
def command(target: Target, names: tuple[str, ...], type_: str) -> None:
    """Stop jobs: their pods end and give their room back, the jobs stay.

    \b
    Example:
      arena suspend hello
    """

    def suspend(client: BlockingClient, job: FoundJob) -> str:
        changed = changes.set_suspended(client, job, suspend=True)
        return f"{object_name(job.raw)} {'' if changed else 'already '}suspended"

    change_each_job(target, names, type_, suspend)
