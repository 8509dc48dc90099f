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
from muster.cli.show.messages import note_once
from muster.cli.show.units import age
from muster.errors import Forbidden, NotFound
from muster.jobs.summary import PENDING
from muster.scheduler import published_line
from muster.scheduler.job_explanation import explain_job, place_in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.api.core import Pod
    from muster.jobs.summary import JobSummary
    from muster.kube.blocking_client import BlockingClient
    from muster.scheduler.job_explanation import JobExplanation


def read_line(client: BlockingClient) -> list[published_line.WaitingGang]:
    """The line; empty where nobody waits or it may not be read."""
    try:
        found = client.get(CONFIG_MAPS, Key(published_line.NAMESPACE, published_line.CONFIG_MAP))
    except NotFound:
        return []
    except Forbidden:
        line = f"{published_line.NAMESPACE}/{published_line.CONFIG_MAP}"
        note_once(f"places in line are not shown: you may not read {line}", "debug")
        return []
    return published_line.read(found.data)


def with_reason_and_place(
    client: BlockingClient, job: JobSummary, pods: Sequence[Pod]
) -> tuple[JobSummary, str]:
    """The job with a reason if it is pending, and its place in line if it has one."""
    if job.status != PENDING:
        return job, ""
    found = explain_job(job.name, pods, read_line(client))
    return replace(job, reason=job.reason or found.text), place_in_line(found)


def place_in_line(found: JobExplanation) -> str:
    """`2nd of 7 in line, for 3m`; empty where it is not in line."""
    if not found.place:
        return ""
    waited = age(datetime.fromisoformat(found.since), datetime.now(UTC))
    return f"{place_in_words(found)}, for {waited}"
