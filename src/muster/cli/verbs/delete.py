"""`arena delete JOB…`: every name is tried; the exit code tells whether all were there."""

from __future__ import annotations

import click

from muster.api.meta import Key
from muster.cli.failures import Failures
from muster.cli.options import Target, cluster_options, name_argument, type_option
from muster.cli.show.messages import arena_info, note
from muster.client.jobs import job_operations, lookup
from muster.errors import NotFound


@click.command(name="delete")
@name_argument(many=True)
@type_option
@cluster_options
def command(target: Target, names: tuple[str, ...], type_: str) -> None:
    """Delete training jobs and their pods, services and records; pod/NAME deletes one pod.

    \b
    Example:
      arena delete hello world
    """
    cluster = target.cluster()
    note(str(cluster))
    namespace = target.namespace_in(cluster)
    failures = Failures()
    with cluster.connect() as client:
        for name in dict.fromkeys(names):
            with failures.collecting():
                try:
                    noun = job_operations.delete_job_or_pod(client, Key(namespace, name), type_)
                except NotFound:
                    note(f"The training job '{name}' does not exist,skip to delete it", "error")
                    raise
                bare = lookup.parse_name(name).name
                arena_info(f"The {noun} {bare} has been deleted successfully")
    missing = [error for error in failures.errors if isinstance(error, NotFound)]
    if missing and len(missing) == len(failures.errors):
        raise NotFound(f"{len(missing)} of {len(names)} jobs were not there", status=404)
    failures.raise_if_any(len(names), "jobs")
