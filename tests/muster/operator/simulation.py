"""The operator on an API server in memory and on virtual time."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from kubekit.client.client import Client
from muster.operator.run import Options, build
from tests.muster.operator.builders import manifest
from tests.muster.operator.fake_apiserver import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

START = datetime(2026, 1, 2, tzinfo=UTC)
NS = "namespaces/ns"
JOB = f"/apis/kubeflow.org/v1/{NS}/tfjobs/j"
POD = f"/api/v1/{NS}/pods"


def clock() -> datetime:
    return START + timedelta(seconds=asyncio.get_running_loop().time())


@asynccontextmanager
async def operating(server: Server, **options: Any) -> AsyncIterator[None]:
    client = Client(server)
    manager = build(client, Options(**options), clock)
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run())
        try:
            yield
        finally:
            manager.stop()


def submit(server: Server, name: str = "j", **more: Any) -> str:
    raw = manifest(name=name, **more)
    del raw["metadata"]["uid"]
    path = f"/apis/kubeflow.org/v1/{NS}/tfjobs/{name}"
    server.put(path, raw)
    return path


def conditions(server: Server, path: str = JOB) -> list[str]:
    job = server.get(path)
    assert job is not None
    rows = (job.get("status") or {}).get("conditions") or []
    return [row["type"] for row in rows if row["status"] == "True"]


def phase(server: Server, pod: str, word: str, **status: Any) -> None:
    server.patch(f"{POD}/{pod}", {"status": {"phase": word, **status}})


async def passes(seconds: float = 5) -> None:
    """Let virtual time pass."""
    await asyncio.sleep(seconds)  # pace: virtual time


def writes(server: Server) -> list[str]:
    """The writes in order: method and resource."""
    return [f"{m} {p.partition('/ns/')[2].split('/')[0]}" for m, p in server.requests if m != "GET"]
