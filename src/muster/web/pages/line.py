"""`/line`: who waits, why and for what."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from muster.web.cluster.sources import LINE, PODS
from muster.web.context import cluster_of, page
from muster.web.views.line import LineView, line_view, published

if TYPE_CHECKING:
    from aiohttp import web


async def show(request: web.Request) -> web.Response:
    cluster = cluster_of(request)
    pod_informer, line_informer = await asyncio.gather(
        cluster.informer(PODS), cluster.optional_informer(LINE)
    )
    pods, now = tuple(pod_informer.all()), datetime.now(UTC)
    line = published(line_informer.all())

    def view() -> LineView:
        return line_view(pods, line, cluster.looks(pods), now)

    return await page(request, "line.html", view, shared=True)
