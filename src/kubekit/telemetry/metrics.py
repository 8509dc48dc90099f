"""Prometheus metrics, and the port that serves them together with health.

Modules declare metrics at import with `counter`, `gauge` and `histogram`, which add the prefix
`muster_`. The port listens on loopback unless told otherwise; /metrics, /healthz and /readyz answer
from memory.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from kubekit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kubekit.telemetry.health import Health

# Our own registry, not the library's: tests and embedding programs keep theirs apart.
REGISTRY = CollectorRegistry(auto_describe=True)
ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)
GCCollector(registry=REGISTRY)

# From a dictionary look-up to a bind on a slow server; beyond that, all are just too long.
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


def counter(name: str, help_: str, *labels: str) -> Counter:
    """Declare a counter; its name ends in `_total`."""
    return Counter(f"muster_{name}", help_, labels, registry=REGISTRY)


def gauge(name: str, help_: str, *labels: str) -> Gauge:
    """Declare a gauge."""
    return Gauge(f"muster_{name}", help_, labels, registry=REGISTRY)


def histogram(
    name: str, help_: str, *labels: str, buckets: tuple[float, ...] = _BUCKETS
) -> Histogram:
    """Declare a histogram of durations in seconds, or of sizes."""
    return Histogram(f"muster_{name}", help_, labels, buckets=buckets, registry=REGISTRY)


@asynccontextmanager
async def serving(port: int, health: Health, *, host: str = "127.0.0.1") -> AsyncIterator[int]:
    """Serve while the block runs; yields the port, a free one for port 0."""
    from aiohttp import web  # declaring a metric must not cost the import of a web server

    async def metrics(request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(REGISTRY), headers={"Content-Type": content_type})

    async def report(request: web.Request) -> web.Response:
        result = health.liveness() if request.path == "/healthz" else health.readiness()
        return web.Response(text=str(result), status=200 if result.healthy else 503)

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/healthz", report)
    app.router.add_get("/readyz", report)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            reason = error.strerror or str(error)
            raise UsageError(f"cannot serve metrics on {host}:{port}: {reason}") from error
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
