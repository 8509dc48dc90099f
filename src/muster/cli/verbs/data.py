"""`arena data list`: the volume claims that `--data` can mount."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kubekit.objects.storage import VOLUME_CLAIMS, VolumeClaim
from muster.cli.options import Target, all_namespaces_option, cluster_options, output_option
from muster.cli.show.table import json_or_yaml, table
from muster.cli.verb_groups import AliasGroup, now
from muster.jobs.view.units import age

if TYPE_CHECKING:
    from datetime import datetime


_COLUMNS = ("name", "namespace", "accessmode", "description", "owner", "age")


@click.group(name="data", cls=AliasGroup, aliases={"ls": "list"})
def command() -> None:
    """Volumes that jobs can mount."""


@command.command(name="list")
@all_namespaces_option
@output_option("wide", "json", "yaml", "name")
@cluster_options
def list_(target: Target, all_namespaces: bool, output: str) -> None:
    """List the bound volume claims; `submit --data NAME:/path` mounts one of them.

    \b
    Example:
      arena data list
    """
    cluster = target.cluster()
    namespace = "" if all_namespaces else target.namespace_in(cluster)
    with cluster.connect() as client:
        claims = client.list(VOLUME_CLAIMS, namespace).items
    moment = now()
    rows = [_row(claim, moment) for claim in claims if claim.status.phase == "Bound"]
    if output == "name":
        print("\n".join(row["name"] for row in rows))
    elif output == "wide":
        columns = [name for name in _COLUMNS if all_namespaces or name != "namespace"]
        cells = ([row[name] for name in columns] for row in rows)
        print(table([[name.upper() for name in columns], *cells]))
    else:
        print(json_or_yaml(rows, output))


def _row(claim: VolumeClaim, now: datetime) -> dict[str, str]:
    metadata = claim.metadata
    return {
        "name": metadata.name,
        "namespace": metadata.namespace,
        "accessmode": ",".join(claim.spec.access_modes),
        "description": metadata.annotations.get("description", ""),
        "owner": metadata.annotations.get("owner", ""),
        "age": age(metadata.creation_timestamp, now),
    }
