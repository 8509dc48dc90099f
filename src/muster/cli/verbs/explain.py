"""`arena explain JOB|POD|GANG`: whether it runs, and if not, why, and its place in line."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from kubekit.objects.meta import Key
from muster.cli.options import Target, cluster_options, name_argument, output_option, type_option
from muster.cli.show.job_details import last_lines, place_in_line
from muster.cli.show.messages import debug
from muster.cli.show.table import json_or_yaml, table, underlined_table
from muster.cli.verb_groups import now
from muster.client.jobs.explain import explain
from muster.jobs.view.units import count, next_try, said_once

if TYPE_CHECKING:
    from muster.contract.job_explanation import JobExplanation

MEMBERS = ("POD", "ROLE", "PHASE", "NODE", "WHY")


@click.command(name="explain")
@name_argument()
@output_option("wide", "json", "yaml")
@type_option
@cluster_options
def command(target: Target, name: str, output: str, type_: str) -> None:
    """Explain whether a job, a pod or a gang runs, and if not, why, and its place in line.

    \b
    Examples:
      arena explain hello
      arena explain hello-worker-0 -o json
    """
    cluster = target.cluster()
    with cluster.connect() as client:
        key, moment = Key(target.namespace_in(cluster), name), now()
        explanation = explain(client, key, type_, moment, debug)
    if output == "wide":
        print(_text(explanation, moment))
    else:
        import msgspec

        print(json_or_yaml(msgspec.to_builtins(explanation), output))


def _text(explanation: JobExplanation, now: datetime) -> str:
    retried = datetime.fromisoformat(explanation.next_try) if explanation.next_try else None
    facts = [
        ("Name:", explanation.name),
        ("State:", explanation.state),
        ("Why:", f"{explanation.text}{next_try(retried, now)}"),
    ]
    if explanation.hint:
        facts.append(("Hint:", explanation.hint))
    if explanation.gang:
        dialect = f" ({explanation.dialect})" if explanation.dialect else ""
        facts.append(("Gang:", f"{explanation.gang}{dialect}"))
    if explanation.place:
        facts.append(("Line:", place_in_line(explanation, now)))
        if explanation.min_member > 1:
            facts.append(("Needs:", f"{count(explanation.min_member, 'member')} at once"))
        facts.append(("Priority:", str(explanation.priority)))
    if explanation.held:
        facts.append(("Held:", f"room for {count(explanation.held, 'member')}"))
    facts += [("Not served:", text) for text in explanation.not_served]
    # The reason of a gang in line stands above, with its place.
    above = explanation.reason or explanation.text
    whys = said_once([member.why for member in explanation.members], above)
    rows = [
        (member.name, member.role or "-", member.phase, member.node or "-", why)
        for member, why in zip(explanation.members, whys, strict=True)
    ]
    text = "\n\n".join([table(facts), *last_lines(explanation.last_lines)])
    return f"{text}\n\n{underlined_table(MEMBERS, rows)}" if rows else text
