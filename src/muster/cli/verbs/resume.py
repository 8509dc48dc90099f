"""`arena resume JOB…`: start suspended jobs again."""

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


@click.command(name="resume")
@options.name_argument(many=True)
@options.type_option
@options.cluster_options
def command(target: Target, names: tuple[str, ...], type_: str) -> None:
    """Start suspended jobs again.

    \b
    Example:
      arena resume hello
    """

    def resume(client: BlockingClient, job: FoundJob) -> str:
        changed = changes.set_suspended(client, job, suspend=False)
        return f"{object_name(job.raw)} {'' if changed else 'already '}resumed"

    change_each_job(target, names, type_, resume)
