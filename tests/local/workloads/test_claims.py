"""Claims are bound to folders once the scheduler has chosen a node, and not before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from muster.api.meta import Key
from muster.kube.client import Client
from muster.kube.config import Endpoint
from muster.local.apiserver.serve import ApiServer
from muster.local.workloads.claims import CLAIMS, CLASS, SELECTED_NODE, VOLUMES, Claims, wanted
from tests.waiting import eventually

KEY = Key("default", "data")


def claim(**spec: Any) -> dict[str, Any]:
    asked = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": "data", "namespace": "default"}, "spec": asked | spec}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    server = ApiServer(tmp_path / "api")
    await server.start()
    endpoint = Endpoint.with_token(server.url, server.token, ca=server.ca)
    async with Client.connect(endpoint) as client, asyncio.TaskGroup() as group:
        running = group.create_task(Claims(client, tmp_path / "volumes").run())
        yield client
        running.cancel()
    await server.stop()


async def test_a_claim_is_bound_to_its_folder_when_a_node_is_chosen(
    client: Client, tmp_path: Path
) -> None:
    await client.create(CLAIMS, claim())

    async def classed() -> bool:
        return bool((await client.get(CLAIMS, KEY))["spec"].get("storageClassName") == CLASS)

    await eventually(classed, what="the default class")
    assert (await client.list(VOLUMES)).items == []

    await client.patch(CLAIMS, KEY, {"metadata": {"annotations": {SELECTED_NODE: "muster-0"}}})

    async def bound() -> bool:
        return bool((await client.get(CLAIMS, KEY)).get("status", {}).get("phase") == "Bound")

    await eventually(bound, what="bound")
    found = await client.get(
        VOLUMES, Key("", (await client.get(CLAIMS, KEY))["spec"]["volumeName"])
    )
    assert found["spec"]["hostPath"]["path"] == str(tmp_path / "volumes" / "default" / "data")
    assert found["status"]["phase"] == "Bound"


async def test_the_volume_goes_with_its_claim(client: Client) -> None:
    chosen = claim(storageClassName=CLASS)
    chosen["metadata"]["annotations"] = {SELECTED_NODE: "muster-0"}
    await client.create(CLAIMS, chosen)

    async def volumes(count: int) -> bool:
        return len((await client.list(VOLUMES)).items) == count

    await eventually(lambda: volumes(1), what="a volume")
    await client.delete(CLAIMS, KEY)
    await eventually(lambda: volumes(0), what="no volume")


@pytest.mark.parametrize(
    ("change", "ours"),
    [
        ({}, True),
        ({"spec": {"storageClassName": "nfs"}}, False),
        ({"metadata": {"name": "x", "annotations": {}}}, False),
        ({"status": {"phase": "Bound"}}, False),
    ],
)
def test_only_our_own_class_is_bound(change: dict[str, Any], ours: bool) -> None:
    given = {
        "metadata": {"name": "x", "annotations": {SELECTED_NODE: "n"}},
        "spec": {"storageClassName": CLASS},
    }

    assert wanted(given | change) is ours
