"""`/history`: what ran when and where, in the last hours, as far as the cluster still knows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from muster.api.meta import key_of
from muster.errors import Forbidden
from muster.jobs.view.instance import gpus_of_limits
from muster.web.cluster.sources import EVENTS, NODES
from muster.web.context import cluster_of, page
from muster.web.views.history import HistoryQuery, HistoryView, history_view
from muster.web.views.job_history import JobEvents, events_by_job, job_history

if TYPE_CHECKING:
    from aiohttp import web

    from muster.web.cluster.live_cluster import LiveCluster
    from muster.web.cluster.sources import Source, T


async def show(request: web.Request) -> web.Response:
    cluster = cluster_of(request)
    query = HistoryQuery.read(request.query)
    await _all(cluster, EVENTS)
    await _all(cluster, NODES)
    jobs = await cluster.jobs()
    # The lists are there: reading them again waits for nothing, so all are of the same moment.
    events, nodes = await _all(cluster, EVENTS), await _all(cluster, NODES)
    now = datetime.now(UTC)

    def view() -> HistoryView:
        by_job = events_by_job(events)
        summaries = {summary.uid: summary for summary in cluster.summaries(jobs, now)}
        histories = []
        for job in jobs:
            summary = summaries[str(job.raw["metadata"].get("uid") or "")]
            own = by_job.get(key_of(job.raw), JobEvents())
            histories.append(job_history(summary, job.raw, job.pods, own, now))
        gpus = sum(gpus_of_limits([node.status.allocatable]) for node in nodes)
        looks = cluster.looks(pod for job in jobs for pod in job.pods)
        return history_view(histories, query, gpus, looks, now)

    return await page(request, "history.html", view, shared=True)


async def _all(cluster: LiveCluster, source: Source[T]) -> tuple[T, ...]:
    """The objects of a source; none if the user may not list them, which the page says."""
    try:
        return tuple((await cluster.informer(source)).all())
    except Forbidden:
        return ()
