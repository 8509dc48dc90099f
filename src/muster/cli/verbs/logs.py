"""`arena logs NAME`: what an instance printed; with -f, also what it prints from now on.

NAME is a job, whose chief's log it is, or a pod. `-f` waits for the pod to be there and to start
instead of failing, and goes on after the cluster was away. `--all` prints every instance's log with
its name before each line.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from muster.api.core import Pod
from muster.api.meta import Key, key_of
from muster.cli import options
from muster.cli.options import cluster_options
from muster.cli.show.log_lines import TerminalWriter
from muster.client.jobs import logs, lookup
from muster.client.jobs.logs import LogOptions
from muster.errors import UsageError
from muster.jobs.summary import summarize

if TYPE_CHECKING:
    from muster.client.target import Target
    from muster.jobs.summary import JobSummary
    from muster.kube.blocking_client import BlockingClient


@click.command(name="logs")
@click.argument("name", metavar="JOB|POD", shell_complete=options.job_name_completions)
@click.option("--follow", "-f", is_flag=True, help="Wait for the pod and follow its log.")
@click.option("--instance", "-i", default="", help="Pod to read  [default: the chief]")
@click.option("--all", "-a", "everyone", is_flag=True, help="Every instance, with its name.")
@click.option("--container", "-c", default="", help="Container to read.")
@click.option(
    "--tail", "-t", type=click.IntRange(-1), default=-1, help="Only so many lines; -1 is all."
)
@click.option("--since", default="", metavar="DURATION", help="Only lines newer than, e.g. 5m.")
@click.option(
    "--since-time", default="", metavar="TIME", help="Only lines after this RFC3339 time."
)
@click.option("--timestamps", is_flag=True, help="Each line with its time.")
@click.option("--previous", is_flag=True, help="The container before the last restart.")
@options.type_option
@cluster_options
def command(
    target: Target, name: str, instance: str, everyone: bool, type_: str, **how: Any
) -> None:
    """Print or follow the logs of a job or a pod.

    \b
    Examples:
      arena logs hello
      arena logs -f hello -i hello-worker-1
      arena logs -f hello --all
    """
    if instance and everyone:
        raise UsageError("-i and --all exclude each other")
    wanted = _wanted(how)
    cluster = target.cluster()
    with cluster.connect() as client:
        found = lookup.get_job_or_pod(client, Key(target.namespace_in(cluster), name), type_)
        if isinstance(found, Pod):
            pods = [found.metadata.name]
        else:
            own = key_of(found[1])
            job = summarize(found[1], lookup.pods_of(client, own))
            pods = _instances(client, job, instance, wanted, everyone=everyone)
        space = found.metadata.namespace if isinstance(found, Pod) else own.namespace
        keys = [Key(space, pod) for pod in pods]
        if everyone:
            from muster.cli.show.log_lines import print_logs

            print_logs(cluster.connect, keys, wanted)
        else:
            screen = TerminalWriter()
            logs.read_log(client, keys[0], wanted, screen.write)
            screen.end()


def _wanted(how: dict[str, Any]) -> LogOptions:
    return LogOptions(
        follow=how["follow"],
        container=how["container"],
        tail=how["tail"] if how["tail"] >= 0 else None,
        since=_since(how["since"], how["since_time"]),
        timestamps=how["timestamps"],
        previous=how["previous"],
    )


def _since(text: str, moment: str) -> float | None:
    if text and moment:
        raise UsageError("--since and --since-time exclude each other")
    if text:
        from muster.jobs.submission.flag_values import seconds

        return float(seconds("--since", text))
    if not moment:
        return None
    try:
        at = datetime.fromisoformat(moment)
    except ValueError:
        raise UsageError(
            f"--since-time {moment!r} is invalid", hint="Write --since-time=2026-01-02T03:04:05Z"
        ) from None
    at = at if at.tzinfo else at.astimezone()
    return max(1.0, (datetime.now(UTC) - at).total_seconds())


def _instances(
    client: BlockingClient, job: JobSummary, instance: str, wanted: LogOptions, *, everyone: bool
) -> list[str]:
    """The pods to read: one named, all, the chief, or the only one."""
    if not job.instances:
        job = logs.wait_for_instances(client, job, follow=wanted.follow)
    names = [row.name for row in job.instances]
    if everyone:
        return names
    if instance:
        if instance not in names:
            raise UsageError(
                f"invalid instance name {instance} in job {job.name},"
                f"please use 'arena get {job.name}' to make sure instance name"
            )
        return [instance]
    job = logs.wait_for_chief(client, job, follow=wanted.follow)
    job = logs.wait_for_instances(client, job, follow=wanted.follow)  # it may have ended meanwhile
    if job.chief is not None:
        return [job.chief.name]
    names = [row.name for row in job.instances]
    if len(names) == 1:
        return names
    raise UsageError(
        f"{len(names)} instances have been found:\n"
        + "\n".join(names)
        + "\nplease use '-i' or '--instance' to filter, or --all."
    )
