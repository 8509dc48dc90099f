"""`arena create -f FILE`: create objects; an object that exists already is an error."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from muster.cli.options import Target, cluster_options
from muster.cli.send_manifests import manifest_options, send_manifests
from muster.client.manifests.apply import create_object


@click.command(name="create")
@manifest_options
@cluster_options
def command(target: Target, dry_run: str, **given: Any) -> None:
    """Create the objects of manifests.

    \b
    Examples:
      arena create -f job.yaml
      arena process -f template.yaml --param JOB_NAME=hello | arena create -f -
    """
    send = partial(create_object, dry_run=dry_run != "none")
    send_manifests(target, "create", send, dry_run=dry_run, **given)
