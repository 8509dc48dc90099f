"""Paths that name no object: health, version, discovery."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from localkube.apiserver.store import disk_reserve

if TYPE_CHECKING:
    from tests.localkube.apiserver.running_server import ApiClient


CM = "/api/v1/namespaces/default/configmaps"


async def test_health_and_version_need_no_token(api: ApiClient) -> None:
    for path in ("/healthz", "/livez", "/readyz", "/version"):
        assert (await api.send("GET", path, Authorization="")).status == 200


async def test_readyz_fails_while_the_disk_is_full(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve = api.server.store._log.reserve
    monkeypatch.setattr(reserve, "free", lambda: 1000)
    monkeypatch.setattr(disk_reserve, "_LOOK", 0)

    for path in ("/readyz", "/readyz/etcd", "/livez", "/healthz", "/readyz/ping"):
        reply = await api.send("GET", path)
        failed = path in ("/readyz", "/readyz/etcd")
        assert reply.status == (500 if failed else 200)
        assert ("disk is full" in str(reply.body)) == failed
    rejected = await api.send("POST", CM, {"metadata": {"name": "a"}})
    assert rejected.status == 500
    assert "disk" in rejected.body["message"]


async def test_verbose_health_lists_the_checks(api: ApiClient) -> None:
    reply = await api.send("GET", "/livez?verbose")

    assert reply.body.splitlines()[0] == "[+]ping ok"
    assert reply.body.splitlines()[-1] == "livez check passed"


async def test_every_path_that_the_root_lists_exists(api: ApiClient) -> None:
    paths = (await api.send("GET", "/")).body["paths"]

    assert {"/api/v1", "/apis/apps/v1", "/readyz/ping"} <= set(paths)
    for path in paths:
        assert (await api.send("GET", path)).status == 200, path


async def test_the_core_group_names_the_address_of_the_server(api: ApiClient) -> None:
    addresses = (await api.send("GET", "/api")).body["serverAddressByClientCIDRs"]

    assert [row["serverAddress"] for row in addresses] == [f"127.0.0.1:{api.server.port}"]


async def test_readiness_names_a_component_that_failed(api: ApiClient) -> None:
    problems = {"operator": "", "scheduler": "Too many open files; starts again in 4 s"}
    api.server.component_problems = lambda: problems

    ready = await api.send("GET", "/readyz")
    one = await api.send("GET", "/readyz/operator")
    alive = await api.send("GET", "/livez")

    assert (ready.status, ready.body.splitlines()[3:]) == (
        500,
        [
            "[+]operator ok",
            "[-]scheduler failed: Too many open files; starts again in 4 s",
            "readyz check failed",
        ],
    )
    assert (one.status, one.body) == (200, "ok")
    assert alive.status == 200, "a restart of the whole daemon would not help"
