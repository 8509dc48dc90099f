"""`arena open` and `arena logviewer`: addresses of the dashboard and of jobs' TensorBoards.

The dashboard's address has a fresh one-time token. Only the owner of the local cluster can read the
keys from which it is made; the daemon is not asked.
"""

from __future__ import annotations

import webbrowser

import click

from kubekit.errors import MusterError
from kubekit.objects.meta import Key
from kubekit.request_errors import NotFound
from muster.cli import dashboard_url
from muster.cli.options import Target, cluster_options, name_argument, type_option
from muster.cli.show.messages import note
from muster.client.jobs import lookup, tensorboard_url
from muster.web.urls import job_url


@click.command(name="open")
@name_argument(required=False)
@click.option("--print", "only_print", is_flag=True, help="Print the address and open nothing.")
@type_option
@cluster_options
def open(target: Target, name: str | None, only_print: bool, type_: str) -> None:
    """Open the dashboard, or a job's TensorBoard, in the browser, and print its address.

    The address of the dashboard logs one browser in, once, within ten minutes.

    \b
    Examples:
      arena open
      arena open hello
    """
    cluster = target.cluster()
    if name is None:
        _browse(dashboard_url.of_cluster(cluster), only_print)
        return
    with cluster.connect() as client:
        job = lookup.get_job(client, Key(target.namespace_in(cluster), name), type_)
        tensorboard = tensorboard_url.of_job(client, job.key, local=cluster.local)
    name = job.key.name
    if tensorboard is None:
        raise NotFound(
            f"the job {name} has no TensorBoard",
            hint=f"`arena submit {job.kind.kind.lower()} --tensorboard` gives a job one.",
        )
    if not tensorboard.url:
        raise MusterError(
            f"the address of the TensorBoard of {name} is not known: {tensorboard.problem}"
        )
    _browse(tensorboard.url, only_print or bool(tensorboard.problem))
    if tensorboard.problem:
        raise MusterError(f"the TensorBoard of {name} does not answer yet: {tensorboard.problem}")


@click.command(name="logviewer")
@name_argument()
@type_option
@cluster_options
def logviewer(target: Target, name: str, type_: str) -> None:
    """Print the address of a job's page in the dashboard, with its logs.

    The address logs one browser in, once, within ten minutes.
    """
    cluster = target.cluster()
    with cluster.connect() as client:
        job = lookup.get_job(client, Key(target.namespace_in(cluster), name), type_)
    page = job_url(job.key.namespace, job.kind.kind, job.key.name)
    print(dashboard_url.of_cluster(cluster, page))


def _browse(url: str, only_print: bool) -> None:
    print(url, flush=True)
    if not only_print and not webbrowser.open(url):
        note("no browser could be started here: open the address yourself")
