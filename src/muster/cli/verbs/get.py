"""`arena get NAME`: one job, its instances, and why it waits; or a pod; or a list of objects.

NAME is the name of a job or, if no job has it, of a pod; `job/NAME` and `pod/NAME` say which. A
word for a kind of object (`pods`, `nodes`, `events`, `tfjobs`, …) lists the objects of that kind,
in the columns that the cluster prints. A short form (`po`, `ev`, …) does so only if no job has that
name.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from kubekit.errors import UsageError
from kubekit.objects.core import Pod
from kubekit.objects.kinds import EVENTS, PODS
from kubekit.objects.meta import Key
from kubekit.request_errors import Forbidden
from muster.cli import options
from muster.cli.each_name import Failures
from muster.cli.show import job_details, job_table, live
from muster.cli.show.job_details import Extras
from muster.cli.show.live import Frame
from muster.cli.show.messages import note_once
from muster.cli.show.table import json_or_yaml, server_table
from muster.cli.verb_groups import QuickCommand, now
from muster.client import server_tables
from muster.client.jobs import explain, lookup, tensorboard_url
from muster.client.jobs.usage import unenforced_limits
from muster.client.jobs.waiting import logs_command
from muster.client.logs.attempts import attempts_of_job
from muster.client.logs.last_lines import summary_with_last_lines
from muster.client.server_tables import ObjectQuery
from muster.jobs.job_state import PENDING
from muster.jobs.view.events import Event, EventRow, rows_about
from muster.jobs.view.instance import instance

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from kubekit.client.blocking_client import BlockingClient
    from muster.client.jobs.lookup import FoundJob
    from muster.client.target import Cluster
    from muster.jobs.view.summary import JobSummary


@click.command(name="get", cls=QuickCommand)
@click.argument(
    "words", nargs=-1, required=True, metavar="NAME…", shell_complete=options.job_name_completions
)
@click.option("--output", "-o", type=click.Choice(["wide", "json", "yaml", "name"]))
@click.option(
    "--format", "form", type=click.Choice(["sections", "classic"]), default="sections",
    help="classic: one table with a row per replica.",
)  # fmt: skip
@click.option("--events", "-e", is_flag=True, help="Show its events too.")
@click.option("--gpus", "-g", is_flag=True, help="Show its GPUs too.")
@click.option("--watch", "-w", is_flag=True, help="Redraw it when it changes.")
@options.all_namespaces_option
@click.option("--selector", "-l", "labels", default="", help="List objects with these labels.")
@options.type_option
@options.cluster_options
def command(
    target: options.Target, words: tuple[str, ...], watch: bool, type_: str, **given: Any
) -> None:
    """Show one training job, its replicas and why it waits; or list pods, nodes, events, …

    \b
    Examples:
      arena get hello
      arena get hello -e -o json
      arena get pod/hello-worker-0
      arena get pods
    """
    cluster = target.cluster()
    with cluster.connect() as client:
        view = _View(client, cluster, target.namespace_in(cluster), type_, **given)
        live.show(partial(view.look, words), watch=watch)


@dataclass(frozen=True)
class _View:
    """One `get`: the cluster that is read, the options, and how objects are shown."""

    client: BlockingClient
    cluster: Cluster
    namespace: str
    type: str
    output: str | None
    form: str
    events: bool
    gpus: bool
    all_namespaces: bool
    labels: str

    def look(self, words: tuple[str, ...]) -> Frame:
        """The named objects. If some do not exist, the others are printed before the error."""
        first = Key(self.namespace, words[0])
        is_job = self._may_be_job(words) and lookup.job_exists(self.client, first)
        if words in (("jobs",), ("job",)) and not is_job:
            return self._jobs()
        if words == ("all",) and not is_job:
            return self._all()
        queries = [first] if is_job else self._queries(words)
        if self.labels and any(not isinstance(q, ObjectQuery) or q.name for q in queries):
            raise UsageError(
                "-l is for a list of objects, not for objects that are named",
                hint="`arena get jobs -l …` lists jobs, `arena get pods -l …` pods.",
            )
        frames: list[Frame] = []
        failures = Failures()
        for query in queries:
            with failures.collecting():
                if isinstance(query, ObjectQuery):
                    frames.append(self._objects(query))
                else:
                    found = lookup.get_job_or_pod(self.client, query, self.type)
                    frames.append(self._pod(found) if isinstance(found, Pod) else self._job(found))
        text = _joined(frames, self.output, many=len(queries) > 1)
        if failures.errors and text:
            print(text)
        failures.raise_if_any(len(words), "names")
        return Frame(text, [frame.state for frame in frames])

    def _queries(self, words: Sequence[str]) -> list[ObjectQuery | Key]:
        """Each word names a job or a pod, unless the first word is a kind of object."""
        first, *names = words
        kind = None if self.type else server_tables.KINDS_BY_WORD.get(first.lower())
        if kind is None and first.lower() in ("jobs", "job"):
            return [Key(self.namespace, f"job/{name}") for name in names]
        if kind is None:
            return [Key(self.namespace, word) for word in words]
        if not names:
            return [ObjectQuery(kind, self._listed_namespace, labels=self.labels)]
        if kind.kind == "Pod":
            return [Key(self.namespace, f"pod/{name}") for name in names]
        return [ObjectQuery(kind, self.namespace, name) for name in names]

    def _may_be_job(self, words: Sequence[str]) -> bool:
        """Whether this word for a kind may be the name of a job: `ev`, not `events`."""
        word = words[0].lower()
        short = word in ("job", "all") or (
            word in server_tables.KINDS_BY_WORD and word not in server_tables.PLURALS
        )
        return len(words) == 1 and short and not (self.type or self.all_namespaces or self.labels)

    @property
    def _listed_namespace(self) -> str:
        return "" if self.all_namespaces else self.namespace

    def _jobs(self) -> Frame:
        """The training jobs, as `arena list` shows them."""
        jobs = lookup.list_jobs(
            self.client, self._listed_namespace, self.type, note_once, now=now(), labels=self.labels
        )
        return job_table.frame(
            jobs, now(), self.output or "wide", all_namespaces=self.all_namespaces
        )

    def _all(self) -> Frame:
        """The jobs, and the objects that jobs are made of; kinds without objects are left out."""
        if self.output in ("json", "yaml"):
            raise UsageError(
                f"-o {self.output} is for one kind of object",
                hint="`arena get pods` lists pods, `arena get jobs` jobs.",
            )
        queries = [
            ObjectQuery(kind.read_as(dict), self._listed_namespace, labels=self.labels)
            for kind in server_tables.ALL
        ]
        jobs, *others = [self._jobs(), *(self._objects(query) for query in queries)]
        frames = [jobs, *(frame for frame in others if frame.state)]
        text = _joined(frames, self.output, many=True)
        return Frame(text, [frame.state for frame in frames])

    def _objects(self, query: ObjectQuery) -> Frame:
        if self.output in ("json", "yaml"):
            raw = server_tables.fetch_raw(self.client, query)
            return Frame("", raw, raw)
        table = server_tables.fetch(self.client, query)
        if self.output == "name":
            text = "\n".join(server_tables.object_names(table, query.kind))
        else:
            namespaces = self.all_namespaces and query.kind.namespaced
            text = server_table(table, wide=self.output == "wide", all_namespaces=namespaces)
        versions = [row.object.get("metadata", {}).get("resourceVersion") for row in table.rows]
        return Frame(text, versions)

    def _job(self, job_object: FoundJob) -> Frame:
        moment = now()
        pods = job_object.pods(self.client)
        job = summary_with_last_lines(self.client, job_object, pods, moment)
        place = ""  # only pending jobs have one: others cost no request for the waiting line
        if job.status == PENDING:
            debug_once = partial(note_once, level="debug")
            explanation = explain.explain_pods(self.client, job.name, pods, moment, debug_once)
            explanation = explain.with_quota_place(
                self.client, explanation, job_object, moment, debug_once
            )
            # The place has its own row.
            reason = job.reason or explanation.reason or explanation.text
            job = replace(job, reason=reason)
            place = job_details.place_in_line(explanation, moment)
        state = (job.status, job.reason, job.instances)
        if self.output == "name":
            return Frame(f"{job.trainer}/{job.name}", state)
        uids = {job.uid, *(pod.metadata.uid for pod in pods)}
        rows = self._events(job.namespace, uids, job.name, job.created)
        unenforced = unenforced_limits(self.client, job_object.raw, local=self.cluster.local)
        extras = Extras(
            place,
            self._tensorboard(job_object.key),
            rows,
            self.gpus,
            self._gone_pods(job),
            unenforced,
        )
        if self.output in ("json", "yaml"):
            return Frame("", state, job_details.as_data(job, moment, extras))
        draw = job_details.classic_table if self.form == "classic" else job_details.sections
        return Frame(draw(job, moment, extras), state)

    def _gone_pods(self, job: JobSummary) -> list[str]:
        """Sentences about the pods of a finished job that has none any more."""
        if job.instances or not job.over:
            return []
        attempts = attempts_of_job(self.client, job.key, job.uid)
        if not attempts and not any(job.ended):
            return []  # it never had pods
        command = logs_command(job) if attempts else ""
        return job_details.gone_pods(command, job.gone_restarts)

    def _tensorboard(self, job: Key) -> tensorboard_url.TensorBoard | None:
        try:
            return tensorboard_url.of_job(self.client, job, local=self.cluster.local)
        except Forbidden:
            return None  # a user without rights on services still sees the job

    def _events(
        self, namespace: str, uids: set[str], group: str = "", since: datetime | None = None
    ) -> list[EventRow] | None:
        """The events about these objects, if they were asked for."""
        if not self.events:
            return None
        # All of the namespace: a field selector can name one object, and a job has many.
        events = self.client.list(EVENTS.read_as(Event), namespace, page=0).items
        return rows_about(events, uids, group, since)

    def _pod(self, pod: Pod) -> Frame:
        row = instance(pod)
        if self.output in ("json", "yaml"):
            return Frame("", row, self.client.get(PODS.read_as(dict), pod.metadata.key))
        if self.output == "name":
            return Frame(f"pod/{row.name}", row)
        rows = self._events(pod.metadata.namespace, {pod.metadata.uid})
        return Frame(job_details.pod_details(pod, row, now(), rows), row)


def _joined(frames: Sequence[Frame], output: str | None, *, many: bool) -> str:
    """The frames as one text; JSON and YAML of many are one list."""
    if output in ("json", "yaml") and frames:
        data = [frame.data for frame in frames]
        return json_or_yaml(data if many else data[0], output)
    return ("\n" if output == "name" else "\n\n").join(frame.text for frame in frames)
