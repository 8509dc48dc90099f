"""Service accounts and their tokens, over the API."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec
import pytest

from localkube.apiserver.access.service_account_tokens import Tokens
from localkube.apiserver.http.requests import Call, Route
from localkube.apiserver.server import ApiServer
from tests.localkube.apiserver.access.accounts import ACCOUNTS, PODS, WHO, send_as, token_for
from tests.localkube.apiserver.running_server import running_server

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localkube.apiserver.running_server import ApiClient


async def test_every_namespace_has_a_default_account(api: ApiClient) -> None:
    await api.send("POST", "/api/v1/namespaces", {"metadata": {"name": "new"}})

    for namespace in ("default", "kube-system", "new"):
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
        assert (await api.send("GET", path)).status == 200


async def test_a_deleted_default_account_is_recreated_with_a_new_uid(api: ApiClient) -> None:
    before = (await api.send("GET", f"{ACCOUNTS}/default")).body["metadata"]["uid"]
    token = await token_for(api)
    await api.send("DELETE", f"{ACCOUNTS}/default")
    after = (await api.send("GET", f"{ACCOUNTS}/default")).body["metadata"]["uid"]

    assert after != before
    assert (await send_as(api, token, "GET", PODS)).status == 401


async def test_a_token_carries_its_accounts_name_and_groups(api: ApiClient) -> None:
    reply = await send_as(api, await token_for(api), "POST", WHO, {})

    info = reply.body["status"]["userInfo"]
    assert info["username"] == "system:serviceaccount:default:default"
    assert "system:serviceaccounts:default" in info["groups"]


async def test_a_token_is_valid_after_a_restart(tmp_path: Path) -> None:
    async with running_server(tmp_path) as api:
        token = await token_for(api)
    async with running_server(tmp_path) as api:
        assert (await send_as(api, token, "POST", WHO, {})).status == 201


async def token_issued_before(server: ApiServer, hours: float) -> str:
    key = server.credentials.signing_key()
    then = Tokens(key, server.store, lambda: datetime.now(UTC) - timedelta(hours=hours))
    resource = server.registry.find("", "v1", "serviceaccounts")
    assert resource is not None
    route = Route("create", "", "v1", "serviceaccounts", "default", "default", "token")
    answer = await then.request(Call(route, resource, body=b"{}"))
    return str(msgspec.json.decode(answer.body)["status"]["token"])


@pytest.mark.parametrize(("hours", "expected"), [(0.9, 201), (1.1, 401), (-0.5, 401)])
async def test_a_token_is_rejected_before_and_after_its_validity(
    api: ApiClient, hours: float, expected: int
) -> None:
    token = await token_issued_before(api.server, hours)

    assert (await send_as(api, token, "POST", WHO, {})).status == expected


async def test_the_node_is_told_of_an_expired_token_of_a_pod_and_of_no_other(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []
    monkeypatch.setattr(api.server.tokens, "_refused", refused.append)
    pod = await api.create_pod("p")
    bound = {"apiVersion": "v1", "kind": "Pod", "name": "p"}
    tokens = [await token_for(api, boundObjectRef=bound), await token_for(api), "forged"]
    later = datetime.now(UTC) + timedelta(hours=2)
    monkeypatch.setattr(api.server.tokens, "_clock", lambda: later)
    answers = [(await send_as(api, token, "POST", WHO, {})).status for token in tokens]

    assert answers == [401, 401, 401]
    assert refused == [pod["metadata"]["uid"]]


def forgeries(token: str) -> list[str]:
    head, body, signature = token.split(".")
    return [
        f"{head}.{body}.{signature[:-8]}AAAAAAAA",
        f"{head}.{body[:-4]}AAAA.{signature}",
        f"{head}.{body}.",
        f"eyJhbGciOiJub25lIn0.{body}.",
        "..",
        f"{token}\N{LATIN SMALL LETTER E WITH ACUTE}",
    ]


async def test_a_forged_token_is_rejected(api: ApiClient) -> None:
    token = await token_for(api)

    for forged in forgeries(token):
        assert (await send_as(api, forged, "POST", WHO, {})).status == 401, forged
    assert (await send_as(api, token, "POST", WHO, {})).status == 201


async def test_another_clusters_token_is_rejected(api: ApiClient, tmp_path: Path) -> None:
    async with running_server(tmp_path / "other") as other:
        token = await token_for(other)

    assert (await send_as(api, token, "POST", WHO, {})).status == 401


async def test_a_token_is_invalid_once_its_pod_is_deleted(api: ApiClient) -> None:
    await api.create_pod("p")
    bound = {"apiVersion": "v1", "kind": "Pod", "name": "p"}
    token = await token_for(api, boundObjectRef=bound)
    before = await send_as(api, token, "POST", WHO, {})
    await api.send("DELETE", f"{PODS}/p")
    after = await send_as(api, token, "POST", WHO, {})

    assert (before.status, after.status) == (201, 401)
    extra = before.body["status"]["userInfo"]["extra"]
    assert extra["authentication.kubernetes.io/pod-name"] == ["p"]
