"""`python -m benchmarks.with_aiohttp scheduler|operator …`: Muster with aiohttp as HTTP client."""

from __future__ import annotations

from benchmarks.aiohttp_transport import AiohttpTransport
from kubekit.client.transport import http_transport
from muster.cli.main import muster

if __name__ == "__main__":
    setattr(http_transport, "HttpTransport", AiohttpTransport)  # noqa: B010
    muster()
