"""`arena suspend JOB…` stops jobs and keeps them; `arena resume JOB…` starts them again."""

from __future__ import annotations

from functools import partial

import click

from muster.cli.each_name import change_each_job
from muster.cli.options import Target, cluster_options, name_argument, type_option
from muster.client.jobs import job_operations


@click.command(name="suspend")
@name_argument(many=True)
@type_option
@cluster_options
def suspend(target: Target, names: tuple[str, ...], type_: str) -> None:
    """Stop jobs: their pods are deleted and free their resources, the jobs stay.

    \b
    Example:
      arena suspend hello
    """
    change_each_job(target, names, type_, partial(job_operations.set_suspended, suspend=True))


@click.command(name="resume")
@name_argument(many=True)
@type_option
@cluster_options
def resume(target: Target, names: tuple[str, ...], type_: str) -> None:
    """Start suspended jobs again.

    \b
    Example:
      arena resume hello
    """
    change_each_job(target, names, type_, partial(job_operations.set_suspended, suspend=False))
