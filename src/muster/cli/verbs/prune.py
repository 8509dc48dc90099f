"""`arena prune --since DURATION`: delete jobs that ended at least that long ago."""

from __future__ import annotations

import contextlib
from datetime import timedelta

import click

from kubekit.request_errors import NotFound
from muster.cli.each_name import Failures
from muster.cli.options import Target, all_namespaces_option, cluster_options, type_option
from muster.cli.show.messages import confirm, note_cluster, note_once
from muster.cli.verb_groups import now
from muster.client.jobs import job_operations, lookup
from muster.jobs.view.units import count, duration


@click.command(name="prune")
@click.option("--since", "-s", required=True, metavar="DURATION", help="How long ago, e.g. 24h.")
@all_namespaces_option
@click.option("--dry-run", is_flag=True, help="Only print their names.")
@click.option(
    "--yes",
    "-y",
    is_flag=True,
    help="Do not ask before a deletion on another cluster than the local one.",
)
@type_option
@cluster_options
def command(
    target: Target, since: str, all_namespaces: bool, dry_run: bool, yes: bool, type_: str
) -> None:
    """Delete jobs that succeeded or failed at least that long ago. Other jobs stay.

    \b
    Examples:
      arena prune --since 24h
      arena prune --since 1h -A --dry-run
    """
    from muster.jobs.build.flag_values import seconds

    limit = timedelta(seconds=seconds("--since", since))
    cluster = target.cluster()
    if not dry_run:
        note_cluster(cluster)
    moment = now()
    with cluster.connect() as client:
        namespace = "" if all_namespaces else target.namespace_in(cluster)
        jobs = lookup.list_jobs(client, namespace, type_, note_once, now=moment)
        old = [job for job in jobs if job_operations.ended_before(job, moment - limit)]
        if not old:
            print("No jobs to delete")
            return
        confirm(cluster, f"Delete {count(len(old), 'job')}", yes=yes or dry_run)
        failures = Failures()
        for job in old:
            text = f"{job.trainer} {job.name} with Age {duration(job.age(moment).total_seconds())}"
            if dry_run:
                print(f"Would delete {text}")
                continue
            # NotFound: another user has deleted the job. With the UID, a new job of the
            # same name is never deleted.
            with failures.collecting(), contextlib.suppress(NotFound):
                (kind,) = lookup.kinds_of_type(job.trainer)
                client.delete(kind, job.key, uid=job.uid, propagation="Background")
                print(f"Delete {text}")
    failures.raise_if_any(len(old), "jobs")
