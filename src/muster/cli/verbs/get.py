"""`arena get NAME`: one job, its instances, and why it waits; or a pod; or a list of objects.

A NAME is a job's, then a pod's; `job/NAME` and `pod/NAME` say which. A word for a kind of object
(`pods`, `nodes`, `events`, `tfjobs`, …) lists those, in the columns the cluster prints; its short
form (`po`, `ev`, …) only if no job has that name.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from msgspec.structs import replace

from muster.api.core import Pod
from muster.api.kinds import PODS
from muster.api.meta import Key
from muster.cli import options
from muster.cli.failures import Failures
from muster.cli.show import job_details, job_table, live
from muster.cli.show.job_details import Extras
from muster.cli.show.live import Frame
from muster.cli.show.messages import note_once
from muster.cli.show.table import json_or_yaml, server_table
from muster.client import server_tables
from muster.client.jobs import events, explain, lookup, tensorboard_url
from muster.client.server_tables import ObjectQuery
from muster.errors import Forbidden
from muster.jobs.summary import PENDING, instance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.client.jobs.lookup import FoundJob
    from muster.client.target import Cluster
    from muster.jobs.summary import JobSummary
    from muster.kube.blocking_client import BlockingClient


class GetOptions(NamedTuple):
    """What to show of it, and in which form."""

    output: str | None
    form: str
    type: str
    events: bool
    gpus: bool
    all_namespaces: bool
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
@click.option("--events", "-e", is_flag=True, help="Also its events.")
@click.option("--gpus", "-g", is_flag=True, help="Also its GPUs.")
@click.option("--watch", "-w", is_flag=True, help="Redraw it when it changes.")
@options.all_namespaces_option
@click.option("--selector", "-l", "labels", default="", help="List objects with these labels.")
@options.type_option
@options.cluster_options
def command(
    target: options.Target, words: tuple[str, ...], watch: bool, type_: str, **given: Any
) -> None:
    """Show one training job, its instances and why it waits; or list pods, nodes, events, …

    \b
    Examples:
      arena get hello
      arena get hello -e -o json
      arena get pod/hello-worker-0
      arena get pods
    """
    cluster = target.cluster()
    chosen = GetOptions(type=type_, **given)
    with cluster.connect() as client:
        view = _View(client, cluster, target.namespace_in(cluster), chosen)

        def look() -> Frame:
            frame, failures = view.look(words)
            if failures.errors and frame.text:
                print(frame.text)
            failures.raise_if_any(len(words), "names")
            return frame

        if watch:
            live.show(look)
        else:
            print(look().text)


class _View:
    """One `get`: the cluster that is read, and how objects are shown."""

    def __init__(
        self, client: BlockingClient, cluster: Cluster, namespace: str, chosen: GetOptions
    ) -> None:
        self._client, self._cluster = client, cluster
        self._namespace, self._options = namespace, chosen

    def look(self, words: tuple[str, ...]) -> tuple[Frame, Failures]:
        """All objects that were named and are there, and the errors of the others."""
        chosen, failures = self._options, Failures()
        first = Key(self._namespace, words[0])
        is_job = _may_be_job(words, chosen) and lookup.job_exists(self._client, first)
        if words in (("jobs",), ("job",)) and not is_job:
            return self._jobs(), failures
        queries = [first] if is_job else self._queries(words)
        frames: list[Frame] = []
        for query in queries:
            with failures.collecting():
                if isinstance(query, ObjectQuery):
                    frames.append(self._objects(query))
                else:
                    frames.append(self._named(query))
        text = _joined(frames, chosen.output, many=len(queries) > 1)
        return Frame(text, [frame.state for frame in frames]), failures

    def _queries(self, words: Sequence[str]) -> list[ObjectQuery | Key]:
        """Each word names a job or a pod, unless the first is a kind of object."""
        chosen, namespace = self._options, self._namespace
        kind = None if chosen.type else server_tables.KINDS_BY_WORD.get(words[0].lower())
        if kind is None and words[0].lower() in ("jobs", "job"):
            return [Key(namespace, f"job/{name}") for name in words[1:]]
        if kind is None:
            return [Key(namespace, word) for word in words]
        if len(words) == 1:
            everywhere = "" if chosen.all_namespaces else namespace
            return [ObjectQuery(kind, everywhere, labels=chosen.labels)]
        if kind.kind == "Pod":
            return [Key(namespace, f"pod/{name}") for name in words[1:]]
        return [ObjectQuery(kind, namespace, name) for name in words[1:]]

    def _jobs(self) -> Frame:
        """The training jobs, as `arena list` shows them."""
        chosen = self._options
        namespace = "" if chosen.all_namespaces else self._namespace
        jobs = lookup.list_jobs(self._client, namespace, chosen.type, note_once)
        return job_table.frame(
            jobs, datetime.now(UTC), chosen.output or "wide", all_namespaces=chosen.all_namespaces
        )

    def _objects(self, query: ObjectQuery) -> Frame:
        output = self._options.output
        if output in ("json", "yaml"):
            raw = server_tables.fetch_raw(self._client, query)
            return Frame("", raw, raw)
        found = server_tables.fetch(self._client, query)
        if output == "name":
            text = "\n".join(server_tables.object_names(found, query.kind))
        else:
            namespaces = self._options.all_namespaces and query.kind.namespaced
            text = server_table(found, wide=output == "wide", all_namespaces=namespaces)
        versions = [row.object.get("metadata", {}).get("resourceVersion") for row in found.rows]
        return Frame(text, versions)

    def _named(self, key: Key) -> Frame:
        found = lookup.get_job_or_pod(self._client, key, self._options.type)
        return self._pod(found) if isinstance(found, Pod) else self._job(found)

    def _job(self, found: FoundJob) -> Frame:
        chosen, now = self._options, datetime.now(UTC)
        pods = found.pods(self._client)
        job = found.summary(pods)
        place = ""
        if job.status == PENDING:
            explanation = explain.explain_pods(self._client, job.name, pods, _debug_once)
            job = replace(job, reason=job.reason or explanation.text)
            place = job_details.place_in_line(explanation)
        state = (job.status, job.reason, job.instances)
        if chosen.output == "name":
            return Frame(f"{job.trainer}/{job.name}", state)
        tensorboard = self._tensorboard(found.key)
        extras = Extras(
            line=place,
            tensorboard=tensorboard.url if tensorboard else "",
            tensorboard_problem=tensorboard.problem if tensorboard else "",
            events=self._events(job, pods) if chosen.events else None,
            gpus=chosen.gpus,
        )
        if chosen.output in ("json", "yaml"):
            return Frame("", state, job_details.as_data(job, now, extras))
        draw = job_details.classic_table if chosen.form == "classic" else job_details.sections
        return Frame(draw(job, now, extras), state)

    def _tensorboard(self, job: Key) -> tensorboard_url.TensorBoard | None:
        try:
            return tensorboard_url.of_job(self._client, self._cluster, job)
        except Forbidden:
            return None

    def _events(self, job: JobSummary, pods: Sequence[Pod]) -> list[events.EventRow]:
        uids = {job.uid, *(pod.metadata.uid for pod in pods)}
        return events.about(self._client, job.namespace, uids, job.name, job.created)

    def _pod(self, pod: Pod) -> Frame:
        row, chosen = instance(pod), self._options
        if chosen.output in ("json", "yaml"):
            return Frame("", row, self._client.get(PODS.read_as(dict), pod.metadata.key))
        if chosen.output == "name":
            return Frame(f"pod/{row.name}", row)
        rows = None
        if chosen.events:
            rows = events.about(self._client, pod.metadata.namespace, {pod.metadata.uid})
        return Frame(job_details.pod_details(pod, row, datetime.now(UTC), rows), row)


def _debug_once(text: str) -> None:
    note_once(text, "debug")


def _may_be_job(words: Sequence[str], chosen: GetOptions) -> bool:
    """Whether this word for a kind may be the name of a job: `ev`, not `events`."""
    word = words[0].lower()
    short = word == "job" or (
        word in server_tables.KINDS_BY_WORD and word not in server_tables.PLURALS
    )
    return len(words) == 1 and short and not (chosen.type or chosen.all_namespaces or chosen.labels)


def _joined(frames: Sequence[Frame], output: str | None, *, many: bool) -> str:
    """The frames as one text; JSON and YAML of many are one list."""
    if output in ("json", "yaml") and frames:
        data = [frame.data for frame in frames]
        return json_or_yaml(data if many else data[0], output)
    return ("\n" if output == "name" else "\n\n").join(frame.text for frame in frames)
