"""The scheduler as a daemon with fewer rights than its page lists."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kubekit.client.client import Client
from kubekit.objects.kinds import NODES, PODS, Kind
from kubekit.objects.meta import Key
from kubekit.request_errors import Forbidden
from muster.contract.pod_groups import HYPER_NODES
from muster.scheduler import daemon
from tests.local_server import local_client
from tests.muster.scheduler.test_walk import ROOM, bound, manifest


@pytest.mark.slow
async def test_without_the_right_to_read_hyper_nodes_pods_are_placed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []
    allowed = Client.list

    async def list_(self: Client, kind: Kind[Any], *arguments: Any, **options: Any) -> Any:
        if kind is HYPER_NODES:
            refused.append(kind.resource)
            raise Forbidden("hypernodes is forbidden", status=403)
        return await allowed(self, kind, *arguments, **options)

    monkeypatch.setattr(Client, "list", list_)
    stop = asyncio.Event()
    async with local_client(tmp_path) as client, asyncio.TaskGroup() as group:
        status = {"allocatable": ROOM, "conditions": [{"type": "Ready", "status": "True"}]}
        await client.create(NODES, {"metadata": {"name": "n1"}})
        await client.patch(NODES, Key("", "n1"), {"status": status}, subresource="status")
        group.create_task(daemon.run(client, daemon.Options(), stop))
        await client.create(PODS, manifest("first", "1", {}))
        await bound(client, "first")
        stop.set()

    assert refused
