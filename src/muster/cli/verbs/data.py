"""`arena data list`: the volume claims that `--data` can mount."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from muster.api.storage import VOLUME_CLAIMS
from muster.cli.options import Target, all_namespaces_option, cluster_options, output_option
from muster.cli.show.table import json_or_yaml, table, with_namespaces
from muster.cli.show.units import age
from muster.cli.verb_groups import AliasGroup

if TYPE_CHECKING:
    from muster.api.storage import VolumeClaim

_HEADER = ("NAME", "ACCESSMODE", "DESCRIPTION", "OWNER", "AGE")


@click.group(name="data", cls=AliasGroup, aliases={"ls": "list"})
def command() -> None:
    """Volumes that jobs can mount."""


@command.command(name="list")
@all_namespaces_option
@output_option("wide", "json", "yaml", "name")
@cluster_options
def list_(target: Target, all_namespaces: bool, output: str) -> None:
    """List the volume claims that are bound; `submit --data NAME:/path` mounts one.

    \b
    Example:
      arena data list
    """
    cluster = target.cluster()
    namespace = "" if all_namespaces else target.namespace_in(cluster)
    with cluster.connect() as client:
        claims = [
            c for c in client.list(VOLUME_CLAIMS, namespace).items if c.status.phase == "Bound"
        ]
    namespaces = [claim.metadata.namespace for claim in claims]
    now = datetime.now(UTC)
    rows = [_row(claim, now) for claim in claims]
    if output == "name":
        print("\n".join(row[0] for row in rows))
    elif output == "wide":
        shown = [_HEADER, *rows]
        print(table(with_namespaces(shown, namespaces, column=1) if all_namespaces else shown))
    else:
        keys = ("namespace", *(word.lower() for word in _HEADER))
        data = [
            dict(zip(keys, (namespace, *row), strict=True))
            for namespace, row in zip(namespaces, rows, strict=True)
        ]
        print(json_or_yaml(data, output))


def _row(claim: VolumeClaim, now: datetime) -> tuple[str, ...]:
    annotations = claim.metadata.annotations
    return (
        claim.metadata.name,
        ",".join(claim.spec.access_modes),
        annotations.get("description", ""),
        annotations.get("owner", ""),
        age(claim.metadata.creation_timestamp, now),
    )
