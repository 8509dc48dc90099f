"""`/`: the cluster as a map of its nodes."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from muster.web.cluster.sources import LINE, NODES, PODS
from muster.web.context import cluster_of, page
from muster.web.views.cluster_map import ClusterMap, MapQuery, cluster_map
from muster.web.views.line import published

if TYPE_CHECKING:
    from aiohttp import web


async def show(request: web.Request) -> web.Response:
    cluster, query = cluster_of(request), MapQuery.read(request.query)
    node_informer, pod_informer, line_informer = await asyncio.gather(
        cluster.optional_informer(NODES), cluster.informer(PODS), cluster.optional_informer(LINE)
    )
    nodes, pods = tuple(node_informer.all()), tuple(pod_informer.all())
    line, now = published(line_informer.all()), datetime.now(UTC)

    def view() -> ClusterMap:
        return cluster_map(nodes, pods, line, query, cluster.looks(pods), now)

    return await page(request, "cluster.html", view, shared=True)
