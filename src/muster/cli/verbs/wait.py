"""`arena wait JOB…`: return when the jobs are as far as asked; the exit code is theirs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from muster.api.meta import Key
from muster.cli import options
from muster.cli.failures import Failures
from muster.cli.options import cluster_options
from muster.cli.show import progress
from muster.client.jobs import lookup
from muster.client.jobs.waiting import JobWatch
from muster.errors import JobFailed, MusterError, NotFound, Unreachable
from muster.jobs.summary import RUNNING, SUCCEEDED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from muster.client.target import Target
    from muster.jobs.summary import JobSummary
    from muster.kube.blocking_client import BlockingClient

LOOK_AGAIN = 0.5
GOALS = {"finished": (SUCCEEDED,), "running": (RUNNING, SUCCEEDED), "deleted": ()}


@click.command(name="wait")
@options.name_argument(many=True)
@click.option(
    "--for", "goal", type=click.Choice(list(GOALS)), default="finished", show_default=True,
    help="How far the jobs must be.",
)  # fmt: skip
@click.option("--timeout", default="", metavar="DURATION", help="Give up after, e.g. 2h.")
@options.type_option
@cluster_options
def command(target: Target, names: tuple[str, ...], goal: str, timeout: str, type_: str) -> None:
    """Wait until jobs are finished, and end with 0 if all succeeded, with 10 if one failed.

    \b
    Examples:
      arena wait hello && echo trained
      arena wait hello --for running --timeout 5m
    """
    from muster.jobs.submission.flag_values import seconds

    cluster = target.cluster()
    space = target.namespace_in(cluster)
    end = time.monotonic() + seconds("--timeout", timeout) if timeout else float("inf")
    failures = Failures()
    with cluster.connect() as client:
        keys = [Key(space, name) for name in dict.fromkeys(names)]
        if goal == "deleted":
            for key in keys:
                _gone(client, key, type_, end)
            return
        for vigil in _look_first(client, keys, type_):
            try:
                with progress.StatusLine() as line:
                    job = reached(vigil.look, GOALS[goal], end, vigil.wait, shown_on(line))
                print(f"{job.trainer}/{job.name} {job.status.lower()}")
            except JobFailed as error:
                failures.errors.append(error)
    failures.end(len(names), "jobs")


def _look_first(client: BlockingClient, keys: Sequence[Key], type_: str) -> list[JobWatch]:
    """A job that is not there is told before the others are waited for."""
    failures = Failures()
    found = []
    for key in keys:
        with failures.kept():
            found.append(JobWatch(client, *lookup.get_job(client, key, type_)))
    failures.end(len(keys), "jobs")
    return found


def shown_on(line: progress.StatusLine) -> Callable[[JobSummary], None]:
    """On a terminal, how the job is while it is waited for; a script waits without a word."""
    if not line.is_drawn:
        return lambda _: None
    return lambda job: line.show(progress.summary(job), progress.running_time(job))


def reached(
    look: Callable[[], JobSummary],
    good: tuple[str, ...],
    end: float,
    sleep: Callable[[float], None] = time.sleep,
    show: Callable[[JobSummary], None] = lambda _: None,
) -> JobSummary:
    """Look until the job is in a good state.

    A job that failed is JobFailed; a cluster that goes away for a while is waited for.
    """
    job = look()
    while True:
        if job.status in good:
            return job
        if job.over:
            raise JobFailed(f"the job {job.name} has {job.status.lower()}{job.because}")
        if time.monotonic() > end:
            raise MusterError(
                f"the job {job.name} is still {job.status.lower()}{job.because}",
                hint=f"`arena explain {job.name}` says more.",
            )
        show(job)
        sleep(LOOK_AGAIN)
        try:
            job = look()
        except NotFound:
            raise NotFound(f"the job {job.name} was deleted meanwhile", status=404) from None
        except Unreachable:
            if time.monotonic() > end:
                raise


def _gone(client: BlockingClient, key: Key, type_: str, end: float) -> None:
    while True:
        try:
            lookup.get_job(client, key, type_)
        except NotFound:
            print(f"{key.name} deleted")
            return
        if time.monotonic() > end:
            raise MusterError(
                f"the job {key.name} is still there", hint=f"`arena delete {key.name}` deletes it."
            )
        time.sleep(LOOK_AGAIN)
