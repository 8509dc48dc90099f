"""Prometheus metrics, and the port on which a daemon shows them together with its health.

Modules declare their metrics at import with `counter`, `gauge` and `histogram`; the prefix
`muster_` is added here. A daemon works within `serving`. It promises loopback unless told
otherwise, and that /metrics, /healthz and /readyz answer from memory.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from muster.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from aiohttp import web

    from muster.observe.health import Health, HealthReport

REGISTRY = CollectorRegistry(auto_describe=True)
ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)
GCCollector(registry=REGISTRY)

# From a dictionary look-up to a bind on a slow server; the tail only has to say "too long".
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


def counter(name: str, help_: str, *labels: str) -> Counter:
    """Declare something that only grows; its name ends in `_total`."""
    return Counter(f"muster_{name}", help_, labels, registry=REGISTRY)


def gauge(name: str, help_: str, *labels: str) -> Gauge:
    """Declare something that goes up and down."""
    return Gauge(f"muster_{name}", help_, labels, registry=REGISTRY)


def histogram(
    name: str, help_: str, *labels: str, buckets: tuple[float, ...] = _BUCKETS
) -> Histogram:
    """Declare durations (in seconds) or sizes whose distribution matters."""
    return Histogram(f"muster_{name}", help_, labels, buckets=buckets, registry=REGISTRY)


@asynccontextmanager
async def serving(port: int, health: Health, *, host: str = "127.0.0.1") -> AsyncIterator[int]:
    """Serve while the block runs; yields the port, which for port 0 is one that was free."""
    from aiohttp import web  # declaring a metric must not cost the import of a web server

    app = web.Application()
    app.router.add_get("/metrics", _metrics)
    app.router.add_get("/healthz", _answering(health.liveness))
    app.router.add_get("/readyz", _answering(health.readiness))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            why = error.strerror or str(error)
            raise UsageError(f"cannot serve metrics on {host}:{port}: {why}") from error
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


async def _metrics(request: web.Request) -> web.Response:
    from aiohttp import web

    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return web.Response(body=encode(REGISTRY), headers={"Content-Type": content_type})


def _answering(
    verdict: Callable[[], HealthReport],
) -> Callable[[web.Request], Awaitable[web.Response]]:
    from aiohttp import web

    async def answer(_: web.Request) -> web.Response:
        found = verdict()
        return web.Response(text=str(found), status=200 if found.healthy else 503)

    return answer
