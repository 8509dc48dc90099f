"""`muster explain JOB|POD`: whether it runs, and if not, why and how far from its turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from muster.api.core import Pod
from muster.api.meta import Key, key_of
from muster.cli import find, waitline
from muster.cli.cluster import Where, cluster_options
from muster.cli.output import structured, table, underlined
from muster.jobs.view import belonging
from muster.scheduler.account import Account, account

if TYPE_CHECKING:
    from muster.kube.blocking import BlockingClient

MEMBERS = ("POD", "ROLE", "PHASE", "NODE", "WHY")


@click.command(name="explain")
@find.name_argument()
@click.option("--output", "-o", type=click.Choice(["wide", "json", "yaml"]), default="wide")
@find.type_option
@cluster_options
def command(where: Where, name: str, output: str, type_: str) -> None:
    """Say whether a job or a pod runs, and if not, why and how far it is from its turn.

    \b
    Examples:
      muster explain hello
      muster explain hello-worker-0 -o json
    """
    cluster = where.cluster()
    key = Key(where.namespace_in(cluster), name)
    with cluster.connect() as client:
        pods = _pods(client, key, type_)
        told = account(name, pods, waitline.published(client))
    if output == "wide":
        print(_text(told))
    else:
        import msgspec

        print(structured(msgspec.to_builtins(told), output))


def _pods(client: BlockingClient, key: Key, type_: str) -> list[Pod]:
    """The pods of the job of that name, or the pod of that name."""
    found = find.job_or_pod(client, key, type_)
    if isinstance(found, Pod):
        return [found]
    kind, raw = found
    own = key_of(raw)
    return belonging(kind.kind, own, raw["metadata"]["uid"], find.pods_of(client, own))


def _text(told: Account) -> str:
    facts = [("Name:", told.name), ("State:", told.state), ("Why:", told.text)]
    if told.gang:
        facts.append(("Gang:", f"{told.gang} ({told.dialect})" if told.dialect else told.gang))
    if told.place:
        facts += [
            ("Line:", waitline.place(told)),
            ("Needs:", f"{told.least} members at once"),
            ("Priority:", str(told.priority)),
        ]
    if told.held:
        facts.append(("Held:", f"{told.held} rooms are kept for it"))
    rows = [
        (one.name, one.role or "-", one.phase, one.node or "-", one.why) for one in told.members
    ]
    head = table(facts)
    return f"{head}\n\n{underlined(MEMBERS, rows)}" if rows else head
