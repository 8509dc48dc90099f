"""How many modules of the scheduler one gang passes from its first pod event to its binds."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from muster import scheduler
from muster.api.kinds import NODES, PODS
from muster.api.meta import Key
from muster.kube.auth.endpoint import Endpoint
from muster.kube.client import Client
from muster.local.apiserver.server import ApiServer
from muster.scheduler import service
from tests.test_architecture import walks

MAX_MODULES = 20
ROOM = {"cpu": "8", "memory": "8Gi", "pods": "110"}
GANG = ("g-0", "g-1", "g-2")
GROUP = "pod-group.scheduling.sigs.k8s.io"


@contextmanager
def modules_called(folder: Path) -> Iterator[dict[str, set[str]]]:
    """The modules of a package, each with the functions that are called meanwhile."""
    found: dict[str, set[str]] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        file = Path(frame.f_code.co_filename)
        if event == "call" and file.is_relative_to(folder):
            module = str(file.relative_to(folder))
            found.setdefault(module, set()).add(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)


async def bound(client: Client, *names: str) -> None:
    """Wait until all these pods have a node."""
    async with asyncio.timeout(20):
        for name in names:
            while not (await client.get(PODS, Key("default", name))).spec.node_name:  # noqa: ASYNC110
                await asyncio.sleep(0.02)  # pace: the server's and the scheduler's turn


def manifest(name: str, cpu: str, labels: dict[str, str]) -> dict[str, Any]:
    main = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"schedulerName": "muster", "containers": [main]},
    }


@pytest.mark.slow
async def test_one_gang_passes_few_modules_on_its_way_to_its_nodes(tmp_path: Path) -> None:
    server = ApiServer(tmp_path)
    await server.start()
    endpoint = Endpoint.with_token(server.url, server.token, ca=server.ca)
    stop = asyncio.Event()
    async with Client.connect(endpoint) as client, asyncio.TaskGroup() as group:
        status = {"allocatable": ROOM, "conditions": [{"type": "Ready", "status": "True"}]}
        for name in ("n1", "n2"):
            await client.create(NODES, {"metadata": {"name": name}})
            await client.patch(NODES, Key("", name), {"status": status}, subresource="status")
        group.create_task(service.run(client, service.Options(), stop))
        await client.create(PODS, manifest("first", "1", {}))
        await bound(client, "first")
        await asyncio.sleep(1)  # pace: what a start costs is over
        with modules_called(Path(scheduler.__file__).parent) as passed:
            labels = {f"{GROUP}/name": "g", f"{GROUP}/min-available": "3"}
            for name in GANG:
                await client.create(PODS, manifest(name, "2", labels))
            await bound(client, *GANG)
            await asyncio.sleep(1.5)  # pace: the reporter and the line publisher have written
        stop.set()
    await server.stop()

    assert {"loop.py", "decisions/decide.py", "effects/binder.py"} <= passed.keys()
    names = ", ".join(sorted(passed))
    assert len(passed) <= MAX_MODULES, names
    unnamed = [module for module in passed if f"`scheduler/{module}`" not in walks()]
    assert unnamed == [], "not in the walk of ARCHITECTURE.md"
