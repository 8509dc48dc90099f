"""Limit ranges come and go while pods are created; the conformance tests have their rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.localkube.apiserver.running_server import running_server

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localkube.apiserver.running_server import ApiClient

NS = "/api/v1/namespaces/default"


def limit_range(cpu: str) -> dict[str, Any]:
    limits = [{"type": "Container", "max": {"cpu": cpu}}]
    return {"metadata": {"name": "r"}, "spec": {"limits": limits}}


async def limit_of_new_pod(api: ApiClient, name: str) -> str:
    pod = await api.create_pod(name)
    return str((pod["spec"]["containers"][0]["resources"].get("limits") or {}).get("cpu", ""))


async def test_a_range_counts_from_its_creation_to_its_deletion(tmp_path: Path) -> None:
    async with running_server(tmp_path) as api:
        before = await limit_of_new_pod(api, "a")
        await api.send("POST", f"{NS}/limitranges", limit_range("2"))
        created = await limit_of_new_pod(api, "b")
        await api.send("PUT", f"{NS}/limitranges/r", limit_range("3"))
        changed = await limit_of_new_pod(api, "c")
        await api.send("DELETE", f"{NS}/limitranges/r")
        deleted = await limit_of_new_pod(api, "d")

    assert (before, created, changed, deleted) == ("", "2", "3", "")


async def test_a_range_counts_after_a_restart_and_only_in_its_namespace(tmp_path: Path) -> None:
    async with running_server(tmp_path) as api:
        await api.send("POST", f"{NS}/limitranges", limit_range("2"))
    async with running_server(tmp_path) as api:
        await api.send("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}})
        pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        elsewhere = await api.send("POST", "/api/v1/namespaces/other/pods", pod)

        assert await limit_of_new_pod(api, "a") == "2"
        assert elsewhere.body["spec"]["containers"][0]["resources"] == {}


@pytest.mark.parametrize(
    "collection",
    [
        f"{NS}/configmaps",
        f"{NS}/secrets",
        f"{NS}/serviceaccounts",
        f"{NS}/endpoints",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
    ],
)
async def test_kinds_without_a_spec_are_in_no_range(tmp_path: Path, collection: str) -> None:
    async with running_server(tmp_path) as api:
        await api.send("POST", f"{NS}/limitranges", limit_range("2"))
        created = await api.send("POST", collection, {"metadata": {"name": "a"}})

    assert created.status == 201, created.body
