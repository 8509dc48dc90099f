"""`arena logviewer JOB`: an error, since this version has no dashboard."""

from __future__ import annotations

import click

from muster.api.meta import Key
from muster.cli.options import Target, cluster_options, name_argument, type_option
from muster.client.jobs import lookup
from muster.client.target import no_dashboard


@click.command(name="logviewer")
@name_argument()
@type_option
@cluster_options
def command(target: Target, name: str, type_: str) -> None:
    """Accepted as in arena; this version has no dashboard."""
    cluster = target.cluster()
    with cluster.connect() as client:
        lookup.get_job(client, Key(target.namespace_in(cluster), name), type_)
    raise no_dashboard(f"`arena logs -f {name}` follows the logs.")
