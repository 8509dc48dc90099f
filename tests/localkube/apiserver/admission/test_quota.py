"""Quotas: excess is rejected, usage of removed objects is freed, and the status shows it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from localkube.apiserver.admission.quota import charge_of
from tests.localkube.apiserver.running_server import MERGE, running_server

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localkube.apiserver.running_server import ApiClient, Reply

NS = "/api/v1/namespaces/default"
PODS, QUOTAS, CM = f"{NS}/pods", f"{NS}/resourcequotas", f"{NS}/configmaps"


async def limit(api: ApiClient, *scopes: str, **hard: str) -> None:
    named = {name.replace("_", "."): value for name, value in hard.items()}
    spec = {"hard": named, "scopes": list(scopes)}
    reply = await api.send("POST", QUOTAS, {"metadata": {"name": "q"}, "spec": spec})
    assert reply.status == 201, reply.body


async def pod(api: ApiClient, name: str, cpu: str = "", **spec: Any) -> Reply:
    resources = {"requests": {"cpu": cpu}} if cpu else {}
    container = {"name": "c", "image": "i", "resources": resources}
    body = {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}
    return await api.send("POST", PODS, body)


async def used(api: ApiClient, name: str = "pods") -> str:
    status = (await api.send("GET", f"{QUOTAS}/q")).body["status"]
    return str(status["used"][name])


async def test_concurrent_writes_never_exceed_a_quota(api: ApiClient) -> None:
    await limit(api, pods="7", requests_cpu="1")

    replies = await asyncio.gather(*(pod(api, f"p{i}", "150m") for i in range(30)))

    assert sorted(r.status for r in replies) == [201] * 6 + [403] * 24
    assert (await used(api), await used(api, "requests.cpu")) == ("6", "900m")


async def test_deleted_and_finished_pods_no_longer_count(api: ApiClient) -> None:
    await limit(api, pods="2")
    await pod(api, "a")
    await pod(api, "b")
    assert (await pod(api, "c")).status == 403

    await api.send("DELETE", f"{PODS}/a")
    assert await used(api) == "1"
    assert (await pod(api, "c")).status == 201
    await api.send("PATCH", f"{PODS}/b/status", {"status": {"phase": "Succeeded"}}, MERGE)
    assert await used(api) == "1"
    assert (await pod(api, "d")).status == 201


async def test_a_failed_write_does_not_count(api: ApiClient) -> None:
    await limit(api, **{"count/configmaps": "2"})
    await api.send("POST", CM, {"metadata": {"name": "a"}})
    for _ in range(3):
        assert (await api.send("POST", CM, {"metadata": {"name": "a"}})).status == 409
        dry = await api.send("POST", f"{CM}?dryRun=All", {"metadata": {"name": "b"}})
        assert dry.status == 201

    assert await used(api, "count/configmaps") == "1"
    assert (await api.send("POST", CM, {"metadata": {"name": "b"}})).status == 201


async def test_objects_older_than_the_quota_count(api: ApiClient) -> None:
    await pod(api, "a", "2")
    await limit(api, pods="1", requests_cpu="1")

    assert (await used(api), await used(api, "requests.cpu")) == ("1", "2")
    assert (await pod(api, "b", "1m")).status == 403


async def test_a_changed_or_deleted_quota_no_longer_limits(api: ApiClient) -> None:
    await limit(api, pods="0")
    assert (await pod(api, "a")).status == 403
    await api.send("PATCH", f"{QUOTAS}/q", {"spec": {"hard": {"pods": "1"}}}, MERGE)
    assert (await pod(api, "a")).status == 201
    assert (await pod(api, "b")).status == 403
    await api.send("DELETE", f"{QUOTAS}/q")
    assert (await pod(api, "b")).status == 201


async def test_usage_survives_a_restart(tmp_path: Path) -> None:
    async with running_server(tmp_path) as api:
        await limit(api, pods="1")
        await pod(api, "a")
    async with running_server(tmp_path) as api:
        assert await used(api) == "1"
        assert (await pod(api, "b")).status == 403


async def test_a_status_written_by_hand_is_corrected(api: ApiClient) -> None:
    await limit(api, pods="1")
    await pod(api, "a")
    wrong = {"status": {"hard": {"pods": "9"}, "used": {"pods": "0"}}}
    await api.send("PATCH", f"{QUOTAS}/q/status", wrong, MERGE)

    assert await used(api) == "1"


@pytest.mark.parametrize(
    ("scope", "spec", "expected"),
    [
        ("BestEffort", {}, 403),
        ("NotBestEffort", {}, 201),
        ("Terminating", {}, 201),
        ("Terminating", {"activeDeadlineSeconds": 5}, 403),
        ("NotTerminating", {"activeDeadlineSeconds": 5}, 201),
        ("NotTerminating", {}, 403),
        ("PriorityClass", {}, 201),
        ("PriorityClass", {"priorityClassName": "system-node-critical"}, 403),
    ],
)
async def test_a_scope_selects_the_pods_that_count(
    api: ApiClient, scope: str, spec: dict[str, Any], expected: int
) -> None:
    await limit(api, scope, pods="0")

    assert (await pod(api, "a", **spec)).status == expected


def test_of_init_containers_the_largest_counts() -> None:
    def container(cpu: str, **more: str) -> dict[str, Any]:
        return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "initContainers": [container("3"), container("1", restartPolicy="Always"), container("1")],
        "containers": [container("500m"), container("1")],
    }
    assert str(charge_of("pods", {"spec": spec})["requests.cpu"]) == "3"
    spec["containers"].append(container("1"))
    assert str(charge_of("pods", {"spec": spec})["requests.cpu"]) == "3500m"
