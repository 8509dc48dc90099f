"""Paths that name no object: health, version, discovery, OpenAPI, metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web
from prometheus_client.exposition import choose_encoder

from kubekit.telemetry.metrics import REGISTRY, gauge
from localkube.apiserver import api_errors, codec
from localkube.apiserver.http.requests import JSON
from localkube.apiserver.store.damage import damage_text
from localkube.apiserver.views import discovery, openapi, openapi_v2

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localkube.apiserver.resource_registry import Registry
    from localkube.apiserver.store.store import Store


_REVISION = gauge("apiserver_store_revision", "The newest durable revision.")
_HEALTH = ("healthz", "livez", "readyz")
_CHECKS = ("ping", "log", "etcd")
"""The checks, by the names that monitors know; the last one is the store."""


def answer(
    request: web.Request, registry: Registry, store: Store, components: Mapping[str, str]
) -> web.StreamResponse:
    """The document at a path; 404 if there is none. `components`: what is wrong with each."""
    path, accept = request.path, request.headers.get("Accept", "")
    if path.split("/")[1] in _HEALTH:
        return _health(request, store, components)
    if request.method not in ("GET", "HEAD"):
        raise api_errors.method_not_allowed()
    if path == "/metrics":
        # All parts that run in this process share one registry: one scrape sees the whole cluster.
        _REVISION.set(store.revision)
        encode, media = choose_encoder(accept)
        return web.Response(body=encode(REGISTRY), headers={"Content-Type": media})
    if path.startswith("/openapi/"):
        return _openapi(request, registry, accept)
    document = discovery.document(registry, path, accept)
    if path == "/":
        document = {"paths": _paths(registry)}
    if document is None:
        raise web.HTTPNotFound(text="404 page not found\n")
    kind = document.get("kind")
    if kind == "APIVersions":
        address = {"clientCIDR": "0.0.0.0/0", "serverAddress": request.host}
        document["serverAddressByClientCIDRs"] = [address]
    media = discovery.AGGREGATED_TYPE if kind == "APIGroupDiscoveryList" else JSON
    return web.Response(body=codec.dump(document), headers={"Content-Type": media})


def _openapi(request: web.Request, registry: Registry, accept: str) -> web.Response:
    path = request.path.rstrip("/")
    if path == "/openapi/v2":
        document = openapi_v2.document(registry)
        packed = openapi_v2.MEDIA_TYPE in accept
        body = openapi_v2.encode(document) if packed else codec.dump(document)
        media = openapi_v2.SENT if packed else JSON
        return web.Response(body=body, headers={"Content-Type": media})
    found = openapi.document(registry, path) if path.startswith("/openapi/v3") else None
    if found is None:
        raise web.HTTPNotFound(text="404 page not found\n")
    headers = {"Content-Type": JSON}
    if request.query.get("hash"):  # it names the content, so the client need not ask again
        headers["Cache-Control"] = "public, max-age=31536000, immutable"
    return web.Response(body=codec.dump(found), headers=headers)


def _health(request: web.Request, store: Store, components: Mapping[str, str]) -> web.Response:
    _, endpoint, *check = request.path.rstrip("/").split("/")
    ready = endpoint == "readyz"
    problems = dict.fromkeys(_CHECKS, "") | (dict(components) if ready else {})
    if check:
        if len(check) > 1 or check[0] not in problems:
            raise web.HTTPNotFound(text="404 page not found\n")
        problems = {check[0]: problems[check[0]]}
    # A server on a full disk is alive, since it reads and deletes, but not ready.
    if ready and "etcd" in problems and not store.has_room():
        problems["etcd"] = "the disk is full"
    failed = any(problems.values())
    if not failed and (check or "verbose" not in request.query):
        return web.Response(text="ok")
    damage = damage_text(store.odd_rows, record_lost=store.record_lost)
    notes = {"etcd": f": {damage}" if damage else ""}
    rows = [
        f"[-]{name} failed: {problem}" if problem else f"[+]{name} ok{notes.get(name, '')}"
        for name, problem in problems.items()
    ]
    summary = f"{endpoint} check {'failed' if failed else 'passed'}"
    return web.Response(status=500 if failed else 200, text="\n".join([*rows, summary, ""]))


def _paths(registry: Registry) -> list[str]:
    """All paths that can be read."""
    paths = {"/api", "/apis", "/metrics", "/openapi/v2", "/openapi/v3", "/version"}
    paths |= {f"/{name}{part}" for name in _HEALTH for part in ("", *(f"/{c}" for c in _CHECKS))}
    for resource in registry.all():
        paths |= {resource.root.removesuffix(f"/{resource.version}"), resource.root}
    return sorted(paths)
