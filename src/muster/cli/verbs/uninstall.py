"""`muster uninstall`: remove Muster from a Kubernetes cluster; jobs stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kubekit.errors import UsageError
from muster.cli.each_name import Failures
from muster.cli.options import Target, cluster_options
from muster.cli.show.messages import confirm, note, note_cluster
from muster.jobs.view.units import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubekit.client.blocking_client import BlockingClient
    from muster.install.removal import Installation


@click.command(name="uninstall")
@click.option("--crds", is_flag=True, help="Delete Muster's CRDs too, and with them ALL jobs.")
@click.option("--dry-run", is_flag=True, help="Only print what would be deleted.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@cluster_options
def command(target: Target, crds: bool, dry_run: bool, yes: bool) -> None:
    """Remove the operator, the scheduler and the dashboard, their roles and records.

    Only the installation in the namespace `muster`, or in --namespace, is removed. Jobs stay, and
    so do running pods, the CRDs, the namespace, and the roles muster-view and muster-edit, by which
    users see and delete their jobs. An installation by Helm is removed with `helm uninstall`.

    \b
    Examples:
      muster uninstall --dry-run
      muster uninstall --namespace team
      muster uninstall --crds
    """
    from muster.install import removal
    from muster.install.objects.values import NAMESPACE, check_namespace

    namespace = check_namespace(target.namespace or NAMESPACE, "--namespace")
    cluster = target.cluster()
    if cluster.local:
        raise UsageError(
            "the local cluster has its own operator and scheduler",
            hint="`arena down` stops the local cluster.",
        )
    if not dry_run:
        note_cluster(cluster)
    with cluster.connect() as client:
        installation = removal.find(client, namespace, crds=crds)
        if not installation.objects:
            print(_absent(namespace, installation.others))
        elif dry_run:
            for row in installation.objects:
                print(f"{row} would be deleted")
            for row in installation.kept:
                print(f"{row} would stay")
        else:
            jobs = removal.count_jobs(client)
            found = count(len(installation.objects), "object")
            action = f"Remove Muster from the namespace {namespace} ({found})"
            if crds and jobs:
                action += f" and DELETE {count(jobs, 'job')}"
            confirm(cluster, action, yes=yes)
            _remove(client, installation)
            _note_what_stays(installation, 0 if crds else jobs)


def _absent(namespace: str, others: Sequence[str]) -> str:
    if not others:
        return "Muster is not installed"
    places = ", ".join(others)
    return f"Muster is not installed in the namespace {namespace}, but in {places}: use --namespace"


def _remove(client: BlockingClient, installation: Installation) -> None:
    from muster.install import removal

    failures = Failures()
    for row in installation.objects:
        with failures.collecting():
            if removal.delete(client, row):
                print(f"{row} deleted", flush=True)
    failures.raise_if_any(len(installation.objects), "objects")


def _note_what_stays(installation: Installation, jobs: int) -> None:
    if jobs:
        note(f"{count(jobs, 'job')} left on the cluster; nothing changes until an operator runs")
    if installation.kept:
        names = " and ".join(map(str, installation.kept))
        note(
            f"{names} stay, so that users can see and delete their jobs; `muster uninstall --crds` "
            "deletes them with the CRDs and ALL jobs"
        )
