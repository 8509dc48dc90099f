"""`muster scheduler`: place gangs on nodes, whole or not at all."""

from __future__ import annotations

import gc
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubekit.errors import UsageError
from kubekit.objects.kinds import LEASES
from kubekit.request_errors import Forbidden
from muster.cli import component_runner
from muster.cli.options import Target, cluster_options
from muster.cli.show.messages import note

if TYPE_CHECKING:
    from kubekit.client.client import Client
    from muster.contract.other_schedulers import OtherScheduler


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
@click.option("--shadow", is_flag=True, help="Decide and report, but bind nothing.")
@click.option("--force", is_flag=True, help="Start beside another scheduler of the same name.")
@component_runner.daemon_options
@cluster_options
def command(
    target: Target,
    names: tuple[str, ...],
    config: Path | None,
    shadow: bool,
    force: bool,
    **given: Any,
) -> None:
    """Run the gang scheduler.

    \b
    Examples:
      muster scheduler --kubeconfig ~/.kube/config --leader-elect
      muster scheduler --scheduler-name volcano --shadow
    """
    from muster.contract.scheduler_rights import NAMES
    from muster.scheduler.daemon import Options, run
    from muster.scheduler.settings import load

    # Watched objects live long: searching them for cycles after every few hundred new objects
    # takes longer than scheduling.
    gc.set_threshold(50_000, 20, 50)

    async def work(context: component_runner.DaemonContext) -> None:
        scheduler_names = names or NAMES
        if not (force or shadow):
            served = load(config, scheduler_names).names if config else scheduler_names
            await _refuse_others(context.client, served, elects=context.election is not None)
        run_options = Options(
            scheduler_names,
            config=config,
            election=context.election,
            shadow=shadow,
            health=context.health,
        )
        await run(context.client, run_options, context.stop)

    component_runner.run(target, component_runner.DaemonOptions("scheduler", **given), work)


async def _refuse_others(client: Client, names: tuple[str, ...], *, elects: bool) -> None:
    """Refuse to start beside a scheduler of the same name: both would bind the same pods."""
    try:
        alive = await _others(client, names, elects=elects)
    except Forbidden as error:
        note(f"cannot check whether another scheduler answers to {', '.join(names)}: {error}")
        return
    if alive:
        raise UsageError(
            "; ".join(map(str, alive)),
            hint="Stop it first, take another --scheduler-name, or start beside it with --force.",
        )


async def _others(client: Client, names: tuple[str, ...], *, elects: bool) -> list[OtherScheduler]:
    from muster.contract import other_schedulers as others
    from muster.scheduler import name_leases

    if not elects:
        holder = name_leases.holder_identity(os.getpid())
        return await name_leases.claim_names(
            client, names, component_runner.LEASE_NAMESPACE, holder
        )

    def gone(holder: str) -> bool:
        # With leader election, another Muster scheduler is a standby and no conflict.
        return name_leases.has_died(holder) or holder == others.ELECTED

    leases = (await client.list(LEASES, fields=others.LEASE_FIELD_SELECTOR)).items
    return others.find_others(names, leases, datetime.now(UTC), gone=gone)
