"""`arena open JOB`: a job's TensorBoard in the browser; without a job, an error."""

from __future__ import annotations

import webbrowser

import click

from muster.api.meta import Key
from muster.cli.options import Target, cluster_options, name_argument, type_option
from muster.cli.show.messages import note
from muster.client.jobs import lookup, tensorboard_url
from muster.client.target import no_dashboard
from muster.errors import MusterError, NotFound


@click.command(name="open")
@name_argument(required=False)
@click.option("--print", "only_print", is_flag=True, help="Print the address and open nothing.")
@type_option
@cluster_options
def command(target: Target, name: str | None, only_print: bool, type_: str) -> None:
    """Open a job's TensorBoard in the browser, and print its address.

    \b
    Example:
      arena open hello
    """
    if name is None:
        raise no_dashboard("`arena open JOB` opens a job's TensorBoard.")
    cluster = target.cluster()
    with cluster.connect() as client:
        job = lookup.get_job(client, Key(target.namespace_in(cluster), name), type_)
        tensorboard = tensorboard_url.of_job(client, cluster, job.key)
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
    print(tensorboard.url, flush=True)
    if tensorboard.problem:
        raise MusterError(f"the TensorBoard of {name} is not running: {tensorboard.problem}")
    if not only_print and not webbrowser.open(tensorboard.url):
        note("no browser could be started here: open the address yourself")
