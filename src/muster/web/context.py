"""What every handler of a page uses: the user's cluster, and the rendering of templates.

    async def show(request: web.Request) -> web.Response:
        cluster = cluster_of(request)
        pods = tuple((await cluster.informer(PODS)).all())
        return await page(request, "pods.html", lambda: pods_view(pods, now))

The view and the template run in a thread, since the process may also be the API server. A request
of htmx for the part of the page with `id=NAME` gets the template `_NAME.html` alone.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from aiohttp import web

from kubekit.errors import MusterError, UsageError
from kubekit.request_errors import ApiError, ServerError, Unreachable
from muster.client.target import NoCluster
from muster.web import render
from muster.web.access.gate import Policy
from muster.web.access.request_facts import IDENTITY
from muster.web.cluster.live_cluster import LiveCluster, LiveClusters, compute
from muster.web.cluster.watched_objects import SYNC_SECONDS, StillLoading, be_impatient

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp.typedefs import Handler

CLUSTERS: web.AppKey[LiveClusters] = web.AppKey("clusters", LiveClusters)
NAVIGATION: web.AppKey[list[tuple[str, str]]] = web.AppKey("navigation", list)
"""Path and title of the pages in the navigation."""
POLICY: web.AppKey[Policy] = web.AppKey("policy", Policy)
_CSRF = secrets.token_urlsafe(32)
"""Stands for the CSRF token of the reader until the text is sent; nobody else can know it."""
_CLUSTER: web.RequestKey[LiveCluster] = web.RequestKey("cluster", LiveCluster)


def cluster_of(request: web.Request) -> LiveCluster:
    """The cluster with the credentials of the user."""
    return request[_CLUSTER]


@web.middleware
async def with_cluster(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Keep the user's cluster while the request runs."""
    identity = request.get(IDENTITY)
    if identity is None:  # a public path
        return await handler(request)
    with request.app[CLUSTERS].use(identity) as cluster:
        request[_CLUSTER] = cluster
        if not _opens_page(request) or request.path_qs in cluster.awaited:
            return await handler(request)
        be_impatient()
        try:
            return await handler(request)
        except StillLoading:
            return _loading(request, cluster)


def _opens_page(request: web.Request) -> bool:
    """Whether a person waits for a whole page, not a script for a part of one."""
    headers = request.headers
    is_html = "text/html" in headers.get("Accept", "")
    return request.method == "GET" and is_html and not headers.get("HX-Request")


def _loading(request: web.Request, cluster: LiveCluster) -> web.Response:
    """A page that shows what is on the way while the browser loads the real page."""
    cluster.awaited.add(request.path_qs)
    asyncio.get_running_loop().call_later(SYNC_SECONDS, cluster.awaited.discard, request.path_qs)
    # Not in a thread: it would wait for the first list, which keeps the processor busy.
    text = render.text("loading.html", view=cluster.loading, **shared_variables(request))
    answer = web.Response(text=_for_reader(request, text), content_type="text/html")
    answer.headers["Cache-Control"] = "no-store"
    answer.headers["Refresh"] = "0"
    return answer


def status_of(error: MusterError) -> int:
    """The HTTP status of an error."""
    if isinstance(error, Unreachable | NoCluster | ServerError):
        return 502
    if isinstance(error, ApiError) and 400 <= error.status < 500:
        return error.status
    return 400 if isinstance(error, UsageError) else 500


async def page(
    request: web.Request,
    template: str,
    view: Callable[[], object],
    *,
    status: int = 200,
    shared: bool = False,
) -> web.Response:
    """Answer with a template and its `view`, which is made in a thread.

    If htmx asks for one part of the page, by its id, only the part's own template is rendered.
    With `shared`, the view depends only on the address and on live objects: readers who load the
    page at the same time get the same text.
    """
    part = request.headers.get("HX-Target", "")
    if part and request.headers.get("HX-Request") and f"_{part}.html" in render.parts():
        template = f"_{part}.html"
    # Before the view: a change that comes in between makes the page outdated.
    variables = shared_variables(request)

    def make() -> str:
        return render.text(template, view=view(), **variables)

    if shared:
        key = (template, request.path_qs, variables["version"], variables["problem"])
        text = await cluster_of(request).pages.text(key, make)
    else:
        text = await compute(make)
    answer = web.Response(text=_for_reader(request, text), status=status, content_type="text/html")
    answer.headers["Cache-Control"] = "no-store"
    answer.headers["Vary"] = "HX-Request"
    return answer


def _for_reader(request: web.Request, text: str) -> str:
    """A text that many readers may share, with the CSRF token of this one."""
    return text.replace(_CSRF, request[IDENTITY].csrf if IDENTITY in request else "")


def attachment(name: str) -> dict[str, str]:
    """The headers of a file that the browser saves instead of showing it. The name may be text of
    the cluster: it is encoded, so that no character of it has a meaning."""
    return {
        "Cache-Control": "no-store",
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
    }


def shared_variables(request: web.Request) -> dict[str, Any]:
    """The variables of the template that all pages share."""
    identity, cluster = request.get(IDENTITY), request.get(_CLUSTER)
    return {
        "csrf": _CSRF if identity else "",
        "hidden": cluster.hidden if cluster else "",
        "scope": cluster.scope if cluster else "",
        "signed_in": bool(identity and request.app[POLICY].sign_in),
        "user": identity.name if identity else "",
        "navigation": request.app[NAVIGATION],
        "path": request.path,
        "problem": cluster.problem if cluster else "",
        "read_only": request.app[POLICY].read_only,
        "version": cluster.changes.version if cluster else "",
    }
