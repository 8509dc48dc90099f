"""The walk of ARCHITECTURE.md names every module that one gang passes on its way to its nodes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kubekit.client.client import Client
from kubekit.objects.kinds import NODES, PODS
from kubekit.objects.meta import Key
from muster import scheduler
from muster.scheduler import daemon
from tests.local_server import local_client
from tests.modules_called import modules_called
from tests.test_architecture import walks
from tests.waiting import eventually

ROOM = {"cpu": "8", "memory": "8Gi", "pods": "110"}
GANG = ("g-0", "g-1", "g-2")
LEASES = "name_leases.py"
"""Renews leases at the start and every ten seconds, whether gangs come or not."""
GROUP = "pod-group.scheduling.sigs.k8s.io"


async def bound(client: Client, *names: str) -> None:
    """Wait until all these pods have a node."""

    async def all_have_nodes() -> bool:
        pods = [await client.get(PODS, Key("default", name)) for name in names]
        return all(pod.spec.node_name for pod in pods)

    await eventually(all_have_nodes, what="the pods are bound")


def published(called: dict[str, set[str]]) -> bool:
    """Whether the publisher of the line had its turn, the last after a bind."""
    return "_publish" in called.get("effects/waiting_line_publisher.py", ())


def manifest(name: str, cpu: str, labels: dict[str, str]) -> dict[str, Any]:
    main = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"schedulerName": "muster", "containers": [main]},
    }


@pytest.mark.slow
async def test_one_gang_passes_only_modules_that_the_walk_names(tmp_path: Path) -> None:
    stop = asyncio.Event()
    async with local_client(tmp_path) as client, asyncio.TaskGroup() as group:
        status = {"allocatable": ROOM, "conditions": [{"type": "Ready", "status": "True"}]}
        for name in ("n1", "n2"):
            await client.create(NODES, {"metadata": {"name": name}})
            await client.patch(NODES, Key("", name), {"status": status}, subresource="status")
        with modules_called(scheduler) as started:
            group.create_task(daemon.run(client, daemon.Options(), stop))
            await client.create(PODS, manifest("first", "1", {}))
            await bound(client, "first")
            await eventually(lambda: published(started), what="the start is over")
        with modules_called(scheduler) as passed:
            labels = {f"{GROUP}/name": "g", f"{GROUP}/min-available": "3"}
            for name in GANG:
                await client.create(PODS, manifest(name, "2", labels))
            await bound(client, *GANG)
            await eventually(lambda: published(passed), what="the line is published")
        stop.set()
    passed.pop(LEASES, None)

    assert {"loop.py", "decisions/gang_decision.py", "effects/binder.py"} <= passed.keys()
    unnamed = [module for module in passed if f"`muster/scheduler/{module}`" not in walks()]
    assert unnamed == [], "not in the walk of ARCHITECTURE.md"
