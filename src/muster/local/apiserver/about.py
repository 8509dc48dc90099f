"""Paths that name no object: health, version, discovery, OpenAPI, metrics.

Called by `serve.py`, which has checked that the caller may ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from muster.local.apiserver import measures, objects, status
from muster.local.apiserver.views import discovery, openapi
from muster.local.apiserver.views.negotiation import JSON

if TYPE_CHECKING:
    from muster.local.apiserver.registry import Registry
    from muster.local.apiserver.store import Store


_FULL = "[-]store failed: the disk is full\nreadyz check failed\n"


def answer(request: web.Request, registry: Registry, store: Store) -> web.StreamResponse:
    """What the path tells of; 404 if it tells of nothing."""
    path, accept = request.path, request.headers.get("Accept", "")
    if path.partition("/")[2].partition("/")[0] in ("healthz", "livez", "readyz"):
        if path.startswith("/readyz") and store.full:
            return web.Response(status=500, text=_FULL)
        return web.Response(text="ok")
    if request.method not in ("GET", "HEAD"):
        raise status.not_allowed()
    if path == "/metrics":
        measures.REVISION.set(store.revision)
        text, kind = measures.exposition(accept)
        return web.Response(body=text, headers={"Content-Type": kind})
    if path == "/openapi/v2" and openapi.V2 in accept:
        return web.Response(body=openapi.V2_EMPTY, headers={"Content-Type": openapi.V2_SENT})
    if path.startswith("/openapi/"):
        found = openapi.document(registry, path)
        kind = JSON
    else:
        found = discovery.answer(registry, path, accept)
        kind = discovery.content_type(accept, path)
    if found is None:
        raise web.HTTPNotFound(text="404 page not found\n")
    return web.Response(body=objects.dump(found), headers={"Content-Type": kind})
