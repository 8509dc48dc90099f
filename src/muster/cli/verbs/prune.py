"""`arena prune --since DUR`: delete jobs that ended at least so long ago."""

from __future__ import annotations

import contextlib
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from muster.cli import options
from muster.cli.failures import Failures
from muster.cli.options import cluster_options
from muster.cli.show.messages import note
from muster.cli.show.units import duration
from muster.client.jobs import lookup
from muster.errors import NotFound, UsageError

if TYPE_CHECKING:
    from muster.client.target import Cluster, Target
    from muster.jobs.summary import JobSummary


@click.command(name="prune")
@click.option("--since", "-s", required=True, metavar="DURATION", help="How long ago, e.g. 24h.")
@click.option("--all-namespaces", "--allNamespaces", "-A", is_flag=True, help="All namespaces.")
@click.option("--dry-run", is_flag=True, help="Only say which.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@options.type_option
@cluster_options
def command(
    target: Target, since: str, all_namespaces: bool, dry_run: bool, yes: bool, type_: str
) -> None:
    """Delete jobs that succeeded or failed at least so long ago. Waiting ones are kept.

    \b
    Examples:
      arena prune --since 24h
      arena prune --since 1h -A --dry-run
    """
    from muster.jobs.submission.flag_values import seconds

    limit = timedelta(seconds=seconds("--since", since))
    cluster = target.cluster()
    if not dry_run:
        note(str(cluster))
    now = datetime.now(UTC)
    with cluster.connect() as client:
        space = "" if all_namespaces else target.namespace_in(cluster)
        old = [job for job in lookup.list_jobs(client, space, type_) if _ended(job, now, limit)]
        if not old:
            print("No job need to be deleted")
            return
        if not (dry_run or yes):
            _ask(cluster, old)
        failures = Failures()
        for job in old:
            said = f"{job.trainer} {job.name} with Age {duration(job.age(now).total_seconds())}"
            if dry_run:
                print(f"Would delete {said}")
                continue
            # Somebody else may be quicker.
            with failures.kept(), contextlib.suppress(NotFound):
                (kind,) = lookup.kinds_of_type(job.trainer)
                client.delete(kind, job.key, uid=job.uid, propagation="Background")
                print(f"Delete {said}")
    failures.end(len(old), "jobs")


def _ended(job: JobSummary, now: datetime, limit: timedelta) -> bool:
    ended = job.finished or job.created
    return job.over and ended is not None and now - ended >= limit


def _ask(cluster: Cluster, old: list[JobSummary]) -> None:
    """On a cluster that is not this machine's own, a person must agree."""
    if cluster.local:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            f"{len(old)} jobs on {cluster.name} would be deleted, and nobody can be asked",
            hint="--yes deletes them; --dry-run lists them.",
        )
    if not click.confirm(f"Delete {len(old)} jobs on {cluster.name}?", err=True):
        raise click.Abort
