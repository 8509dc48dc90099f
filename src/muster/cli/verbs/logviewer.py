"""`arena logviewer JOB`: where the dashboard shows a job's logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from muster.api.meta import Key
from muster.cli import options
from muster.cli.options import cluster_options
from muster.client.jobs import lookup
from muster.errors import NotFound

if TYPE_CHECKING:
    from muster.client.target import Target


@click.command(name="logviewer")
@options.name_argument()
@options.type_option
@cluster_options
def command(target: Target, name: str, type_: str) -> None:
    """Print the URL of a job's page on the dashboard."""
    cluster = target.cluster()
    with cluster.connect() as client:
        lookup.get_job(client, Key(target.namespace_in(cluster), name), type_)
    raise no_dashboard(f"`arena logs -f {name}` follows the logs.")


def no_dashboard(hint: str) -> NotFound:
    """What a verb says that would show the dashboard, which this version does not have."""
    said = "no LOGVIEWER Installed: this version has no dashboard"
    return NotFound(said, status=404, hint=hint)
