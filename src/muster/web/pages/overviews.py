"""Pages that show everything at once: `/` (a map of the nodes), `/line`, `/jobs`, `/history`."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from kubekit.objects.meta import key_of
from muster.jobs.view.instance import gpus_of_limits
from muster.web.cluster.watched_objects import EVENTS, JOBS, LINE, NODES, PODS
from muster.web.context import cluster_of, page
from muster.web.views import guarded
from muster.web.views.cluster_map import ClusterMap, MapQuery, cluster_map
from muster.web.views.history import HistoryQuery, HistoryView, history_view
from muster.web.views.job_history import JobEvents, events_by_job, job_history, without_times
from muster.web.views.job_rows import JobQuery, JobsView, jobs_view
from muster.web.views.line import LineView, line_view, published

if TYPE_CHECKING:
    from aiohttp import web


async def show_cluster(request: web.Request) -> web.Response:
    cluster, query = cluster_of(request), MapQuery.read(request.query)
    node_informer, pod_informer, line_informer = await asyncio.gather(
        cluster.optional_informer(NODES), cluster.informer(PODS), cluster.optional_informer(LINE)
    )
    nodes, pods = tuple(node_informer.all()), tuple(pod_informer.all())
    line, now = published(line_informer.all()), datetime.now(UTC)

    def view() -> ClusterMap:
        return cluster_map(nodes, pods, line, query, cluster.looks(pods), now)

    return await page(request, "cluster.html", view, shared=True)


async def show_line(request: web.Request) -> web.Response:
    cluster = cluster_of(request)
    pod_informer, line_informer = await asyncio.gather(
        cluster.informer(PODS), cluster.optional_informer(LINE)
    )
    job_informers = await asyncio.gather(*map(cluster.optional_informer, JOBS.values()))
    pods, now = tuple(pod_informer.all()), datetime.now(UTC)
    line = published(line_informer.all())
    jobs = [
        (kind, job) for kind, found in zip(JOBS, job_informers, strict=True) for job in found.all()
    ]

    def view() -> LineView:
        return line_view(pods, line, cluster.looks(pods), now, jobs)

    return await page(request, "line.html", view, shared=True)


async def show_jobs(request: web.Request) -> web.Response:
    cluster = cluster_of(request)
    query = JobQuery.read(request.query)
    jobs, now = await cluster.jobs(), datetime.now(UTC)

    def view() -> JobsView:
        return jobs_view(cluster.summaries(jobs, now), query, now)

    return await page(request, "jobs.html", view, shared=True)


async def show_history(request: web.Request) -> web.Response:
    cluster = cluster_of(request)
    query = HistoryQuery.read(request.query)
    event_informer, node_informer, jobs = await asyncio.gather(
        cluster.optional_informer(EVENTS), cluster.optional_informer(NODES), cluster.jobs()
    )
    events, nodes, now = tuple(event_informer.all()), tuple(node_informer.all()), datetime.now(UTC)

    def view() -> HistoryView:
        by_job = events_by_job(events)
        summaries = {summary.uid: summary for summary in cluster.summaries(jobs, now)}
        histories = []
        for job in jobs:
            summary = summaries[str(job.raw["metadata"].get("uid") or "")]
            own = by_job.get(key_of(job.raw), JobEvents())
            make = partial(job_history, summary, job.raw, job.pods, own, now)
            histories.append(guarded(make, partial(without_times, summary), summary.key))
        gpus = sum(gpus_of_limits([node.status.allocatable]) for node in nodes)
        looks = cluster.looks(pod for job in jobs for pod in job.pods)
        return history_view(histories, query, gpus, looks, now)

    return await page(request, "history.html", view, shared=True)
