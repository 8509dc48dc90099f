"""The last line that a crashed container wrote, read from its log.

A pod's status has it only if the container asks for it (`terminationMessagePolicy:
FallbackToLogsOnError`), as the containers of submitted jobs do.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from muster.api.meta import Key
from muster.errors import MusterError
from muster.jobs import pod_status
from muster.jobs.summary import instance_in_words

if TYPE_CHECKING:
    from muster.jobs.summary import Instance, JobSummary
    from muster.kube.blocking_client import BlockingClient

MAX_LOGS = 3
"""Replicas whose logs are read: a view of a job must not cost a request per replica."""


def with_last_lines(client: BlockingClient, job: JobSummary) -> JobSummary:
    """The job, with the last log lines of replicas that wait for their next try."""
    silent = [row for row in job.instances if row.crash and row.crash.waits and _is_silent(row)]
    if job.over or not silent:
        return job
    known = {row.name: _with_last_line(client, job.namespace, row) for row in silent[:MAX_LOGS]}
    reason = job.reason
    for row in silent[:MAX_LOGS]:
        reason = reason.replace(_words(row), _words(known[row.name]), 1)
    rows = tuple(known.get(row.name, row) for row in job.instances)
    return replace(job, instances=rows, reason=reason)


def _is_silent(row: Instance) -> bool:
    return row.crash is not None and not row.crash.last_line


def _words(row: Instance) -> str:
    return row.crash.in_words(instance_in_words(row)) if row.crash else ""


def _with_last_line(client: BlockingClient, namespace: str, row: Instance) -> Instance:
    crash = row.crash
    if crash is None:
        return row
    log = b""
    # Without the right to read logs, or without a log, the rest is still true.
    with suppress(MusterError):
        chunks = client.logs(
            Key(namespace, row.name), container=crash.container, previous=True, tail=1
        )
        log = b"".join(chunks)
    crash = replace(crash, last_line=pod_status.last_line(log.decode(errors="replace")))
    return replace(row, crash=crash, reason=crash.rest_of_sentence)
