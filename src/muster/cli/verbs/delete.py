"""`arena delete JOB…`: every name is tried; the exit code tells whether all were there.

What a job made is owned by it and goes with it. A record that an interrupted submission left behind
without its job (`NAME-tfjob`, labelled createdBy=arena) is deleted too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from muster.api.kinds import CONFIG_MAPS, PODS
from muster.api.meta import Key
from muster.cli import options
from muster.cli.failures import Failures
from muster.cli.options import cluster_options
from muster.cli.show.messages import arena_info, note
from muster.client.jobs import lookup
from muster.errors import Forbidden, NotFound

if TYPE_CHECKING:
    from muster.client.target import Target
    from muster.kube.blocking_client import BlockingClient


@click.command(name="delete")
@options.name_argument(many=True)
@options.type_option
@cluster_options
def command(target: Target, names: tuple[str, ...], type_: str) -> None:
    """Delete training jobs and everything they made; pod/NAME deletes one pod.

    \b
    Example:
      arena delete hello world
    """
    cluster = target.cluster()
    note(str(cluster))
    space = target.namespace_in(cluster)
    failures = Failures()
    with cluster.connect() as client:
        for name in dict.fromkeys(names):
            with failures.kept():
                try:
                    arena_info(_delete(client, Key(space, name), type_))
                except NotFound:
                    note(f"The training job '{name}' does not exist,skip to delete it", "error")
                    raise
    missing = [error for error in failures.errors if isinstance(error, NotFound)]
    if missing and len(missing) == len(failures.errors):
        raise NotFound(f"{len(missing)} of {len(names)} jobs were not there", status=404)
    failures.end(len(names), "jobs")


def _delete(client: BlockingClient, key: Key, type_: str) -> str:
    """Delete what is meant and say so."""
    meant = lookup.parse_name(key.name, type_)
    bare = Key(key.namespace, meant.name)
    if meant.force == "pod":
        client.delete(PODS, bare)
        return f"The pod {bare.name} has been deleted successfully"
    try:
        kind, raw = lookup.get_job(client, key, type_)
    except NotFound:
        if not _records(client, bare, meant.type):
            raise
    else:
        client.delete(kind, bare, uid=raw["metadata"]["uid"], propagation="Background")
    return f"The training job {bare.name} has been deleted successfully"


def _records(client: BlockingClient, job: Key, type_: str) -> int:
    """Delete the records of a job that is not there; how many there were."""
    count = 0
    for kind in lookup.kinds_of_type(type_):
        key = Key(job.namespace, f"{job.name}-{kind.kind.lower()}")
        try:
            record = client.get(CONFIG_MAPS, key)
        except (NotFound, Forbidden):
            continue
        if record.metadata.labels.get("createdBy") == "arena":
            client.delete(CONFIG_MAPS, key, uid=record.metadata.uid)
            count += 1
    return count
