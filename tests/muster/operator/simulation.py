"""The operator on an API server in memory and on virtual time."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from kubekit.client.client import Client
from muster.operator.daemon import Options, build
from tests.api_in_memory import ApiInMemory
from tests.muster.operator.builders import manifest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

START = datetime(2026, 1, 2, tzinfo=UTC)
NS = "namespaces/ns"
JOB = f"/apis/kubeflow.org/v1/{NS}/tfjobs/j"
POD = f"/api/v1/{NS}/pods"


def clock() -> datetime:
    return START + timedelta(seconds=asyncio.get_running_loop().time())


@asynccontextmanager
async def operating(server: ApiInMemory, **options: Any) -> AsyncIterator[None]:
    client = Client(server)
    manager = build(client, Options(**options), clock)
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run())
        try:
            yield
        finally:
            manager.stop()


def submit(server: ApiInMemory, name: str = "j", **more: Any) -> str:
    raw = manifest(name=name, **more)
    del raw["metadata"]["uid"]
    path = f"/apis/kubeflow.org/v1/{NS}/tfjobs/{name}"
    server.put(path, raw)
    return path


def conditions(server: ApiInMemory, path: str = JOB) -> list[str]:
    job = server.get(path)
    assert job is not None
    rows = (job.get("status") or {}).get("conditions") or []
    return [row["type"] for row in rows if row["status"] == "True"]


def phase(server: ApiInMemory, pod: str, word: str, **status: Any) -> None:
    server.patch(f"{POD}/{pod}", {"status": {"phase": word, **status}})


async def passes(seconds: float = 5) -> None:
    """Let virtual time pass."""
    await asyncio.sleep(seconds)  # pace: virtual time


def writes(server: ApiInMemory) -> list[str]:
    """The writes in order: method and resource."""
    return [
        f"{ask.method} {ask.path.partition('/ns/')[2].split('/')[0]}"
        for ask in server.requests
        if ask.method != "GET"
    ]
