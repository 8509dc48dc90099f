"""`arena get JOB`: one job, its instances, and why it waits."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from muster.api.meta import Key
from muster.cli import describe, find
from muster.cli.cluster import Where, cluster_options
from muster.cli.output import structured


@click.command(name="get")
@click.argument("name")
@click.option("--output", "-o", type=click.Choice(["wide", "json", "yaml", "name"]), default="wide")
@click.option(
    "--format", "form", type=click.Choice(["sections", "classic"]), default="sections",
    help="classic is one table, a row per instance.",
)  # fmt: skip
@find.type_option
@cluster_options
def command(where: Where, name: str, output: str, form: str, type_: str) -> None:
    """Show one training job, its instances and why it waits.

    \b
    Examples:
      arena get hello
      arena get hello -o json
    """
    cluster = where.cluster()
    with cluster.connect() as client:
        job = find.one(client, Key(where.namespace_in(cluster), name), type_)
    now = datetime.now(UTC)
    if output == "name":
        print(f"{job.trainer}/{job.name}")
    elif output != "wide":
        print(structured(describe.as_data(job, now), output))
    elif form == "classic":
        print(describe.classic(job, now))
    else:
        print(describe.sections(job, now))
