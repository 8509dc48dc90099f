"""`muster explain JOB|POD`: whether it runs, and if not, why and how far from its turn."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from muster.api.kinds import CONFIG_MAPS, PODS
from muster.api.meta import Key
from muster.cli import find
from muster.cli.cluster import Where, cluster_options
from muster.cli.output import age, note, structured, table, underlined
from muster.errors import Forbidden, NotFound
from muster.jobs import names
from muster.jobs.view import belonging
from muster.scheduler import waiting
from muster.scheduler.account import Account, account, line_says

if TYPE_CHECKING:
    from muster.api.core import Pod
    from muster.kube.blocking import BlockingClient

MEMBERS = ("POD", "ROLE", "PHASE", "NODE", "WHY")


@click.command(name="explain")
@click.argument("name")
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
        told = account(name, pods, _line(client))
    if output == "wide":
        print(_text(told))
    else:
        import msgspec

        print(structured(msgspec.to_builtins(told), output))


def _pods(client: BlockingClient, key: Key, type_: str) -> list[Pod]:
    """The pods of the job of that name, or the pod of that name."""
    try:
        kind, raw = find.named(client, key, type_)
    except NotFound:
        try:
            return [client.get(PODS, key)]
        except NotFound as error:
            message = f"there is no training job and no pod named {key.name} in {key.namespace}"
            raise NotFound(message, status=404) from error
    pods = client.list(PODS, key.namespace, labels=f"{names.JOB}={key.name}").items
    return belonging(kind.kind, key, raw["metadata"]["uid"], pods)


def _line(client: BlockingClient) -> list[waiting.Row]:
    """The published line; empty where nobody waits or it may not be read."""
    try:
        found = client.get(CONFIG_MAPS, Key(waiting.NAMESPACE, waiting.CONFIG_MAP))
    except NotFound:
        return []
    except Forbidden as error:
        note(f"the line cannot be read, so places in it are not shown: {error}")
        return []
    return waiting.read(found.data)


def _text(told: Account) -> str:
    facts = [("Name:", told.name), ("State:", told.state), ("Why:", told.text)]
    if told.gang:
        facts.append(("Gang:", f"{told.gang} ({told.dialect})" if told.dialect else told.gang))
    if told.place:
        since = datetime.fromisoformat(told.since)
        facts += [
            ("Line:", f"{line_says(told)}, for {age(since, datetime.now(UTC))}"),
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
