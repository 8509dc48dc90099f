"""`muster explain JOB|POD`: whether it runs, and if not, why and how far from its turn."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from muster.api.core import Pod
from muster.api.meta import Key, key_of
from muster.cli import options
from muster.cli.options import cluster_options
from muster.cli.show.table import json_or_yaml, table, underlined_table
from muster.client.jobs import explain, lookup
from muster.jobs.summary import instance, pods_of_job, summarize
from muster.scheduler.job_explanation import JobExplanation, explain_job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.client.target import Target
    from muster.kube.blocking_client import BlockingClient

MEMBERS = ("POD", "ROLE", "PHASE", "NODE", "WHY")


@click.command(name="explain")
@options.name_argument()
@click.option("--output", "-o", type=click.Choice(["wide", "json", "yaml"]), default="wide")
@options.type_option
@cluster_options
def command(target: Target, name: str, output: str, type_: str) -> None:
    """Say whether a job or a pod runs, and if not, why and how far it is from its turn.

    \b
    Examples:
      muster explain hello
      muster explain hello-worker-0 -o json
    """
    cluster = target.cluster()
    key = Key(target.namespace_in(cluster), name)
    with cluster.connect() as client:
        pods, reason = _found(client, key, type_)
        told = _reasoned(explain_job(name, pods, explain.read_line(client)), pods, reason)
    if output == "wide":
        print(_text(told))
    else:
        import msgspec

        print(json_or_yaml(msgspec.to_builtins(told), output))


def _found(client: BlockingClient, key: Key, type_: str) -> tuple[list[Pod], str]:
    """The pods of the job of that name, or the pod of that name; and the reason `get` gives."""
    found = lookup.get_job_or_pod(client, key, type_)
    if isinstance(found, Pod):
        return [found], instance(found).reason
    kind, raw = found
    own = key_of(raw)
    pods = pods_of_job(kind.kind, own, raw["metadata"]["uid"], lookup.pods_of(client, own))
    return pods, summarize(raw, pods, datetime.now(UTC)).reason


def _reasoned(told: JobExplanation, pods: Sequence[Pod], reason: str) -> JobExplanation:
    """The account with what is said of a job and its pods besides their places."""
    why = {pod.metadata.name: instance(pod).reason for pod in pods}
    members = tuple(replace(one, why=one.why or why[one.name]) for one in told.members)
    text = told.text if told.place else reason or told.text
    return replace(told, text=text, members=members)


def _text(told: JobExplanation) -> str:
    facts = [("Name:", told.name), ("State:", told.state), ("Why:", told.text)]
    if told.gang:
        facts.append(("Gang:", f"{told.gang} ({told.dialect})" if told.dialect else told.gang))
    if told.place:
        facts += [
            ("Line:", explain.place_in_line(told)),
            ("Needs:", f"{told.least} members at once"),
            ("Priority:", str(told.priority)),
        ]
    if told.held:
        facts.append(("Held:", f"{told.held} rooms are kept for it"))
    rows = [
        (one.name, one.role or "-", one.phase, one.node or "-", one.why) for one in told.members
    ]
    head = table(facts)
    return f"{head}\n\n{underlined_table(MEMBERS, rows)}" if rows else head
