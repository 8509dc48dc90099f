"""The server as a whole, over TLS: start, stop, restart, concurrent writers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from localkube.apiserver.verbs import Verbs
from muster.contract import crds
from tests.localkube.apiserver.running_server import MERGE, running_server
from tests.unexpected_errors import counted

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localkube.apiserver.running_server import ApiClient


CM = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JOBS = "/apis/kubeflow.org/v1/namespaces/default/tfjobs"


def tfjobs() -> Any:
    return next(c for c in crds.load_all() if c["metadata"]["name"] == "tfjobs.kubeflow.org")


@pytest.mark.parametrize("header", ["", "Bearer wrong", "Basic eDp5", "Bearer ", "Bearer \udcff"])
async def test_a_request_without_a_valid_token_gets_401(api: ApiClient, header: str) -> None:
    reply = await api.send("GET", CM, Authorization=header)

    assert (reply.status, reply.body["reason"]) == (401, "Unauthorized")


async def test_a_restart_keeps_objects_token_and_certificate(tmp_path: Path) -> None:
    async with running_server(tmp_path) as api:
        await api.send("POST", CRDS, tfjobs())
        created = await api.create_pod("a")
        token, ca = api.server.token, api.server.ca
    async with running_server(tmp_path) as api:
        assert (api.server.token, api.server.ca) == (token, ca)
        assert (await api.send("GET", f"{PODS}/a")).body == created
        assert (await api.send("GET", JOBS)).status == 200


async def test_stopping_ends_open_watches(tmp_path: Path) -> None:
    async with running_server(tmp_path) as api:
        response = await api.session.get(f"{api.server.url}{CM}?watch=1")
        await api.server.stop()
        assert await response.content.read() == b""
        await api.server.start()


async def test_concurrent_writers_lose_no_write(api: ApiClient) -> None:
    await api.send("POST", CM, {"metadata": {"name": "a"}})
    replies = await asyncio.gather(
        *(api.send("PATCH", f"{CM}/a", {"data": {f"k{i}": "v"}}, MERGE) for i in range(5))
    )

    assert {r.status for r in replies} == {200}
    assert len((await api.send("GET", f"{CM}/a")).body["data"]) == 5


async def test_an_object_cannot_grow_without_end_by_many_patches(api: ApiClient) -> None:
    await api.send("POST", CRDS, tfjobs())
    job = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "a"}, "spec": {}}
    await api.send("POST", JOBS, job)
    half = "x" * 2 * 1024 * 1024

    first = await api.send("PATCH", f"{JOBS}/a", {"spec": {"one": half}}, MERGE)
    second = await api.send("PATCH", f"{JOBS}/a", {"spec": {"two": half}}, MERGE)

    assert (first.status, second.status) == (200, 413)
    assert second.body["message"] == "Request entity too large: limit is 3145728"
    assert (await api.send("DELETE", f"{JOBS}/a")).status == 200


async def test_a_bug_is_answered_counted_and_logged_once(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: Verbs, call: object) -> None:
        raise KeyError("spec")

    monkeypatch.setattr(Verbs, "read", fail)
    before = counted().get("API request", 0.0)

    answers = [await api.send("GET", "/api/v1/namespaces/default") for _ in range(3)]

    assert [answer.status for answer in answers] == [500] * 3
    assert counted()["API request"] == before + 3
    assert sum("KeyError" in record.getMessage() for record in caplog.records) <= 1
