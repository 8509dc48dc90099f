"""`arena submit KIND`: build the job from flags and create it.

Objects go straight to the API: no helm, no kubectl, no temporary files. The job is created before
the ConfigMap that records how it was submitted, so that a crash between the two leaves a working
job rather than a stray name; a refused ConfigMap takes the job back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from muster.api.kinds import CONFIG_MAPS, TFJOBS, Kind
from muster.api.meta import Key, Raw
from muster.cli import flags
from muster.cli.cluster import Where, choose_or_start, cluster_options
from muster.cli.output import info, structured
from muster.cli.verbs import SubVerbs
from muster.errors import AlreadyExists, MusterError, UsageError
from muster.jobs import build

if TYPE_CHECKING:
    from muster.kube.blocking import BlockingClient


@click.group(name="submit", cls=SubVerbs, aliases={"tf": "tfjob"})
def command() -> None:
    """Submit a training job.

    Example: arena submit tf --name=hello --image=python:3.12 --gang --workers=2 "python train.py"
    """


@command.command(name="tfjob", cls=flags.Command)
@flags.shared
@flags.tensorflow
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@cluster_options
def tfjob(where: Where, words: tuple[str, ...], dry_run: bool, output: str, **given: Any) -> None:
    """Submit a TensorFlow job (also: submit tf).

    All words after the flags are the training command; they are joined and run by --shell.

    Example: arena submit tf --name=hello --image=python:3.12 --gang --workers=2 "python train.py"
    """
    job = build.tfjob(build.TensorFlow(command=words, **given))
    if dry_run:
        print(structured(job, output or "yaml"))
        return
    create(TFJOBS, job, where)


def create(kind: Kind[Raw], job: Raw, where: Where) -> None:
    """Create the job and its ConfigMap, and say so as arena does."""
    cluster = choose_or_start(where)
    cluster.announce()
    namespace = where.namespace_in(cluster)
    name = job["metadata"]["name"]
    type_ = kind.kind.lower()
    record = Key(namespace, f"{name}-{type_}")
    with cluster.connect() as client:
        _send(client, kind, job, record)
    print(f"configmap/{record.name} created")
    print(f"{type_}.{kind.group}/{name} created")
    info(f"The Job {name} has been submitted successfully")
    info(f"You can run `arena get {name} --type {type_} -n {namespace}` to check the job status")


def _send(client: BlockingClient, kind: Kind[Raw], job: Raw, record: Key) -> None:
    name = job["metadata"]["name"]
    try:
        made = client.create(kind, job, namespace=record.namespace)
    except AlreadyExists:
        raise UsageError(
            f"the job {name} is already exist, please delete it first. use 'arena delete {name}'"
        ) from None
    try:
        client.create(CONFIG_MAPS, _config_map(kind, made, record), namespace=record.namespace)
    except MusterError:
        client.delete(kind, Key(record.namespace, name), uid=made["metadata"]["uid"])
        raise


def _config_map(kind: Kind[Raw], job: Raw, record: Key) -> Raw:
    metadata = job["metadata"]
    owner = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": record.name,
            "labels": {"createdBy": "arena"},
            "ownerReferences": [owner],
        },
        "data": {
            "app": f"{kind.kind.lower()}.{kind.group}/{metadata['name']}",
            "values": structured({key: job[key] for key in ("apiVersion", "kind", "spec")}, "yaml"),
        },
    }
