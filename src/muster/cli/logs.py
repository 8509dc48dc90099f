"""`arena logs JOB`: what an instance printed; with -f, also what it prints from now on.

Without `-i` it is the chief's log. `-f` waits for the pod to start instead of failing.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from muster.api.kinds import PODS
from muster.api.meta import Key
from muster.cli import find
from muster.cli.cluster import Where, cluster_options
from muster.cli.output import note
from muster.errors import MusterError, NotFound, UsageError
from muster.jobs.build import seconds

if TYPE_CHECKING:
    from muster.api.core import Pod
    from muster.jobs.view import View
    from muster.kube.blocking import BlockingClient

LOOK_AGAIN = 0.3


@click.command(name="logs")
@click.argument("name")
@click.option("--follow", "-f", is_flag=True, help="Wait for the pod and follow its log.")
@click.option("--instance", "-i", default="", help="Pod to read  [default: the chief]")
@click.option("--container", "-c", default="", help="Container to read.")
@click.option(
    "--tail", "-t", type=click.IntRange(-1), default=-1, help="Only so many lines; -1 is all."
)
@click.option("--since", default="", help="Only lines newer than, e.g. 5m.")
@click.option("--timestamps", is_flag=True, help="Each line with its time.")
@click.option("--previous", is_flag=True, help="The container before the last restart.")
@find.type_option
@cluster_options
def command(
    where: Where, name: str, instance: str, follow: bool, container: str, type_: str, **how: object
) -> None:
    """Print or follow the logs of a job.

    \b
    Examples:
      arena logs hello
      arena logs -f hello -i hello-worker-1
    """
    cluster = where.cluster()
    with cluster.connect() as client:
        job = find.one(client, Key(where.namespace_in(cluster), name), type_)
        pod = Key(job.namespace, instance or _instance(client, job, follow))
        if instance and instance not in {i.name for i in job.instances}:
            raise UsageError(
                f"invalid instance name {instance} in job {name}",
                hint=f"`arena get {name}` lists its instances.",
            )
        if follow:
            wait_started(client, pod)
        for chunk in client.logs(
            pod,
            container=container,
            follow=follow,
            tail=_tail(how["tail"]),
            since=_since(how["since"]),
            timestamps=bool(how["timestamps"]),
            previous=bool(how["previous"]),
        ):
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()


def _tail(lines: object) -> int | None:
    return lines if isinstance(lines, int) and lines >= 0 else None  # -1: all of them


def _since(text: object) -> float | None:
    return float(seconds("--since", str(text))) if text else None


def _instance(client: BlockingClient, job: View, follow: bool) -> str:
    """The chief, or the only instance; with `follow`, the first that appears."""
    if not job.instances:
        job = _with_instances(client, job, follow)
    if job.chief is not None:
        return job.chief.name
    if len(job.instances) == 1:
        return job.instances[0].name
    names = "\n".join(i.name for i in job.instances)
    raise UsageError(
        f"{len(job.instances)} instances have been found:\n{names}\n"
        "please use '-i' or '--instance' to filter."
    )


def _with_instances(client: BlockingClient, job: View, follow: bool) -> View:
    """The job once it has pods; an error if it never will, or if nobody wants to wait."""
    said = False
    while not job.instances:
        if job.status in ("SUCCEEDED", "FAILED"):
            why = f": {job.reason}" if job.reason else ""
            raise MusterError(f"the job {job.name} has {job.status.lower()} and has no pods{why}")
        if not follow:
            raise MusterError(
                f"the job {job.name} has no instances yet",
                hint=f"`arena logs -f {job.name}` waits.",
            )
        if not said:
            note(f"waiting for the pods of {job.name} …")
            said = True
        time.sleep(LOOK_AGAIN)
        job = find.one(client, job.key, job.trainer)
    return job


def wait_started(client: BlockingClient, key: Key) -> None:
    """Return when the pod has a container that runs or ran."""
    fields = f"metadata.name={key.name}"
    said = False
    while True:
        listing = client.list(PODS, key.namespace, fields=fields)
        if not listing.items:
            raise NotFound(f"the pod {key.name} is gone", status=404)
        if _started(listing.items[0]):
            return
        if not said:
            note(f"waiting for {key.name} to start …")
            said = True
        since = listing.resource_version
        for event in client.watch(PODS, key.namespace, since=since, fields=fields):
            if event.type == "DELETED":
                break
            if event.type != "BOOKMARK" and _started(event.object):
                return


def _started(pod: Pod) -> bool:
    states = [status.state for status in pod.status.container_statuses]
    return pod.finished or any(state.running or state.terminated for state in states)
