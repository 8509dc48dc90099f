"""`muster operator`: make jobs into pods, services and gangs, and say how they are."""

from __future__ import annotations

from typing import Any

import click

from muster.cli import daemon
from muster.cli.cluster import Where, cluster_options
from muster.cli.flags import Command


@click.command(name="operator", cls=Command)
@click.option(
    "--enable-gang-scheduling/--no-enable-gang-scheduling",
    default=True,
    show_default=True,
    help="Start the replicas of a job together or not at all.",
)
@click.option("--gang-scheduler-name", default="muster", show_default=True)
@click.option("--gang-dialect", default="auto", show_default=True, help="How gangs are declared.")
@daemon.options
@cluster_options
def command(
    where: Where,
    enable_gang_scheduling: bool,
    gang_scheduler_name: str,
    gang_dialect: str,
    **given: Any,
) -> None:
    """Run the job operator.

    With --namespace it watches that one only.

    \b
    Example:
      muster operator --kubeconfig ~/.kube/config --leader-elect --metrics-port 8080
    """
    from muster.operator.run import Options, run
    from muster.operator.seen import Settings

    settings = Settings(
        gang=enable_gang_scheduling, dialect=gang_dialect, scheduler=gang_scheduler_name
    )

    async def work(context: daemon.Context) -> None:
        lead = context.election.lead if context.election else None
        how = Options(where.namespace, settings, lead=lead, health=context.health)
        await run(context.client, how, context.stop)

    daemon.run(where, daemon.Daemon("operator", **given), work)
