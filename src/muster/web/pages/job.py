"""`/jobs/NAMESPACE/KIND/NAME`: one job.

Below it: `…/spec` (the cluster spec that a replica was given), `…/yaml` (the job as a manifest),
`…/scalars` and the feed `usage:…` (curves). A POST suspends, resumes or deletes the job.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from aiohttp import web
from msgspec.structs import replace

from kubekit.errors import MusterError
from kubekit.objects import kinds
from kubekit.objects.kinds import CONFIG_MAPS, convert
from kubekit.objects.meta import Key, Raw, mapping
from kubekit.request_errors import ApiError, BadRequest, Conflict, Forbidden, NotFound
from muster.client.jobs import job_operations, lookup, tensorboard_url
from muster.client.logs.attempts import at_container, attempts_of_job, pods_that_are_gone
from muster.contract import waiting_line_format
from muster.contract.job_explanation import explain_job
from muster.contract.job_kinds import JOB_KIND_BY_NAME
from muster.jobs.job_state import PENDING, SUSPENDED
from muster.jobs.view.events import Event, EventRow, rows_about
from muster.jobs.view.instance import order, pods_of_job
from muster.jobs.view.summary import JobSummary, summarize
from muster.web.access.request_facts import fields_of
from muster.web.cluster.curves import tensorboard_pods
from muster.web.cluster.live_cluster import JobWithPods, LiveCluster, compute
from muster.web.cluster.watched_objects import EVENTS, LINE, PODS
from muster.web.context import attachment, cluster_of, page
from muster.web.urls import job_url
from muster.web.views.cluster_spec import cluster_spec, config_map_of
from muster.web.views.job_page import JobFacts, JobPage, end_in_words, job_page, manifest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from kubekit.client.blocking_client import BlockingClient
    from kubekit.objects.core import ConfigMap, PodLog
    from muster.client.jobs.tensorboard_url import TensorBoard


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
        None if events.missing_right else list(events.all()),
        tuple(line.all()),
    )
    now = datetime.now(UTC)
    return await page(request, "job.html", lambda: _view(found, cluster.summary(job, now), now))


async def _attempts(cluster: LiveCluster, job: JobWithPods, key: Key) -> list[PodLog]:
    """The attempts whose logs the cluster keeps; only jobs that have had several are asked for."""
    summary = await compute(partial(cluster.summary, job, datetime.now(UTC)))
    restarted = summary.restarts or any(row.restarts for row in summary.instances)
    had_pods = summary.over or summary.status == SUSPENDED or summary.earlier_seconds
    if had_pods or restarted or summary.gone_restarts:
        with suppress(MusterError):  # the rest of the page is true without them
            return await cluster.call(lambda client: attempts_of_job(client, key, summary.uid))
    return []


async def _tensorboard(cluster: LiveCluster, key: Key) -> TensorBoard | None:
    pods = (await cluster.informer(PODS)).all()
    if not tensorboard_pods(key, pods):
        return None
    local = await cluster.is_local()
    try:
        return await cluster.call(lambda client: tensorboard_url.of_job(client, key, local=local))
    except MusterError:
        return None


def _view(found: _Found, job: JobSummary, now: datetime) -> JobPage:
    (raw, pods), attempts = found.job, found.attempts
    gone = pods_that_are_gone(attempts, {pod.metadata.name for pod in pods})
    names = {pod.metadata.name for pod in gone}
    shown = summarize(raw, [*pods, *gone], now) if gone else job
    job = replace(job, gone_restarts=shown.gone_restarts)
    own, explanation = pods_of_job(job.kind, job.key, job.uid, pods), None
    if job.status == PENDING:
        rows = [row for config in found.line for row in waiting_line_format.read(config.data)]
        explanation = explain_job(job.name, own, rows if found.line else None)
    pod_uids = (*(pod.metadata.uid for pod in own), *(log.pod_uid for log in attempts))
    facts = JobFacts(
        explanation=explanation,
        events=_event_rows(found.events, job, {job.uid, *pod_uids}),
        replicas=shown.instances,
        gone={
            log.pod_name: end_in_words(log.pod_name, log.exit_code, job)
            for log in attempts
            if log.pod_name in names
        },
        attempts={row.name: len(at_container(attempts, row.name)) for row in shown.instances},
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
        if event["metadata"].get("namespace") != job.namespace:
            continue
        subject = mapping(event.get("involvedObject"))
        if str(subject.get("uid")) in uids or subject.get("name") == job.name:
            with suppress(msgspec.ValidationError):
                rows.append(convert(event, Event))
    return rows_about(rows, uids, job.name, job.created)


_KINDS = {kind.lower(): kind for kind in JOB_KIND_BY_NAME}


class JobPath(NamedTuple):
    key: Key
    kind: str

    @classmethod
    def of(cls, request: web.Request) -> JobPath:
        info = request.match_info
        return cls.of_parts(info["namespace"], info["kind"], info["name"])

    @classmethod
    def of_parts(cls, namespace: str = "", kind: str = "", name: str = "", *_: str) -> JobPath:
        """From the parts of `NAMESPACE/KIND/NAME/…`; a missing part is empty, and names no job.

        The kind is in any case: commands print `tfjob/NAME`.
        """
        return cls(Key(namespace, name), _KINDS.get(kind.lower(), kind))

    @property
    def url(self) -> str:
        return job_url(self.key.namespace, self.kind, self.key.name)


_ACTIONS = ("suspend", "resume", "delete")


async def change(request: web.Request) -> web.Response:
    """POST: change the job that the reader saw."""
    cluster, path = cluster_of(request), JobPath.of(request)
    form = await fields_of(request)
    action, uid = form.get("action", ""), form.get("uid", "")
    if action not in _ACTIONS:
        raise BadRequest(f"A job cannot be changed like this: {action!r}.", status=400)
    await cluster.job(path.kind, path.key)  # commands also take `pod/NAME`, a page does not

    def act(client: BlockingClient) -> None:
        job = lookup.get_job(client, path.key, path.kind.lower())
        if job.uid != uid:
            message = f"{path.key.name} has been deleted and created again."
            raise Conflict(message, status=409, hint="Load the page again.")
        if action == "delete":
            job_operations.delete_job_or_pod(client, path.key, path.kind.lower())
        else:
            job_operations.set_suspended(client, job, suspend=action == "suspend")

    try:
        await cluster.call(act)
    except ApiError:
        raise
    except MusterError as error:  # for instance, the job has just ended
        raise Conflict(str(error), hint=error.hint, status=409) from None
    target = "/jobs" if action == "delete" else path.url
    if not request.headers.get("HX-Request"):
        raise web.HTTPSeeOther(target)
    # The page of a job changes by itself.
    headers = {"HX-Redirect": target} if action == "delete" else {}
    return web.Response(status=204, headers=headers)


async def manifest_file(request: web.Request) -> web.Response:
    """GET …/yaml: the job as a file that can be submitted again."""
    from muster.client.manifests import yaml_writer  # loading yaml is slow

    path = JobPath.of(request)
    job = await cluster_of(request).job(path.kind, path.key)
    text = (await compute(partial(yaml_writer.dump, manifest(job.raw)))).rstrip("\n") + "\n"
    headers = attachment(f"{path.key.name}.yaml")
    return web.Response(text=text, content_type="application/yaml", headers=headers)


async def show_spec(request: web.Request) -> web.Response:
    cluster, path = cluster_of(request), JobPath.of(request)
    job = await cluster.job(path.kind, path.key)
    pods = pods_of_job(path.kind, path.key, job.raw["metadata"]["uid"], job.pods)
    names = [pod.metadata.name for pod in sorted(pods, key=order)]
    wanted = request.query.get("replica", "")
    chosen = wanted if wanted in names else next(iter(names), "")
    pod: Raw | None = None
    if chosen:
        with suppress(NotFound):
            # Live pods have only the fields that Muster reads, and no variables.
            key = Key(path.key.namespace, chosen)
            pod = await cluster.client.get(kinds.PODS.read_as(dict), key)
    files = await _files(cluster, path.key, pod) if pod else {}
    return await page(request, "spec.html", lambda: cluster_spec(path.url, names, pod, files))


async def _files(cluster: LiveCluster, job: Key, pod: Raw) -> dict[str, str]:
    if name := config_map_of(pod, job.name):
        with suppress(NotFound, Forbidden):
            return (await cluster.client.get(CONFIG_MAPS, Key(job.namespace, name))).data
    return {}


async def usage(cluster: LiveCluster, argument: str) -> AsyncIterator[Any]:
    """Messages with samples: those so far, then each new one."""
    path = JobPath.of_parts(*argument.split("/"))
    await cluster.job(path.kind, path.key)
    async with aclosing(cluster.usage.follow(path.key)) as batches:
        async for samples in batches:
            yield samples


async def scalars(request: web.Request) -> web.Response:
    """GET …/scalars: {"charts": […], "problem": "a sentence"}."""
    cluster, path = cluster_of(request), JobPath.of(request)
    await cluster.job(path.kind, path.key)
    pods = tensorboard_pods(path.key, (await cluster.informer(PODS)).all())
    charts: list[Any] = []
    problem = "" if pods else "The job has no TensorBoard."
    if running := [pod for pod in pods if pod.status.phase == "Running"]:
        try:
            charts = await cluster.tensorboards.charts(running[-1].metadata.key)
        except MusterError as error:
            problem = str(error)
    elif pods:
        problem = "The TensorBoard does not run."
    body = msgspec.json.encode({"charts": charts, "problem": problem})
    headers = {"Cache-Control": "no-store"}
    return web.Response(body=body, content_type="application/json", headers=headers)
