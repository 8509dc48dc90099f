"""`/jobs`: the list of jobs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from muster.web.context import cluster_of, page
from muster.web.views.job_rows import JobQuery, JobsView, jobs_view

if TYPE_CHECKING:
    from aiohttp import web


async def show(request: web.Request) -> web.Response:
    cluster = cluster_of(request)
    query = JobQuery.read(request.query)
    jobs, now = await cluster.jobs(), datetime.now(UTC)

    def view() -> JobsView:
        return jobs_view(cluster.summaries(jobs, now), query, now)

    return await page(request, "jobs.html", view, shared=True)
