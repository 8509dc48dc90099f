"""`arena get NAME`: one job, its instances, and why it waits; or a pod; or a list of objects.

A NAME is a job's, then a pod's; `job/NAME` and `pod/NAME` say which. A word for a kind of object
(`pods`, `nodes`, `events`, `tfjobs`, …) lists those, in the columns the cluster prints; its short
form (`po`, `ev`, …) only if no job has that name.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from muster.api.core import Pod
from muster.api.kinds import PODS
from muster.api.meta import Key
from muster.cli import options
from muster.cli.failures import Failures
from muster.cli.options import cluster_options
from muster.cli.show import job_details, live
from muster.cli.show.job_details import Extras
from muster.cli.show.live import Frame
from muster.cli.show.table import json_or_yaml
from muster.client import server_tables
from muster.client.jobs import events, explain, lookup, tensorboard_url
from muster.client.server_tables import ObjectQuery
from muster.errors import Forbidden
from muster.jobs.summary import instance, pods_of_job, summarize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.client.target import Cluster, Target
    from muster.jobs.summary import JobSummary
    from muster.kube.blocking_client import BlockingClient


class GetOptions(NamedTuple):
    """What to show of it, and in which form."""

    output: str | None
    form: str
    type: str
    events: bool
    gpus: bool
    spaces: bool
    labels: str


@click.command(name="get")
@click.argument(
    "words", nargs=-1, required=True, metavar="NAME…", shell_complete=options.job_name_completions
)
@click.option("--output", "-o", type=click.Choice(["wide", "json", "yaml", "name"]))
@click.option(
    "--format", "form", type=click.Choice(["sections", "classic"]), default="sections",
    help="classic is one table, a row per instance.",
)  # fmt: skip
@click.option("--events", "-e", is_flag=True, help="Also what was said about it.")
@click.option("--gpus", "-g", is_flag=True, help="Also its GPUs.")
@click.option("--watch", "-w", is_flag=True, help="Show it again when it changes.")
@click.option("--all-namespaces", "-A", "spaces", is_flag=True, help="List all namespaces.")
@click.option("--selector", "-l", "labels", default="", help="List what is labelled so.")
@options.type_option
@cluster_options
def command(target: Target, words: tuple[str, ...], watch: bool, type_: str, **how: Any) -> None:
    """Show one training job, its instances and why it waits; or list pods, nodes, events, …

    \b
    Examples:
      arena get hello
      arena get hello -e -o json
      arena get pod/hello-worker-0
      arena get pods
    """
    cluster = target.cluster()
    space = target.namespace_in(cluster)
    chosen = GetOptions(type=type_, **how)
    with cluster.connect() as client:

        def look() -> Frame:
            frame, failures = _look(client, cluster, words, space, chosen)
            if failures.errors and frame.text:
                print(frame.text)
            failures.end(len(words), "names")
            return frame

        if watch:
            live.show(look)
        else:
            print(look().text)


def _look(
    client: BlockingClient, cluster: Cluster, words: tuple[str, ...], space: str, how: GetOptions
) -> tuple[Frame, Failures]:
    """All that was asked for and is there, and why the rest is not."""
    now, failures = datetime.now(UTC), Failures()
    is_job = _could_be(words, how) and lookup.job_exists(client, Key(space, words[0]))
    if words in (("jobs",), ("job",)) and not is_job:
        return _jobs(client, "" if how.spaces else space, how, now), failures
    frames: list[Frame] = []
    asked = [Key(space, words[0])] if is_job else _asked(words, space, how)
    for one in asked:
        with failures.kept():
            if isinstance(one, ObjectQuery):
                frames.append(_listed(client, one, how))
            else:
                frames.append(_named(client, cluster, one, how, now))
    return Frame(_together(frames, how, len(asked)), [f.state for f in frames]), failures


def _could_be(words: Sequence[str], how: GetOptions) -> bool:
    """Whether this word for a kind could be meant as a job's name: `ev`, not `events`."""
    word = words[0].lower()
    short = word == "job" or (
        word in server_tables.KINDS_BY_WORD and word not in server_tables.PLURALS
    )
    return len(words) == 1 and short and not (how.type or how.spaces or how.labels)


def _together(frames: Sequence[Frame], how: GetOptions, asked: int) -> str:
    """The frames as one text; if several were asked for, JSON and YAML are one list."""
    if how.output in ("json", "yaml") and frames:
        found = [frame.data for frame in frames]
        return json_or_yaml(found if asked > 1 else found[0], how.output)
    return ("\n" if how.output == "name" else "\n\n").join(frame.text for frame in frames)


def _asked(words: Sequence[str], space: str, how: GetOptions) -> list[ObjectQuery | Key]:
    """Each word is a job or pod, unless the first names a kind of object."""
    kind = None if how.type else server_tables.KINDS_BY_WORD.get(words[0].lower())
    if kind is None and words[0].lower() in ("jobs", "job"):
        return [Key(space, f"job/{name}") for name in words[1:]]
    if kind is None:
        return [Key(space, word) for word in words]
    if len(words) == 1:
        return [ObjectQuery(kind, "" if how.spaces else space, labels=how.labels)]
    if kind.kind == "Pod":
        return [Key(space, f"pod/{name}") for name in words[1:]]
    return [ObjectQuery(kind, space, name) for name in words[1:]]


def _jobs(client: BlockingClient, space: str, how: GetOptions, now: datetime) -> Frame:
    """The training jobs, as `arena list` shows them."""
    from muster.cli.verbs import list as jobs

    found = lookup.list_jobs(client, space, how.type)
    return jobs.frame(found, now, how.output or "wide", spaces=how.spaces)


def _listed(client: BlockingClient, asked: ObjectQuery, how: GetOptions) -> Frame:
    if how.output in ("json", "yaml"):
        found = server_tables.fetch_raw(client, asked)
        return Frame("", found, found)
    rows = server_tables.fetch(client, asked)
    if how.output == "name":
        text = "\n".join(server_tables.names(rows, asked.kind))
    else:
        spaces = how.spaces and asked.kind.namespaced
        text = server_tables.as_text(rows, wide=how.output == "wide", spaces=spaces)
    return Frame(text, [row.object.get("metadata", {}).get("resourceVersion") for row in rows.rows])


def _named(
    client: BlockingClient, cluster: Cluster, key: Key, how: GetOptions, now: datetime
) -> Frame:
    found = lookup.get_job_or_pod(client, key, how.type)
    if isinstance(found, Pod):
        return _pod(client, found, how, now)
    kind, raw = found
    bare = Key(key.namespace, raw["metadata"]["name"])
    pods = pods_of_job(kind.kind, bare, raw["metadata"]["uid"], lookup.pods_of(client, bare))
    job, line = explain.with_reason_and_place(client, summarize(raw, pods, now), pods)
    shown = _board(client, cluster, bare)
    beside = Extras(
        line=line,
        board=shown.url if shown else "",
        board_trouble=shown.trouble if shown else "",
        events=_events(client, job, pods) if how.events else None,
        gpus=how.gpus,
    )
    state = (job.status, job.reason, job.instances)
    if how.output == "name":
        return Frame(f"{job.trainer}/{job.name}", state)
    if how.output in ("json", "yaml"):
        return Frame("", state, job_details.as_data(job, now, beside))
    draw = job_details.classic_table if how.form == "classic" else job_details.sections
    return Frame(draw(job, now, beside), state)


def _board(
    client: BlockingClient, cluster: Cluster, job: Key
) -> tensorboard_url.TensorBoard | None:
    """Its TensorBoard, as far as that may be known."""
    try:
        return tensorboard_url.of_job(client, cluster, job)
    except Forbidden:
        return None


def _events(client: BlockingClient, job: JobSummary, pods: Sequence[Pod]) -> list[events.EventRow]:
    uids = {job.uid, *(pod.metadata.uid for pod in pods)}
    return events.about(client, job.namespace, uids, job.name, job.created)


def _pod(client: BlockingClient, pod: Pod, how: GetOptions, now: datetime) -> Frame:
    row = instance(pod)
    if how.output in ("json", "yaml"):
        raw = client.get(PODS.read_as(dict), pod.metadata.key)
        return Frame("", row, raw)
    if how.output == "name":
        return Frame(f"pod/{row.name}", row)
    said = events.about(client, pod.metadata.namespace, {pod.metadata.uid}) if how.events else None
    return Frame(job_details.pod_details(pod, row, now, said), row)
