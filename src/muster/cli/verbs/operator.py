"""`muster operator`: create pods, services and gangs for jobs, and report their status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kubekit.errors import no_such
from muster.cli import component_runner
from muster.cli.arena_parser import ArenaCommand
from muster.cli.options import Target, cluster_options
from muster.contract.gang import RESTART_SCOPES

if TYPE_CHECKING:
    from muster.operator.decision_types import Settings

BESIDE_LOCAL = (
    "the local cluster runs an operator already, which takes no part in leader election: both act "
    "on every job and record its events twice; stop this one with Ctrl-C unless you are testing it"
)


@click.command(name="operator", cls=ArenaCommand)
@click.option(
    "--enable-gang-scheduling/--no-enable-gang-scheduling",
    default=True,
    show_default=True,
    help="Start the replicas of a job together or not at all, if the job does not say.",
)
@click.option(
    "--gang-scheduler-name",
    default="muster",
    show_default=True,
    help="The scheduler of gangs whose pods name none.",
)
@click.option(
    "--pod-scheduler-name",
    default="",
    help="The scheduler of pods outside of gangs that name none, if it is Muster's.  "
    "[default: the cluster's own]",
)
@click.option("--gang-dialect", default="auto", show_default=True, help="How gangs are declared.")
@click.option(
    "--default-restart",
    type=click.Choice(RESTART_SCOPES),
    default="replica",
    show_default=True,
    help="What restarts when a replica of a job that does not say fails.",
)
@click.option(
    "--cluster-domain",
    default="",
    envvar="CUSTOM_CLUSTER_DOMAIN",
    show_envvar=True,
    help="Appended to the names in TF_CONFIG and hostfiles, e.g. cluster.local.",
)
@click.option(
    "--mpi-kubectl-delivery-image",
    default="",
    help="Image that carries kubectl, for launchers of MPI jobs whose image has no Python.",
)
@click.option(
    "--pytorch-init-container-image",
    default="",
    help="Image with a shell and nslookup, in which PyTorch workers wait for their master.",
)
@click.option(
    "--leader-elect-resource-namespace",
    "lease_namespace",
    default=component_runner.LEASE_NAMESPACE,
    show_default=True,
    help="Namespace of the lease of --leader-elect.",
)
@component_runner.daemon_options
@cluster_options
def command(target: Target, **given: Any) -> None:
    """Run the job operator.

    With --namespace it watches that namespace only.

    \b
    Example:
      muster operator --kubeconfig ~/.kube/config --leader-elect --metrics-port 8080
    """
    from muster.operator.daemon import Options, run

    settings = _settings(given)

    async def work(context: component_runner.DaemonContext) -> None:
        lead = context.election.run_as_leader if context.election else None
        run_options = Options(target.namespace, settings, lead=lead, health=context.health)
        await run(context.client, run_options, context.stop)

    options = component_runner.DaemonOptions("operator", **given, beside_local=BESIDE_LOCAL)
    component_runner.run(target, options, work)


def _settings(given: dict[str, Any]) -> Settings:
    """The settings that decisions depend on, removed from the options given."""
    from muster.operator.decision_types import Settings

    return Settings(
        gang=given.pop("enable_gang_scheduling"),
        dialect=_checked_dialect(given.pop("gang_dialect")),
        scheduler=given.pop("gang_scheduler_name"),
        pod_scheduler=given.pop("pod_scheduler_name"),
        domain=given.pop("cluster_domain").strip("."),
        delivery_image=given.pop("mpi_kubectl_delivery_image"),
        restart=given.pop("default_restart"),
        init_image=given.pop("pytorch_init_container_image"),
    )


def _checked_dialect(dialect: str) -> str:
    """The dialect, if there is one of that name."""
    from muster.contract.gang_dialects import DIALECT_CHOICES

    if dialect in DIALECT_CHOICES:
        return dialect
    choices = ", ".join(DIALECT_CHOICES)
    message = f"{no_such('dialect', dialect, DIALECT_CHOICES)} (one of {choices})"
    raise click.BadParameter(message, param_hint="--gang-dialect")
