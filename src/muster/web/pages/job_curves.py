"""Curves of a job: the feed `usage:NAMESPACE/KIND/NAME/READER`, and scalars of its TensorBoard."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from kubekit.errors import MusterError
from muster.web.cluster import tensorboard
from muster.web.cluster.sources import PODS
from muster.web.context import cluster_of
from muster.web.pages.job_path import JobPath

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from muster.web.cluster.live_cluster import LiveCluster


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
    pods = tensorboard.pods_of(path.key, (await cluster.informer(PODS)).all())
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
