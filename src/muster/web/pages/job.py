"""`/jobs/NAMESPACE/KIND/NAME`: one job."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kubekit.errors import MusterError
from kubekit.objects.kinds import convert
from kubekit.objects.meta import mapping
from muster.client.jobs import tensorboard_url
from muster.client.logs.attempts import at_container, attempts_of_job, pods_that_are_gone
from muster.contract import waiting_line_format
from muster.contract.job_explanation import explain_job
from muster.jobs.job_state import PENDING, SUSPENDED
from muster.jobs.view.events import Event, rows_about
from muster.jobs.view.instance import pods_of_job
from muster.jobs.view.summary import summarize
from muster.web import threads
from muster.web.cluster import tensorboard
from muster.web.cluster.sources import EVENTS, LINE, PODS
from muster.web.context import cluster_of, page
from muster.web.pages.job_path import JobPath
from muster.web.views.job_page import JobFacts, JobPage, end_in_words, job_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiohttp import web

    from kubekit.objects.core import ConfigMap
    from kubekit.objects.meta import Key, Raw
    from kubekit.objects.pod_logs import PodLog
    from muster.client.jobs.tensorboard_url import TensorBoard
    from muster.jobs.view.events import EventRow
    from muster.jobs.view.summary import JobSummary
    from muster.web.cluster.live_cluster import JobWithPods, LiveCluster
    from muster.web.cluster.objects import Objects


class _Found(NamedTuple):
    """Everything that the page is made of."""

    job: JobWithPods
    attempts: Sequence[PodLog]
    tensorboard: TensorBoard | None
    events: Sequence[Raw] | None
    line: Sequence[ConfigMap]


async def show(request: web.Request) -> web.Response:
    cluster, (key, kind) = cluster_of(request), JobPath.of(request)
    job = await cluster.job(kind, key)
    attempts = await _attempts(cluster, job, key)
    board = await _tensorboard(cluster, key)
    events, line = await asyncio.gather(
        cluster.optional_informer(EVENTS), cluster.optional_informer(LINE)
    )
    job = await cluster.job(kind, key)
    # From here on nothing is awaited, so that the version of the page is the one of its objects.
    found = _Found(
        job,
        attempts,
        board,
        None if events.missing_right else _of_namespace(events, key.namespace),
        tuple(line.all()),
    )
    return await page(request, "job.html", lambda: _view(found, key))


def _of_namespace(events: Objects[Raw], namespace: str) -> list[Raw]:
    return [event for event in events.all() if event["metadata"].get("namespace") == namespace]


async def _attempts(cluster: LiveCluster, job: JobWithPods, key: Key) -> list[PodLog]:
    """The attempts whose logs the cluster keeps; only jobs that have had several are asked for."""
    summary = await threads.compute(lambda: summarize(*job))
    restarted = summary.restarts or any(row.restarts for row in summary.instances)
    had_pods = summary.over or summary.status == SUSPENDED or summary.earlier_seconds
    if had_pods or restarted or summary.earlier_restarts:
        with suppress(MusterError):  # the rest of the page is true without them
            return await cluster.call(lambda client: attempts_of_job(client, key, summary.uid))
    return []


async def _tensorboard(cluster: LiveCluster, key: Key) -> TensorBoard | None:
    pods = (await cluster.informer(PODS)).all()
    if not tensorboard.pods_of(key, pods):
        return None
    where = await cluster.location()
    try:
        return await cluster.call(lambda client: tensorboard_url.of_job(client, where, key))
    except MusterError:
        return None


def _view(found: _Found, key: Key) -> JobPage:
    now, (raw, pods), attempts = datetime.now(UTC), found.job, found.attempts
    gone = pods_that_are_gone(attempts, {pod.metadata.name for pod in pods})
    job, names = summarize(raw, pods, now), {pod.metadata.name for pod in gone}
    replicas = summarize(raw, [*pods, *gone], now).instances
    own, explanation = pods_of_job(job.kind, key, job.uid, pods), None
    if job.status == PENDING:
        rows = [row for config in found.line for row in waiting_line_format.read(config.data)]
        explanation = explain_job(job.name, own, rows)
    pod_uids = (*(pod.metadata.uid for pod in own), *(log.pod_uid for log in attempts))
    facts = JobFacts(
        explanation=explanation,
        events=_event_rows(found.events, job, {job.uid, *pod_uids}),
        replicas=replicas,
        gone={
            log.pod_name: end_in_words(log.pod_name, log.exit_code, job)
            for log in attempts
            if log.pod_name in names
        },
        attempts={row.name: len(at_container(attempts, row.name)) for row in replicas},
        tensorboard=found.tensorboard,
    )
    return job_page(raw, job, facts, now)


def _event_rows(
    events: Sequence[Raw] | None, job: JobSummary, uids: set[str]
) -> list[EventRow] | None:
    if events is None:
        return None
    rows = []
    for event in events:
        subject = mapping(event.get("involvedObject"))
        if str(subject.get("uid")) in uids or subject.get("name") == job.name:
            with suppress(msgspec.ValidationError):
                rows.append(convert(event, Event))
    return rows_about(rows, uids, job.name, job.created)
