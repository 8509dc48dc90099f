"""`arena open [JOB]`: a job's TensorBoard in the browser; without a job, the dashboard."""

from __future__ import annotations

import sys
import webbrowser
from typing import TYPE_CHECKING

import click

from muster.api.meta import Key, key_of
from muster.cli import options
from muster.cli.options import cluster_options
from muster.cli.show.messages import note
from muster.cli.verbs.logviewer import no_dashboard
from muster.client.jobs import lookup, tensorboard_url
from muster.errors import MusterError, NotFound

if TYPE_CHECKING:
    from muster.client.target import Target


@click.command(name="open")
@options.name_argument(required=False)
@click.option("--print", "only_print", is_flag=True, help="Print the address and open nothing.")
@options.type_option
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
        kind, raw = lookup.get_job(client, Key(target.namespace_in(cluster), name), type_)
        key = key_of(raw)
        found = tensorboard_url.of_job(client, cluster, key)
    if found is None:
        raise NotFound(
            f"the job {key.name} has no TensorBoard",
            status=404,
            hint=f"`arena submit {kind.kind.lower()} --tensorboard` gives a job one.",
        )
    if not found.url:
        raise MusterError(
            f"the address of the TensorBoard of {key.name} is not known: {found.trouble}"
        )
    print(found.url)
    sys.stdout.flush()
    if found.trouble:
        raise MusterError(f"the TensorBoard of {key.name} is not running: {found.trouble}")
    if not only_print and not webbrowser.open(found.url):
        note("no browser could be started here: open the address yourself")
