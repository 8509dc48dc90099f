"""Writes at the same time: none is lost, and no two get the same thing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.localkube.apiserver.running_server import MERGE, running_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.localkube.apiserver.running_server import ApiClient

CORE = "/api/v1/namespaces/default"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/things"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[ApiClient]:
    """A server with a kind whose `spec` is a map of numbers."""
    async with running_server(tmp_path / "server") as client:
        spec = {"type": "object", "additionalProperties": {"type": "integer"}}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
        version = {"name": "v1", "served": True, "storage": True, "schema": schema}
        names = {"plural": "things", "kind": "Thing"}
        body = {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]}
        definition = {"metadata": {"name": "things.example.com"}, "spec": body}
        assert (await client.send("POST", CRDS, definition)).status == 201
        yield client


def thing(**spec: int) -> dict[str, Any]:
    head = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}
    return {**head, "spec": spec}


async def test_no_write_to_one_object_is_lost(api: ApiClient) -> None:
    assert (await api.send("POST", THINGS, thing())).status == 201

    replies = await asyncio.gather(
        *(api.send("PATCH", f"{THINGS}/t", {"spec": {f"k{i}": i}}, MERGE) for i in range(24))
    )

    stored = (await api.send("GET", f"{THINGS}/t")).body
    assert [reply.status for reply in replies] == [200] * 24
    assert stored["spec"] == {f"k{i}": i for i in range(24)}
    assert stored["metadata"]["generation"] == 25


async def test_a_write_that_names_a_revision_fails_if_another_was_faster(api: ApiClient) -> None:
    first = (await api.send("POST", THINGS, thing())).body

    replies = await asyncio.gather(
        *(api.send("PUT", f"{THINGS}/t", {**first, "spec": {f"k{i}": i}}) for i in range(4))
    )

    assert sorted(reply.status for reply in replies) == [200, 409, 409, 409]


async def test_two_services_do_not_get_the_same_address(api: ApiClient) -> None:
    spec = {"clusterIP": "10.96.0.77", "ports": [{"port": 80}]}

    replies = await asyncio.gather(
        *(
            api.send("POST", f"{CORE}/services", {"metadata": {"name": name}, "spec": spec})
            for name in ("a", "b")
        )
    )

    refused = max(replies, key=lambda reply: reply.status)
    assert sorted(reply.status for reply in replies) == [201, 422]
    assert "provided IP is already allocated" in refused.body["message"]
