"""`arena wait JOB…`: return when the jobs have reached the goal; the exit code says how."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from kubekit.objects.meta import Key
from muster.cli.each_name import Failures
from muster.cli.options import Target, cluster_options, name_argument, type_option
from muster.cli.show.messages import note
from muster.cli.show.progress import StatusLine
from muster.cli.verb_groups import now
from muster.client.jobs import lookup, waiting
from muster.client.jobs.waiting import JobFailed, JobWatch
from muster.jobs.job_state import SUCCEEDED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubekit.client.blocking_client import BlockingClient

GOALS = {"finished": waiting.FINISHED, "running": waiting.STARTED, "deleted": ()}


@click.command(name="wait")
@name_argument(many=True)
@click.option(
    "--for", "goal", type=click.Choice(list(GOALS)), default="finished", show_default=True,
    help="The state to wait for.",
)  # fmt: skip
@click.option("--timeout", default="", metavar="DURATION", help="Give up after this time, e.g. 2h.")
@type_option
@cluster_options
def command(target: Target, names: tuple[str, ...], goal: str, timeout: str, type_: str) -> None:
    """Wait until jobs are finished, and end with 0 if all succeeded, with 10 if one failed.

    \b
    Examples:
      arena wait hello && echo trained
      arena wait hello --for running --timeout 5m
    """
    from muster.jobs.build.flag_values import seconds

    cluster = target.cluster()
    namespace = target.namespace_in(cluster)
    deadline = time.monotonic() + seconds("--timeout", timeout) if timeout else float("inf")
    keys = [Key(namespace, name) for name in names]
    failures = Failures()
    with cluster.connect() as client:
        if goal == "deleted":
            for key in keys:
                subject = f"the deletion of {key.name}"
                with StatusLine(now, subject=subject) as line:
                    waiting.wait_until_deleted(
                        client, key, type_, deadline=deadline, notify=line.show
                    )
                print(f"{key.name} deleted")
            return
        for watch in _find_all(client, keys, type_):
            try:
                with StatusLine(now, subject=f"the job {watch.name}") as line:
                    job = waiting.wait_for(
                        watch, GOALS[goal], deadline=deadline, on_look=line.show_job,
                        notify=line.show,
                    )  # fmt: skip
                print(f"{job.trainer}/{job.name} {job.status.lower()}")
                if job.status == SUCCEEDED and job.reason:
                    note(job.reason, "warn")
            except JobFailed as error:
                failures.errors.append(error)
    failures.raise_if_any(len(names), "jobs")


def _find_all(client: BlockingClient, keys: Sequence[Key], type_: str) -> list[JobWatch]:
    """The jobs; a missing job is reported at once, not after the others have ended."""
    failures = Failures()
    watches = []
    for key in keys:
        with failures.collecting():
            found = lookup.get_job(client, key, type_)
            watches.append(JobWatch(client, found.kind, found.raw))
    failures.raise_if_any(len(keys), "jobs")
    return watches
