"""`arena list`: the jobs of a namespace or of all."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import click

from muster.cli import options
from muster.cli.show import job_table, live
from muster.cli.show.live import Frame
from muster.cli.show.messages import note, note_once
from muster.cli.verb_groups import QuickCommand, now
from muster.client.jobs import lookup
from muster.jobs.job_state import STATES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kubekit.objects.meta import Key
    from muster.client.jobs.tensorboard_url import TensorBoard


@click.command(name="list", cls=QuickCommand)
@options.all_namespaces_option
@options.output_option("wide", "json", "yaml", "name")
@click.option(
    "--status", "statuses", multiple=True, type=click.Choice(STATES, case_sensitive=False),
    help="Only jobs in this state.  [repeatable]",
)  # fmt: skip
@click.option("--watch", "-w", is_flag=True, help="Redraw the table when it changes.")
@options.type_option
@options.cluster_options
def command(
    target: options.Target,
    all_namespaces: bool,
    output: str,
    statuses: tuple[str, ...],
    watch: bool,
    type_: str,
) -> None:
    """List training jobs, newest first.

    \b
    Examples:
      arena list
      arena list -A --status running
      arena list -w
    """
    # Thousands of jobs are many new objects, none of them in a cycle: searching for cycles is slow.
    gc.set_threshold(1_000_000)
    cluster = target.cluster()
    namespace = "" if all_namespaces else target.namespace_in(cluster)
    notes: list[str] = []
    with cluster.connect() as client:

        def look() -> Frame:
            moment = now()
            jobs = lookup.list_jobs(client, namespace, type_, note_once, now=moment)
            if statuses:
                jobs = [job for job in jobs if job.status in statuses]
            tensorboards: Mapping[Key, TensorBoard] = {}
            if output in ("json", "yaml"):
                from muster.client.jobs import tensorboard_url

                tensorboards = tensorboard_url.by_service(client, namespace, local=cluster.local)
            if output == "wide":
                notes[:] = job_table.reason_notes(jobs, moment)
            frame = job_table.frame(
                jobs, moment, output, all_namespaces=all_namespaces, tensorboards=tensorboards
            )
            return Frame("\n".join([frame.text, *notes]), frame.state) if watch else frame

        live.show(look, watch=watch)
    for text in notes:
        note(text)
