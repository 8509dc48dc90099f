"""`muster scheduler`: give gangs their nodes, whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from muster.cli import daemon
from muster.cli.cluster import Where, cluster_options


@click.command(name="scheduler")
@click.option(
    "--scheduler-name",
    "names",
    multiple=True,
    help="Answer to this name instead of muster, kube-batchd and kube-batch.  [repeatable]",
)
@click.option(
    "--scheduler-config",
    "config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML file of settings; read again when it changes.",
)
@click.option("--shadow", is_flag=True, help="Decide and report, bind nothing.")
@daemon.options
@cluster_options
def command(
    where: Where, names: tuple[str, ...], config: Path | None, shadow: bool, **given: Any
) -> None:
    """Run the gang scheduler.

    \b
    Examples:
      muster scheduler --kubeconfig ~/.kube/config --leader-elect
      muster scheduler --scheduler-name volcano --shadow
    """
    from muster.scheduler.service import Options, run
    from muster.scheduler.settings import NAMES

    async def work(context: daemon.Context) -> None:
        how = Options(
            names or NAMES,
            config=config,
            election=context.election,
            shadow=shadow,
            health=context.health,
        )
        await run(context.client, how, context.stop)

    daemon.run(where, daemon.Daemon("scheduler", **given), work)
