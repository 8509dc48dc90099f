"""`arena resume JOB…`: start suspended jobs again."""

from __future__ import annotations

from functools import partial

import click

from muster.cli.each_name import change_each_job
from muster.cli.options import Target, cluster_options, name_argument, type_option
from muster.client.jobs import job_operations


@click.command(name="resume")
@name_argument(many=True)
@type_option
@cluster_options
def command(target: Target, names: tuple[str, ...], type_: str) -> None:
    """Start suspended jobs again.

    \b
    Example:
      arena resume hello
    """
    change_each_job(target, names, type_, partial(job_operations.set_suspended, suspend=False))
