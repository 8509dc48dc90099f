"""Why a job waits and its place in line, for whoever shows one job.

Joins the pods with the line that the scheduler publishes. Where the line may not be read, places
are not told and the rest still is.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from muster.api.kinds import CONFIG_MAPS
from muster.api.meta import Key
from muster.cli.output import age, once
from muster.errors import Forbidden, NotFound
from muster.jobs.view import PENDING
from muster.scheduler import waiting
from muster.scheduler.account import account, line_says

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.api.core import Pod
    from muster.jobs.view import View
    from muster.kube.blocking import BlockingClient
    from muster.scheduler.account import Account


def published(client: BlockingClient) -> list[waiting.Row]:
    """The line; empty where nobody waits or it may not be read."""
    try:
        found = client.get(CONFIG_MAPS, Key(waiting.NAMESPACE, waiting.CONFIG_MAP))
    except NotFound:
        return []
    except Forbidden:
        line = f"{waiting.NAMESPACE}/{waiting.CONFIG_MAP}"
        once(f"places in line are not shown: you may not read {line}", "debug")
        return []
    return waiting.read(found.data)


def told(client: BlockingClient, job: View, pods: Sequence[Pod]) -> tuple[View, str]:
    """The job with a reason if it is pending, and its place in line if it has one."""
    if job.status != PENDING:
        return job, ""
    found = account(job.name, pods, published(client))
    return replace(job, reason=job.reason or found.text), place(found)


def place(found: Account) -> str:
    """`2nd of 7 in line, for 3m`; empty where it is not in line."""
    if not found.place:
        return ""
    return f"{line_says(found)}, for {age(datetime.fromisoformat(found.since), datetime.now(UTC))}"
