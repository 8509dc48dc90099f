"""Quotas: what is too much is refused, what is gone is given back, and the status says so."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from muster.local.apiserver.admission.quota import charge_of
from tests.local.apiserver.running_server import MERGE, running_server

if TYPE_CHECKING:
    from pathlib import Path

    from tests.local.apiserver.running_server import ApiClient, Reply

NS = "/api/v1/namespaces/default"
PODS, QUOTAS, CM = f"{NS}/pods", f"{NS}/resourcequotas", f"{NS}/configmaps"


async def limit(talk: ApiClient, *scopes: str, **hard: str) -> None:
    named = {name.replace("_", "."): value for name, value in hard.items()}
    spec = {"hard": named, "scopes": list(scopes)}
    reply = await talk.say("POST", QUOTAS, {"metadata": {"name": "q"}, "spec": spec})
    assert reply.status == 201, reply.body


async def pod(talk: ApiClient, name: str, cpu: str = "", **spec: Any) -> Reply:
    resources = {"requests": {"cpu": cpu}} if cpu else {}
    container = {"name": "c", "image": "i", "resources": resources}
    body = {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}
    return await talk.say("POST", PODS, body)


async def used(talk: ApiClient, name: str = "pods") -> str:
    status = (await talk.say("GET", f"{QUOTAS}/q")).body["status"]
    return str(status["used"][name])


async def test_many_at_once_never_take_more_than_there_is(talk: ApiClient) -> None:
    await limit(talk, pods="7", requests_cpu="1")

    replies = await asyncio.gather(*(pod(talk, f"p{i}", "150m") for i in range(30)))

    assert sorted(r.status for r in replies) == [201] * 6 + [403] * 24
    assert (await used(talk), await used(talk, "requests.cpu")) == ("6", "900m")


async def test_room_comes_back_when_pods_go_or_end(talk: ApiClient) -> None:
    await limit(talk, pods="2")
    await pod(talk, "a")
    await pod(talk, "b")
    assert (await pod(talk, "c")).status == 403

    await talk.say("DELETE", f"{PODS}/a")
    assert await used(talk) == "1"
    assert (await pod(talk, "c")).status == 201
    await talk.say("PATCH", f"{PODS}/b/status", {"status": {"phase": "Succeeded"}}, MERGE)
    assert await used(talk) == "1"
    assert (await pod(talk, "d")).status == 201


async def test_a_write_that_fails_takes_no_room(talk: ApiClient) -> None:
    await limit(talk, **{"count/configmaps": "2"})
    await talk.say("POST", CM, {"metadata": {"name": "a"}})
    for _ in range(3):
        assert (await talk.say("POST", CM, {"metadata": {"name": "a"}})).status == 409
        dry = await talk.say("POST", f"{CM}?dryRun=All", {"metadata": {"name": "b"}})
        assert dry.status == 201

    assert await used(talk, "count/configmaps") == "1"
    assert (await talk.say("POST", CM, {"metadata": {"name": "b"}})).status == 201


async def test_what_was_there_before_the_quota_counts(talk: ApiClient) -> None:
    await pod(talk, "a", "2")
    await limit(talk, pods="1", requests_cpu="1")

    assert (await used(talk), await used(talk, "requests.cpu")) == ("1", "2")
    assert (await pod(talk, "b", "1m")).status == 403


async def test_a_quota_that_is_changed_or_deleted_holds_no_longer(talk: ApiClient) -> None:
    await limit(talk, pods="0")
    assert (await pod(talk, "a")).status == 403
    await talk.say("PATCH", f"{QUOTAS}/q", {"spec": {"hard": {"pods": "1"}}}, MERGE)
    assert (await pod(talk, "a")).status == 201
    assert (await pod(talk, "b")).status == 403
    await talk.say("DELETE", f"{QUOTAS}/q")
    assert (await pod(talk, "b")).status == 201


async def test_a_restart_knows_what_is_used(tmp_path: Path) -> None:
    async with running_server(tmp_path) as talk:
        await limit(talk, pods="1")
        await pod(talk, "a")
    async with running_server(tmp_path) as talk:
        assert await used(talk) == "1"
        assert (await pod(talk, "b")).status == 403


async def test_a_status_written_by_hand_is_put_right(talk: ApiClient) -> None:
    await limit(talk, pods="1")
    await pod(talk, "a")
    lie = {"status": {"hard": {"pods": "9"}, "used": {"pods": "0"}}}
    await talk.say("PATCH", f"{QUOTAS}/q/status", lie, MERGE)

    assert await used(talk) == "1"


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
async def test_a_scope_says_which_pods_count(
    talk: ApiClient, scope: str, spec: dict[str, Any], expected: int
) -> None:
    await limit(talk, scope, pods="0")

    assert (await pod(talk, "a", **spec)).status == expected


def test_containers_that_start_a_pod_count_by_the_largest() -> None:
    def container(cpu: str, **more: str) -> dict[str, Any]:
        return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "initContainers": [container("3"), container("1", restartPolicy="Always"), container("1")],
        "containers": [container("500m"), container("1")],
    }
    assert str(charge_of("pods", {"spec": spec})["requests.cpu"]) == "3"
    spec["containers"].append(container("1"))
    assert str(charge_of("pods", {"spec": spec})["requests.cpu"]) == "3500m"
