"""`arena resume JOB…`: start suspended jobs again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from muster.cli import options
from muster.cli.options import cluster_options
from muster.cli.verbs.suspend import set_suspended
from muster.client.jobs import changes

if TYPE_CHECKING:
    from muster.api.kinds import Kind
    from muster.api.meta import Raw
    from muster.client.target import Target
    from muster.kube.blocking_client import BlockingClient


@click.command(name="resume")
@options.name_argument(many=True)
@options.type_option
@cluster_options
def command(target: Target, names: tuple[str, ...], type_: str) -> None:
    """Start suspended jobs again.

    \b
    Example:
      arena resume hello
    """
    changes.each_job(target, names, type_, resume)


def resume(client: BlockingClient, kind: Kind[Raw], raw: Raw) -> str:
    return set_suspended(client, kind, raw, on=False)
