"""`arena logviewer JOB`: the address of the job's page in the dashboard."""

from __future__ import annotations

import click

from kubekit.objects.meta import Key
from muster.cli import dashboard_url
from muster.cli.options import Target, cluster_options, name_argument, type_option
from muster.client.jobs import lookup
from muster.web.urls import job_url


@click.command(name="logviewer")
@name_argument()
@type_option
@cluster_options
def command(target: Target, name: str, type_: str) -> None:
    """Print the address of a job's page in the dashboard, with its logs.

    The address logs one browser in, once, within ten minutes.
    """
    cluster = target.cluster()
    with cluster.connect() as client:
        job = lookup.get_job(client, Key(target.namespace_in(cluster), name), type_)
    page = job_url(job.key.namespace, job.kind.kind, job.key.name)
    print(dashboard_url.of_cluster(cluster, page))
