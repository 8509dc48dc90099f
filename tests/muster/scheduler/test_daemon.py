"""The scheduler as a daemon with fewer rights than its page lists."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kubekit.client.client import Client
from kubekit.objects.kinds import CRDS, EVENTS, NODES, PODS, Kind
from kubekit.objects.meta import Key, Raw
from kubekit.request_errors import Forbidden, NotFound
from muster.contract.crds import load_all
from muster.contract.pod_groups import HYPER_NODES, VOLCANO_POD_GROUPS
from muster.scheduler import daemon
from tests.local_server import local_client
from tests.muster.scheduler.test_walk import ROOM, bound, manifest
from tests.waiting import eventually


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


@pytest.mark.slow
async def test_a_gang_that_starts_at_once_is_told_that_its_queue_has_no_effect(
    tmp_path: Path,
) -> None:
    """It runs beside whatever the queue's limit is, so nothing else would tell."""
    stop = asyncio.Event()
    crd = next(crd for crd in load_all() if crd["metadata"]["name"] == VOLCANO_POD_GROUPS.resource)
    async with local_client(tmp_path) as client, asyncio.TaskGroup() as group:
        await client.create(CRDS, crd)
        status = {"allocatable": ROOM, "conditions": [{"type": "Ready", "status": "True"}]}
        await client.create(NODES, {"metadata": {"name": "n1"}})
        await client.patch(NODES, Key("", "n1"), {"status": status}, subresource="status")
        spec = {"minMember": 1, "queue": "research"}
        body = {"metadata": {"name": "g", "namespace": "default"}, "spec": spec}
        await eventually(partial(created, client, body), what="the PodGroup")
        group.create_task(daemon.run(client, daemon.Options(), stop))
        member = manifest("first", "1", {})
        member["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "g"}
        await client.create(PODS, member)
        await bound(client, "first")

        async def told() -> list[str]:
            events = (await client.list(EVENTS, "default")).items
            return [event.message for event in events if event.reason == "NotServed"]

        (text,) = await eventually(told, what="the event")
        stop.set()

    assert text.startswith("queue (research) has no effect: Muster has no queues")


async def created(client: Client, group: Raw) -> bool:
    """Whether the group could be created: its kind is served a moment after its CRD."""
    try:
        await client.create(VOLCANO_POD_GROUPS, group)
    except NotFound:
        return False
    return True
