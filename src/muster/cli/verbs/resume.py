"""`arena resume JOB…`: start suspended jobs again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from muster.cli.verbs.suspend import set_suspended
from muster.client.jobs import changes, lookup
from muster.client.target import Target, cluster_options

if TYPE_CHECKING:
    from muster.api.kinds import Kind
    from muster.api.meta import Raw
    from muster.kube.blocking_client import BlockingClient


@click.command(name="resume")
@lookup.name_argument(many=True)
@lookup.type_option
@cluster_options
def command(where: Target, names: tuple[str, ...], type_: str) -> None:
    """Start suspended jobs again.

    \b
    Example:
      arena resume hello
    """
    changes.each_job(where, names, type_, resume)


def resume(client: BlockingClient, kind: Kind[Raw], raw: Raw) -> str:
    return set_suspended(client, kind, raw, on=False)
