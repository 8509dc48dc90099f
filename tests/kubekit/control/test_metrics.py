"""The metrics of reconcile loops."""

from __future__ import annotations

import asyncio

import pytest

from kubekit.control.loop import RequeueAfter
from kubekit.control.manager import Manager
from kubekit.control.work_queue import WorkQueue
from kubekit.telemetry.metrics import REGISTRY

pytestmark = pytest.mark.looptime


def sample(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(name, {"loop": "measured", **labels})


async def test_a_managers_loops_are_measured() -> None:
    manager = Manager("m")
    queue: WorkQueue[str] = WorkQueue("measured")
    for key in "abc":
        queue.add(key)
    depth: list[float | None] = []

    async def reconcile(key: str) -> RequeueAfter | None:
        depth.append(sample("muster_queue_depth"))
        await asyncio.sleep(2)
        return RequeueAfter(1000) if key == "a" else None

    manager.loop(queue, reconcile)
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run())
        await asyncio.sleep(100)
        assert sample("muster_queue_delayed") == 1
        manager.stop()

    assert depth == [2, 1, 0]
    assert sample("muster_reconcile_total", outcome="done") == 2
    assert sample("muster_reconcile_total", outcome="again") == 1
    assert sample("muster_reconcile_seconds_sum") == pytest.approx(6)
