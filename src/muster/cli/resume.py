"""`arena resume JOB…`: start suspended jobs again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from muster.cli import changes, find
from muster.cli.cluster import Where, cluster_options
from muster.cli.suspend import switch

if TYPE_CHECKING:
    from muster.api.kinds import Kind
    from muster.api.meta import Raw
    from muster.kube.blocking import BlockingClient


@click.command(name="resume")
@find.name_argument(many=True)
@find.type_option
@cluster_options
def command(where: Where, names: tuple[str, ...], type_: str) -> None:
    """Start suspended jobs again.

    \b
    Example:
      arena resume hello
    """
    changes.each(where, names, type_, resume)


def resume(client: BlockingClient, kind: Kind[Raw], raw: Raw) -> str:
    return switch(client, kind, raw, on=False)
