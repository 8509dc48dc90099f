"""Helpers of the end-to-end tests: start an operator, change pods, wait for the result."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from kubekit.client.transport.http_transport import HttpTransport
from kubekit.objects.kinds import PODS, Kind
from kubekit.objects.meta import Key, Raw, timestamp
from kubekit.request_errors import NotFound, ServerError
from muster.operator.daemon import Options, run
from tests.muster.operator.builders import replica
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kubekit.client.auth.endpoint import Endpoint
    from kubekit.client.client import Client
    from kubekit.client.request import Request, Response

T = TypeVar("T")


class Unreliable(HttpTransport):
    """One response in twenty is 500, half of them after the write was done; watches are late."""

    def __init__(self, endpoint: Endpoint, *, seed: int = 3, late: float = 0.2) -> None:
        super().__init__(endpoint)
        self.dice = random.Random(seed)
        self.late = late
        self.failures = 0

    async def send(self, request: Request) -> Response:
        fails = self.dice.random() < 0.05
        self.failures += fails
        if fails and self.dice.random() < 0.5:
            raise ServerError("500 before", status=500)
        response = await super().send(request)
        if fails:
            raise ServerError("500 after", status=500)
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        async with super().stream(request) as pieces:
            yield self._delayed(pieces)

    async def _delayed(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for piece in pieces:
            await asyncio.sleep(self.dice.uniform(0, self.late))  # pace: a late watch
            yield piece


async def get_or_none(client: Client, kind: Kind[Any], key: Key) -> Any:
    try:
        return await client.get(kind, key)
    except NotFound:
        return None


@asynccontextmanager
async def operating(client: Client, **options: Any) -> AsyncIterator[None]:
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(run(client, Options(**options), stop))
        try:
            yield
        finally:
            stop.set()


def tfjob(ns: str, name: str = "j", **spec: Any) -> Raw:
    roles = {"Worker": replica(2), "PS": replica(1)}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name, "namespace": ns},
        "spec": {"tfReplicaSpecs": roles, **spec},
    }


async def pods(client: Client, ns: str, count: int) -> list[str]:
    """The names of the pods; waits until there are `count` of them."""

    async def check() -> list[str]:
        listing = await client.list(PODS, ns)
        names = sorted(pod.metadata.name for pod in listing.items)
        return names if len(names) == count else []

    return await eventually(check, what=f"{count} pods", timeout=60)


async def move(client: Client, ns: str, name: str, phase: str, code: int | None = None) -> None:
    """Set the status of a pod, as its node would."""
    status: Raw = {"phase": phase}
    if code is not None:
        row = {"name": "tensorflow", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
        end = {"exitCode": code, "finishedAt": timestamp(datetime.now(UTC))}
        status["containerStatuses"] = [{**row, "state": {"terminated": end}}]
    await client.patch(PODS, Key(ns, name), {"status": status}, subresource="status")


async def condition(client: Client, kind: Kind[Raw], key: Key, type_: str) -> Raw:
    """The job; waits until that condition is True."""

    async def check() -> Raw | None:
        job = await client.get(kind, key)
        rows = job.get("status", {}).get("conditions", [])
        return job if any(r["type"] == type_ and r["status"] == "True" for r in rows) else None

    job = await eventually(check, what=f"{key} {type_}")
    assert job is not None
    return job


async def nothing(client: Client, kind: Kind[Any], ns: str) -> None:
    async def check() -> bool:
        return not (await client.list(kind, ns)).items

    await eventually(check, timeout=60, what=f"no {kind.resource}")
