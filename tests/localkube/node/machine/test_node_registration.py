"""The nodes' heartbeats, and the status written after a gap."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from kubekit.objects.kinds import LEASES, NODES, Kind
from localkube.node.machine.capacity import NodeSpec
from localkube.node.machine.node_registration import NodeHeartbeat

pytestmark = pytest.mark.looptime
START = datetime(2030, 1, 1, tzinfo=UTC)
ENFORCED = dict.fromkeys(("cpu", "memory", "pids"), "enforced")


class Writes:
    """A client that counts writes, on a cluster that has every object."""

    def __init__(self) -> None:
        self.statuses = self.beats = 0

    async def create(self, kind: Kind[Any], body: Any, **_: Any) -> None:
        self.beats += kind is LEASES

    async def patch(self, kind: Kind[Any], _: Any, body: Any, **options: Any) -> None:
        self.statuses += kind is NODES and options.get("subresource") == "status"
        self.beats += kind is LEASES

    async def list(self, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(items=[])


async def test_a_node_writes_its_status_at_once_after_a_gap() -> None:
    client, slept = Writes(), [0.0]
    loop = asyncio.get_running_loop()
    node = NodeSpec("n", {"cpu": "1"})

    def clock() -> datetime:
        return START + timedelta(seconds=loop.time() + slept[0])

    async with asyncio.TaskGroup() as group:
        heartbeat = NodeHeartbeat(client, [node], "127.0.0.1", clock, ENFORCED)  # type: ignore[arg-type]
        beating = group.create_task(heartbeat.run())
        await asyncio.sleep(65)
        assert (client.statuses, client.beats) == (1, 7)
        slept[0] = 120.0  # the machine slept, without a heartbeat
        await asyncio.sleep(10)
        assert (client.statuses, client.beats) == (2, 8)
        await asyncio.sleep(100)
        assert client.statuses == 2
        beating.cancel()
