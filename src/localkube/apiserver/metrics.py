"""Prometheus metrics of the API server: requests, their duration, open watches, revision.

All parts that run in this process share one registry, so one scrape sees the whole local cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.exposition import choose_encoder

from kubekit.telemetry.metrics import REGISTRY, counter, gauge, histogram
from localkube.apiserver.streams.pod_streams import STREAMED

if TYPE_CHECKING:
    from localkube.apiserver.http.requests import Route
    from localkube.apiserver.resource import Resource

_REQUESTS = counter("apiserver_requests_total", "Requests answered.", "verb", "resource", "code")
_SECONDS = histogram(
    "apiserver_request_seconds", "How long requests took, without watches.", "verb", "resource"
)
WATCHES = gauge("apiserver_watches", "Watches that are open.", "resource")
REVISION = gauge("apiserver_store_revision", "The newest durable revision.")


def observe_request(route: Route, resource: Resource, code: int, seconds: float) -> None:
    """Count a request and its duration; a stream has none, because it lasts as the client likes."""
    # An unknown subresource is not a label: clients could create any number of them.
    name = resource.collection
    if route.subresource in resource.subresources:
        name += f"/{route.subresource}"
    _REQUESTS.labels(route.verb, name, str(code)).inc()
    if route.verb != "watch" and route.subresource not in STREAMED:
        _SECONDS.labels(route.verb, name).observe(seconds)


def exposition(accept: str) -> tuple[bytes, str]:
    """All metrics of this process as text, and its type."""
    encode, content_type = choose_encoder(accept)
    return encode(REGISTRY), content_type
