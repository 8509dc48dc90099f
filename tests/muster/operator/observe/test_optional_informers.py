"""A missing right affects only the jobs that need it, and their status names it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from kubekit.client.client import Client
from kubekit.telemetry.health import Health
from muster.operator.daemon import Options, build
from tests.api_in_memory import ApiInMemory
from tests.muster.operator.builders import manifest, replica

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.looptime
NS = "namespaces/ns"
START = datetime(2026, 1, 2, tzinfo=UTC)


@asynccontextmanager
async def operating(server: ApiInMemory) -> AsyncIterator[Health]:
    def clock() -> datetime:
        return START + timedelta(seconds=asyncio.get_running_loop().time())

    health = Health()
    daemon = build(Client(server), Options(health=health), clock)
    async with asyncio.TaskGroup() as group:
        group.create_task(daemon.run())
        try:
            yield health
        finally:
            daemon.stop()


@pytest.mark.parametrize("resource", ["jaxjobs", "secrets", "podgroups", "priorityclasses"])
async def test_an_operator_without_some_right_is_ready_and_names_the_right(
    resource: str,
) -> None:
    server = ApiInMemory()
    server.forbidden = {f"GET {resource}"}
    async with operating(server) as health:
        await asyncio.sleep(60)
        verdict = health.readiness()
        assert verdict.healthy, str(verdict)
        assert "[~] rights: " in str(verdict)
        assert resource in str(verdict)

        server.forbidden = set()
        await asyncio.sleep(600)
        assert "rights" not in str(health.readiness())


async def test_an_operator_that_may_not_list_pods_is_not_ready() -> None:
    server = ApiInMemory()
    server.forbidden = {"GET pods"}
    async with operating(server) as health:
        await asyncio.sleep(60)
        assert not health.readiness().healthy


async def test_a_change_that_is_not_allowed_is_in_the_status() -> None:
    server = ApiInMemory()
    path = f"/apis/kubeflow.org/v1/{NS}/mpijobs/j"
    roles = {"Launcher": replica(1, name="mpi"), "Worker": replica(1, name="mpi")}
    raw = manifest("MPIJob", roles)
    del raw["metadata"]["uid"]
    async with operating(server):
        server.put(path, raw)
        await asyncio.sleep(5)
        server.forbidden = {"PATCH configmaps"}
        server.patch(f"/api/v1/{NS}/pods/j-worker-0", {"status": {"phase": "Running"}})
        await asyncio.sleep(60)
        job = server.get(path)
        assert job is not None
        waits = job["status"]["waiting"]
        assert "ConfigMap j-config cannot be changed: " in waits["message"]

        server.forbidden = set()
        await asyncio.sleep(600)
        job = server.get(path)
        assert job is not None
        assert "waiting" not in job["status"]
        assert len(server.named("pods")) == 2
