"""Metrics: declared with one prefix, served with health on one loopback port."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp
import pytest
from prometheus_client import generate_latest

from kubekit.errors import UsageError
from kubekit.telemetry import metrics
from kubekit.telemetry.health import Health

if TYPE_CHECKING:
    pass

BINDS = metrics.counter("test_binds_total", "Binds of this test.", "result")
ROOM = metrics.gauge("test_room", "Room of this test.")
LATENCY = metrics.histogram("test_latency_seconds", "Latency of this test.", buckets=(0.1, 1.0))


async def get(port: int, path: str, **headers: str) -> tuple[int, str, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}{path}", headers=headers) as response,
    ):
        return response.status, response.headers["Content-Type"], await response.text()


async def test_metrics_are_served_with_the_prefix() -> None:
    BINDS.labels("ok").inc(3)
    ROOM.set(7)
    LATENCY.observe(0.5)

    async with metrics.serving(0, Health()) as port:
        status, content_type, text = await get(port, "/metrics")

    assert status == 200
    assert content_type.startswith("text/plain")
    assert 'muster_test_binds_total{result="ok"} 3.0' in text
    assert "muster_test_room 7.0" in text
    assert 'muster_test_latency_seconds_bucket{le="1.0"} 1.0' in text
    assert "process_resident_memory_bytes" in text


async def test_openmetrics_is_served_on_request() -> None:
    async with metrics.serving(0, Health()) as port:
        _, content_type, text = await get(
            port, "/metrics", Accept="application/openmetrics-text; version=1.0.0"
        )
    assert content_type.startswith("application/openmetrics-text")
    assert text.endswith("# EOF\n")


async def test_health_and_readiness_are_served_on_the_same_port() -> None:
    health = Health()
    health.live("loop", lambda: "")
    health.ready("informers", lambda: "1 of 2 informers not synced")

    async with metrics.serving(0, health) as port:
        alive = await get(port, "/healthz")
        ready = await get(port, "/readyz")
        other = await get(port, "/")

    assert (alive[0], alive[2]) == (200, "[+] loop: ok\n")
    assert ready[0] == 503
    assert "[-] informers: 1 of 2 informers not synced" in ready[2]
    assert other[0] == 404


async def test_a_taken_port_is_one_clear_sentence() -> None:
    async with metrics.serving(0, Health()) as port:
        with pytest.raises(UsageError, match=f"127.0.0.1:{port}: .*in use"):
            async with metrics.serving(port, Health()):
                pytest.fail("served on a taken port")


async def test_the_port_is_free_again_when_serving_ends() -> None:
    async with metrics.serving(0, Health()) as port:
        pass
    async with metrics.serving(port, Health()) as again:
        assert again == port


def test_a_metric_declared_twice_is_rejected() -> None:
    with pytest.raises(ValueError, match="Duplicated"):
        metrics.counter("test_binds_total", "Again.")


def test_every_metric_has_the_prefix() -> None:
    families = [
        line.split()[2]
        for line in generate_latest(metrics.REGISTRY).decode().splitlines()
        if line.startswith("# HELP")
    ]
    foreign = [name for name in families if not name.startswith(("muster_", "process_", "python_"))]
    assert foreign == []
    assert "muster_test_room" in families
