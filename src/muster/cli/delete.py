"""`arena delete JOB…`: every name is tried; the exit code tells whether all were there."""

from __future__ import annotations

import click

from muster.api.meta import Key
from muster.cli import find
from muster.cli.cluster import Where, cluster_options
from muster.cli.output import info, note
from muster.errors import NotFound


@click.command(name="delete")
@click.argument("names", nargs=-1, required=True)
@find.type_option
@cluster_options
def command(where: Where, names: tuple[str, ...], type_: str) -> None:
    """Delete training jobs and everything they made.

    \b
    Example:
      arena delete hello world
    """
    cluster = where.cluster()
    cluster.announce()
    namespace = where.namespace_in(cluster)
    missing = []
    with cluster.connect() as client:
        for name in names:
            try:
                kind, job = find.named(client, Key(namespace, name), type_)
                client.delete(
                    kind,
                    Key(namespace, name),
                    uid=job["metadata"]["uid"],
                    propagation="Background",
                )
            except NotFound:
                note(f"The training job '{name}' does not exist,skip to delete it")
                missing.append(name)
            else:
                info(f"The training job {name} has been deleted successfully")
    if missing:
        raise NotFound(f"not found: {', '.join(missing)}", status=404)
