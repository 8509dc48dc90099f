"""`arena logs NAME`: the output of an instance; with -f, also the output from now on.

NAME is a pod, or a job: then its chief's log is read. `-f` waits for the pod to exist and to start
instead of failing, reconnects after the cluster was unreachable, and follows a job until it ends,
through suspensions and with pods that replace others. `--all` prints the logs of all
instances, each line with the name of its instance.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kubekit.errors import MusterError, UsageError
from kubekit.objects.kinds import PODS
from kubekit.objects.meta import Key
from kubekit.request_errors import BadRequest, NotFound
from muster.cli.options import Target, cluster_options, job_name_completions, type_option
from muster.cli.show import log_prefixes
from muster.cli.show.messages import note
from muster.cli.verb_groups import QuickCommand, now
from muster.client.jobs import lookup
from muster.client.logs import job_logs
from muster.client.logs.log_choice import FoundLogs, WantedLogs, find_logs
from muster.client.logs.pod_log import LogOptions
from muster.jobs.job_state import FAILED
from muster.jobs.view.instance import instance as view

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.client.blocking_client import BlockingClient
    from muster.jobs.view.instance import Instance
    from muster.jobs.view.summary import JobSummary


@click.command(name="logs", cls=QuickCommand)
@click.argument("name", metavar="JOB|POD", shell_complete=job_name_completions)
@click.option("--follow", "-f", is_flag=True, help="Wait for the pod and follow its log.")
@click.option(
    "--instance",
    "-i",
    default="",
    help="Pod to read, or the index of a worker  [default: the chief]",
)
@click.option("--all", "-a", "everyone", is_flag=True, help="All replicas, each line with its pod.")
@click.option("--container", "-c", default="", help="Container to read.")
@click.option(
    "--tail", "-t", type=click.IntRange(-1), default=-1, help="Only the last lines; -1 prints all."
)
@click.option(
    "--since", default="", metavar="DURATION", help="Only lines that are newer than this, e.g. 5m."
)
@click.option(
    "--since-time", default="", metavar="TIME", help="Only lines after this RFC3339 time."
)
@click.option("--timestamps", is_flag=True, help="Each line with its time.")
@click.option("--previous", is_flag=True, help="The attempt before the last restart.")
@click.option(
    "--attempt", type=click.IntRange(1), help="Attempt to read; 1 is the first (local cluster)."
)
@type_option
@cluster_options
def command(
    target: Target,
    name: str,
    instance: str,
    everyone: bool,
    attempt: int | None,
    type_: str,
    **given: Any,
) -> None:
    """Print or follow the logs of a job or a pod.

    On the local cluster the logs of all replicas and attempts stay until the job is deleted.

    \b
    Examples:
      arena logs hello
      arena logs -f hello -i 1
      arena logs -f hello --all
      arena logs hello -i hello-worker-1 --previous
    """
    if instance and everyone:
        raise UsageError("-i and --all cannot be used together")
    given["since"] = _seconds_back(given["since"], given.pop("since_time"))
    given["tail"] = given["tail"] if given["tail"] >= 0 else None
    options = LogOptions(**given)
    if attempt is not None and (options.previous or options.follow):
        raise UsageError("--attempt cannot be used with --previous or --follow")
    wanted = WantedLogs(options, instance, everyone, attempt)
    cluster = target.cluster()
    with cluster.connect() as client, _ending_in_a_sentence(options):
        key = Key(target.namespace_in(cluster), name)
        logs = find_logs(client, key, type_, wanted, note)
        sources, job = logs.sources, logs.job
        if everyone:
            warn = partial(note, level="warn")
            chunks = job_logs.read_all(cluster.connect, logs, options, note, warn)
            printed = log_prefixes.print_logs(chunks, [source.pod for source in sources])
        else:
            chunks = job_logs.read_one(client, logs, options, note)
            printed = log_prefixes.print_log(chunk for _, chunk in chunks)
        if not printed and job is not None:
            _note_silence(job, logs, wanted)
        if job is not None:
            shown = sources[0].pod.name if printed and not everyone else None
            pods = {source.pod.name for source in sources}
            _note_end(client, job, shown, pods, wanted)
        elif not options.follow:
            with suppress(NotFound):  # the log of a pod that is gone
                _note_waiting(view(client.get(PODS, sources[0].pod)))


@contextmanager
def _ending_in_a_sentence(options: LogOptions) -> Iterator[None]:
    """Ctrl-C ends the following only; a wrong `-c` is not found."""
    try:
        yield
    except KeyboardInterrupt:
        if options.follow:
            note("no longer following; the job continues")
        raise
    except BadRequest as error:
        if options.container and "is not valid for pod" in str(error):
            raise NotFound(
                str(error), hint="`arena get POD -o yaml` shows its containers."
            ) from None
        raise


def _note_end(
    client: BlockingClient, job: JobSummary, shown: str | None, pods: set[str], wanted: WantedLogs
) -> None:
    """Say why the job failed, or that its success stopped one of these pods.

    Not why it failed if the user chose a pod, or if it was `shown`: the pod whose log was printed.
    """
    if not job.over or job.settling:  # it may have ended while its log was followed
        with suppress(MusterError):
            job = lookup.get_summary(client, job.key, job.trainer)
    if job.status == FAILED and job.failed_pod != shown and not wanted.instance:
        # With --all the last lines were printed.
        cause = f": {job.headline}" if wanted.everyone and job.headline else job.cause
        note(f"the job {job.name} failed{cause}")
    if job.stopped is not None and not pods.isdisjoint(job.stopped.names):
        note(job.stopped.message)


def _note_silence(job: JobSummary, logs: FoundLogs, wanted: WantedLogs) -> None:
    """Say why a pod has no log, or name the log before the restart if it logged nothing since."""
    options = wanted.options
    if wanted.everyone and not options.follow:
        _note_waiting_pods(job)
    elif not options.follow:
        for row in job.instances:
            if row.name == logs.sources[0].pod.name:
                _note_waiting(row, job.reason)
    limited = options.tail is not None or options.since is not None
    if options.follow or wanted.earlier or limited:
        return
    shown = {source.pod.name for source in logs.sources if source.attempt is None}
    if any(row.name in shown and row.restarts for row in job.instances):
        choice = "--all" if wanted.everyone else f"-i {logs.sources[0].pod.name}"
        command = f"arena logs {job.name} {choice} --previous"
        note(f"nothing is logged yet since the last restart; `{command}` shows the log before it")


def _note_waiting_pods(job: JobSummary) -> None:
    waiting = [row for row in job.instances if row.phase == "Pending" and not row.node]
    if len(waiting) == 1 or len(waiting) < len(job.instances):
        for row in waiting[:1]:
            _note_waiting(row, job.reason)
    elif waiting:
        note(f"no pod of {job.name} has a log yet, because they wait for a node{job.because}")


def _note_waiting(pod: Instance, reason: str = "") -> None:
    """Say why a pod without a node has no log; `reason` is its job's."""
    if pod.phase == "Pending" and not pod.node:
        text = pod.reason or reason
        because = f": {text}" if text else ""
        note(f"{pod.name} has no log yet, because it waits for a node{because}")


def _seconds_back(duration: str, moment: str) -> float | None:
    if duration and moment:
        raise UsageError("--since and --since-time cannot be used together")
    if duration:
        from muster.jobs.build.flag_values import seconds

        return float(seconds("--since", duration))
    if not moment:
        return None
    try:
        time = datetime.fromisoformat(moment)
    except ValueError:
        raise UsageError(
            f"--since-time {moment!r} is invalid", hint="Write --since-time=2026-01-02T03:04:05Z"
        ) from None
    time = time if time.tzinfo else time.astimezone()  # without a zone it is local time
    return max(1.0, (now() - time).total_seconds())  # servers reject 0 seconds
