"""Summaries of all jobs, of which only those that changed are made anew.

Reading a manifest takes a tenth of a millisecond; with thousands of jobs, that is most of the time
of a page. A summary depends on the job and its pods, so their resource versions are its key.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from muster.jobs.view.summary import JobSummary, summarize
from muster.web.views.row_guard import NOT_SHOWN, guarded

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from muster.web.cluster.live_cluster import JobWithPods


class _Row(NamedTuple):
    versions: tuple[str, ...]
    summary: JobSummary


class JobSummaries:
    """The last summaries. Threads may use it at once: the second finds the work of the first."""

    def __init__(self) -> None:
        self._rows: dict[str, _Row] = {}
        self._lock = Lock()

    def of(self, jobs: Iterable[JobWithPods], now: datetime) -> list[JobSummary]:
        with self._lock:
            return self._of(jobs, now)

    def _of(self, jobs: Iterable[JobWithPods], now: datetime) -> list[JobSummary]:
        former, rows = self._rows, {}
        for job in jobs:
            metadata = job.raw["metadata"]
            versions = (
                str(metadata.get("resourceVersion")),
                *(pod.metadata.resource_version for pod in job.pods),
            )
            uid = str(metadata.get("uid"))
            row = former.get(uid)
            # A job that no operator has seen yet gets its reason from the clock.
            unseen = not (job.pods or job.raw.get("status"))
            if row is None or row.versions != versions or unseen:
                row = _Row(versions, _summary(job, now))
            rows[uid] = row
        self._rows = rows
        return [row.summary for row in rows.values()]


def _summary(job: JobWithPods, now: datetime) -> JobSummary:
    metadata = job.raw["metadata"]

    def bare() -> JobSummary:
        kept = ("name", "namespace", "uid")
        known = {name: metadata[name] for name in kept if name in metadata}
        summary = summarize({"kind": job.raw.get("kind"), "metadata": known}, ())
        return msgspec.structs.replace(summary, reason=NOT_SHOWN)

    return guarded(lambda: summarize(job.raw, job.pods, now), bare, metadata.get("name"))
