"""The table of pages, and the server that answers them.

A new page is one row of `PAGES`. Middlewares, from the outside: errors become pages, the gate lets
the request in, the user's cluster is kept while the request runs.

Kept apart because loading all pages takes a while, and `server` does it when somebody connects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aiohttp import web

from muster.web import static_files
from muster.web.access.gate import GATE, Gate, Policy
from muster.web.access.request_facts import SECURITY_HEADERS
from muster.web.cluster.live_cluster import LiveClusters
from muster.web.context import CLUSTERS, NAVIGATION, POLICY, with_cluster
from muster.web.pages import errors, job, job_log, models, overviews, stream, submit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kubekit.client.auth.endpoint import Endpoint
    from kubekit.client.transport.connection_pool import Connector

    Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]

MAX_BODY = 1 << 20


class Page(NamedTuple):
    path: str
    show: Answer
    title: str = ""
    """In the navigation; pages without a title are not there."""
    change: Answer | None = None
    """The answer to a POST."""
    writes: bool = False
    """Whether the page is only there to change something: a read-only dashboard has none."""


_JOB = "/jobs/{namespace}/{kind}/{name}"
PAGES = (
    Page("/", overviews.show_cluster, "Cluster"),
    Page("/line", overviews.show_line, "Line"),
    Page("/jobs", overviews.show_jobs, "Jobs"),
    Page(_JOB, job.show, change=job.change),
    Page(f"{_JOB}/log", job_log.download),
    Page(f"{_JOB}/scalars", job.scalars),
    Page(f"{_JOB}/spec", job.show_spec),
    Page(f"{_JOB}/yaml", job.manifest_file),
    Page("/models", models.show, "Models", change=models.read),
    Page("/models/{namespace}/{name}", models.show_one, change=models.change),
    Page("/history", overviews.show_history, "History"),
    Page("/submit", submit.show, "Submit", change=submit.change, writes=True),
)

stream.FEEDS.update(log=job_log.follow, usage=job.usage)


def make_app(
    endpoint: Endpoint, policy: Policy, connector: Connector | None = None
) -> web.Application:
    """The dashboard of one cluster."""
    clusters = LiveClusters(connector=connector)
    gate = Gate(policy, endpoint, clusters.start, clusters.end)
    middlewares = (errors.middleware, gate.middleware, with_cluster)
    app = web.Application(middlewares=middlewares, client_max_size=MAX_BODY)
    app[CLUSTERS], app[GATE], app[POLICY], app[stream.STREAMS] = clusters, gate, policy, {}
    app.on_response_prepare.append(_begin)
    app.on_shutdown.append(_end_streams)
    app.on_cleanup.append(lambda app: app[CLUSTERS].close())
    pages = [row for row in PAGES if not (row.writes and policy.read_only)]
    app[NAVIGATION] = [(row.path, row.title) for row in pages if row.title]
    for row in pages:
        app.router.add_get(row.path, row.show)
        if row.change is not None:
            app.router.add_post(row.path, row.change)
    app.router.add_get("/healthz", _healthz)
    app.router.add_get("/static/{name:.+}", static_files.serve)
    app.router.add_get("/stream", stream.serve)
    app.router.add_post("/stream/{id}/topics", stream.set_topics)
    return app


async def _healthz(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


async def _begin(request: web.Request, response: web.StreamResponse) -> None:
    """The last moment before the headers of a response are sent."""
    request[errors.BEGUN] = response
    response.headers.update(SECURITY_HEADERS)
    response.headers.popall("Server", None)


async def _end_streams(app: web.Application) -> None:
    app[CLUSTERS].end_streams()
    app[GATE].sign_ins.close_all()
