"""Who gets in: the admin's token, service accounts' tokens, and what each of them may then do."""

from __future__ import annotations

import hmac
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import psutil
import pytest

from muster.local.apiserver.access.service_account_tokens import Tokens
from muster.local.apiserver.http.requests import Call, Route
from muster.local.apiserver.server import ApiServer
from tests.local.apiserver.running_server import MERGE, running_server

if TYPE_CHECKING:
    from pathlib import Path

    from tests.local.apiserver.running_server import ApiClient, Reply

NS = "/api/v1/namespaces/default"
PODS, ACCOUNTS = f"{NS}/pods", f"{NS}/serviceaccounts"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES = f"{RBAC}/clusterroles"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def token_for(talk: ApiClient, name: str = "default", **spec: Any) -> str:
    reply = await talk.say("POST", f"{ACCOUNTS}/{name}/token", {"spec": spec})
    assert reply.status == 201, reply.body
    return str(reply.body["status"]["token"])


async def say_as(talk: ApiClient, token: str, method: str, path: str, body: Any = None) -> Reply:
    return await talk.say(method, path, body, Authorization=f"Bearer {token}")


async def grant(talk: ApiClient, role: str, account: str = "default") -> None:
    reply = await talk.say(
        "POST",
        f"{RBAC}/namespaces/default/rolebindings",
        {
            "metadata": {"name": f"{account}-{role}"},
            "roleRef": {"kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "default"}],
        },
    )
    assert reply.status == 201, reply.body


async def test_every_namespace_has_an_account(talk: ApiClient) -> None:
    await talk.say("POST", "/api/v1/namespaces", {"metadata": {"name": "new"}})

    for namespace in ("default", "kube-system", "new"):
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
        assert (await talk.say("GET", path)).status == 200


async def test_a_deleted_default_account_comes_back_as_another(talk: ApiClient) -> None:
    before = (await talk.say("GET", f"{ACCOUNTS}/default")).body["metadata"]["uid"]
    token = await token_for(talk)
    await talk.say("DELETE", f"{ACCOUNTS}/default")
    after = (await talk.say("GET", f"{ACCOUNTS}/default")).body["metadata"]["uid"]

    assert after != before
    assert (await say_as(talk, token, "GET", PODS)).status == 401


async def test_a_token_says_whose_it_is(talk: ApiClient) -> None:
    reply = await say_as(talk, await token_for(talk), "POST", WHO, {})

    info = reply.body["status"]["userInfo"]
    assert info["username"] == "system:serviceaccount:default:default"
    assert "system:serviceaccounts:default" in info["groups"]


async def test_a_token_may_look_around_but_do_nothing(talk: ApiClient) -> None:
    token = await token_for(talk)

    assert (await say_as(talk, token, "GET", "/apis")).status == 200
    assert (await say_as(talk, token, "GET", "/openapi/v3")).status == 200
    refused = await say_as(talk, token, "GET", PODS)
    assert refused.status == 403
    assert refused.body["message"] == (
        'pods is forbidden: User "system:serviceaccount:default:default" cannot list resource'
        ' "pods" in API group "" in the namespace "default"'
    )


async def test_view_shows_and_edit_changes_but_neither_gives_rights(talk: ApiClient) -> None:
    for name in ("viewer", "editor"):
        await talk.say("POST", ACCOUNTS, {"metadata": {"name": name}})
    await grant(talk, "view", "viewer")
    await grant(talk, "edit", "editor")
    viewer, editor = await token_for(talk, "viewer"), await token_for(talk, "editor")
    config = {"metadata": {"name": "a"}}
    bindings = f"{RBAC}/namespaces/default/rolebindings"

    assert (await say_as(talk, viewer, "GET", PODS)).status == 200
    assert (await say_as(talk, viewer, "GET", f"{NS}/secrets")).status == 403
    assert (await say_as(talk, viewer, "POST", f"{NS}/configmaps", config)).status == 403
    assert (await say_as(talk, editor, "POST", f"{NS}/configmaps", config)).status == 201
    assert (await say_as(talk, editor, "GET", PODS)).status == 200
    assert (await say_as(talk, editor, "GET", bindings)).status == 403
    assert (await say_as(talk, editor, "GET", "/api/v1/nodes")).status == 403


async def test_a_labelled_role_adds_to_view_and_its_removal_takes_away(talk: ApiClient) -> None:
    await grant(talk, "view")
    token = await token_for(talk)
    rule = {"verbs": ["list"], "apiGroups": [""], "resources": ["secrets"]}
    label = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    await talk.say("POST", ROLES, {"metadata": {"name": "x", "labels": label}, "rules": [rule]})

    assert rule in (await talk.say("GET", f"{ROLES}/view")).body["rules"]
    assert rule in (await talk.say("GET", f"{ROLES}/admin")).body["rules"]
    assert (await say_as(talk, token, "GET", f"{NS}/secrets")).status == 200
    await talk.say("DELETE", f"{ROLES}/x")
    assert (await say_as(talk, token, "GET", f"{NS}/secrets")).status == 403


async def test_roles_that_an_admin_changed_stay_changed_after_a_restart(tmp_path: Path) -> None:
    async with running_server(tmp_path) as talk:
        await talk.say("PATCH", f"{ROLES}/system:discovery", {"rules": []}, MERGE)
        token = await token_for(talk)
    async with running_server(tmp_path) as talk:
        assert not (await talk.say("GET", f"{ROLES}/system:discovery")).body.get("rules")
        assert (await say_as(talk, token, "GET", "/apis")).status == 403


async def test_a_token_is_good_after_a_restart(tmp_path: Path) -> None:
    async with running_server(tmp_path) as talk:
        token = await token_for(talk)
    async with running_server(tmp_path) as talk:
        assert (await say_as(talk, token, "POST", WHO, {})).status == 201


async def token_of_the_past(server: ApiServer, hours: float) -> str:
    key = server.access.signing_key()
    then = Tokens(key, server.store, lambda: datetime.now(UTC) - timedelta(hours=hours))
    resource = server.registry.find("", "v1", "serviceaccounts")
    assert resource is not None
    route = Route("create", "", "v1", "serviceaccounts", "default", "default", "token")
    answer = await then.request(Call(route, resource, body=b"{}"))
    return str(msgspec.json.decode(answer.body)["status"]["token"])


@pytest.mark.parametrize(("hours", "expected"), [(0.9, 201), (1.1, 401), (-0.5, 401)])
async def test_a_token_is_refused_before_and_after_its_time(
    talk: ApiClient, hours: float, expected: int
) -> None:
    token = await token_of_the_past(talk.server, hours)

    assert (await say_as(talk, token, "POST", WHO, {})).status == expected


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


async def test_a_forged_token_is_refused(talk: ApiClient) -> None:
    token = await token_for(talk)

    for forged in forgeries(token):
        assert (await say_as(talk, forged, "POST", WHO, {})).status == 401, forged
    assert (await say_as(talk, token, "POST", WHO, {})).status == 201


async def test_another_clusters_token_is_refused(talk: ApiClient, tmp_path: Path) -> None:
    async with running_server(tmp_path / "other") as other:
        token = await token_for(other)

    assert (await say_as(talk, token, "POST", WHO, {})).status == 401


async def test_a_token_dies_with_the_pod_it_was_made_for(talk: ApiClient) -> None:
    await talk.create_pod("p")
    bound = {"apiVersion": "v1", "kind": "Pod", "name": "p"}
    token = await token_for(talk, boundObjectRef=bound)
    before = await say_as(talk, token, "POST", WHO, {})
    await talk.say("DELETE", f"{PODS}/p")
    after = await say_as(talk, token, "POST", WHO, {})

    assert (before.status, after.status) == (201, 401)
    extra = before.body["status"]["userInfo"]["extra"]
    assert extra["authentication.kubernetes.io/pod-name"] == ["p"]


async def test_only_those_allowed_to_may_stand_in_for_others(talk: ApiClient) -> None:
    token = await token_for(talk)
    headers = {"Impersonate-User": "jo", "Impersonate-Group": "system:masters"}

    as_master = await talk.say("GET", PODS, **headers)
    as_jo = await talk.say("GET", PODS, **{"Impersonate-User": "jo"})
    by_account = await talk.say("GET", PODS, Authorization=f"Bearer {token}", **headers)
    nobody = await talk.say("GET", PODS, **{"Impersonate-Group": "x"})

    assert [r.status for r in (as_master, as_jo, by_account, nobody)] == [200, 403, 403, 400]
    assert "cannot impersonate" in by_account.body["message"]


async def test_the_admin_cannot_be_locked_out(talk: ApiClient) -> None:
    for path in (f"{RBAC}/clusterrolebindings", f"{RBAC}/clusterroles"):
        assert (await talk.say("DELETE", path)).status == 200

    assert (await talk.say("GET", PODS)).status == 200


async def test_signing_keys_and_tokens_are_for_their_owner_only(talk: ApiClient) -> None:
    folder = talk.server.data_dir / "access"

    assert folder.stat().st_mode & 0o777 == 0o700
    for name in ("token", "accounts.key"):
        assert (folder / name).stat().st_mode & 0o777 == 0o600


async def test_tokens_are_compared_in_constant_time(
    talk: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[bytes, bytes]] = []
    really = hmac.compare_digest

    def watching(given: bytes, ours: bytes) -> bool:
        compared.append((given, ours))
        return really(given, ours)

    monkeypatch.setattr("hmac.compare_digest", watching)
    for token in ("", "x", talk.server.token[:-1], talk.server.token):
        talk.server.access.user(token)

    assert [ours for _, ours in compared] == [talk.server.token.encode()] * 4


def listening(port: int) -> set[str]:
    connections = psutil.Process().net_connections(kind="tcp")
    return {c.laddr.ip for c in connections if c.status == "LISTEN" and c.laddr.port == port}


async def test_it_listens_on_loopback_and_where_it_is_told_only(tmp_path: Path) -> None:
    alone, both = ApiServer(tmp_path / "a"), ApiServer(tmp_path / "b")
    await alone.start()
    await both.start(extra_addresses=("127.0.0.2",))
    try:
        assert listening(alone.port) == {"127.0.0.1"}
        assert listening(both.port) == {"127.0.0.1", "127.0.0.2"}
    finally:
        await alone.stop()
        await both.stop()
