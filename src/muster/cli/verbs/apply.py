"""`arena apply -f FILE`: create objects or change them, by server-side apply."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from muster.cli.options import Target, cluster_options
from muster.cli.send_manifests import manifest_options, send_manifests
from muster.client.manifests.apply import apply_object


@click.command(name="apply")
@manifest_options
@click.option("--force-conflicts", is_flag=True, help="Take over fields that others manage.")
@click.option("--server-side", is_flag=True, hidden=True, expose_value=False)
@cluster_options
def command(target: Target, force_conflicts: bool, dry_run: str, **given: Any) -> None:
    """Create the objects of manifests, or change the objects that exist.

    \b
    Examples:
      arena apply -f job.yaml
      arena process -f template.yaml --param JOB_NAME=hello | arena apply -f -
    """
    send = partial(apply_object, force=force_conflicts, dry_run=dry_run != "none")
    send_manifests(target, "apply", send, dry_run=dry_run, **given)
