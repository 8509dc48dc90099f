"""`arena data list`: the volume claims that `--data` can mount."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from muster.api.kinds import Kind
from muster.api.meta import Object, ObjectMeta
from muster.cli.options import cluster_options
from muster.cli.show.table import json_or_yaml, table
from muster.cli.show.units import age
from muster.cli.verb_groups import AliasGroup

if TYPE_CHECKING:
    from muster.client.target import Target


class _Spec(Object, frozen=True):
    access_modes: tuple[str, ...] = ()


class _Status(Object, frozen=True):
    phase: str = ""


class _Claim(Object, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()
    status: _Status = _Status()


CLAIMS = Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", _Claim)
_HEADER = ("NAME", "ACCESSMODE", "DESCRIPTION", "OWNER", "AGE")


@click.group(name="data", cls=AliasGroup, aliases={"ls": "list"})
def command() -> None:
    """Volumes that jobs can mount."""


@command.command(name="list")
@click.option("--all-namespaces", "--allNamespaces", "-A", is_flag=True, help="All namespaces.")
@click.option("--output", "-o", type=click.Choice(["wide", "json", "yaml", "name"]), default="wide")
@cluster_options
def list_(target: Target, all_namespaces: bool, output: str) -> None:
    """List the volume claims that are bound; `submit --data NAME:/path` mounts one.

    \b
    Example:
      arena data list
    """
    cluster = target.cluster()
    space = "" if all_namespaces else target.namespace_in(cluster)
    with cluster.connect() as client:
        claims = [c for c in client.list(CLAIMS, space).items if c.status.phase == "Bound"]
    now = datetime.now(UTC)
    rows = [_row(claim, now) for claim in claims]
    if output == "name":
        print("\n".join(row[0] for row in rows))
    elif output == "wide":
        shown = [_HEADER, *rows]
        if all_namespaces:
            spaces = ["NAMESPACE", *(claim.metadata.namespace for claim in claims)]
            shown = [(row[0], space, *row[1:]) for space, row in zip(spaces, shown, strict=True)]
        print(table(shown))
    else:
        keys = [word.lower() for word in _HEADER]
        data = [
            {"namespace": claim.metadata.namespace, **dict(zip(keys, row, strict=True))}
            for claim, row in zip(claims, rows, strict=True)
        ]
        print(json_or_yaml(data, output))


def _row(claim: _Claim, now: datetime) -> tuple[str, ...]:
    said = claim.metadata.annotations
    return (
        claim.metadata.name,
        ",".join(claim.spec.access_modes),
        said.get("description", ""),
        said.get("owner", ""),
        age(claim.metadata.creation_timestamp, now),
    )
