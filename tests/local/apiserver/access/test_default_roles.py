"""The roles every cluster begins with: discovery, view, edit, admin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.local.apiserver.access.accounts import (
    ACCOUNTS,
    NS,
    PODS,
    RBAC,
    ROLES,
    grant,
    say_as,
    token_for,
)
from tests.local.apiserver.running_server import MERGE, running_server

if TYPE_CHECKING:
    from pathlib import Path

    from tests.local.apiserver.running_server import ApiClient


async def test_an_account_without_roles_may_only_discover_the_api(talk: ApiClient) -> None:
    token = await token_for(talk)

    assert (await say_as(talk, token, "GET", "/apis")).status == 200
    assert (await say_as(talk, token, "GET", "/openapi/v3")).status == 200
    refused = await say_as(talk, token, "GET", PODS)
    assert refused.status == 403
    assert refused.body["message"] == (
        'pods is forbidden: User "system:serviceaccount:default:default" cannot list resource'
        ' "pods" in API group "" in the namespace "default"'
    )


async def test_view_reads_and_edit_writes_but_neither_grants_roles(talk: ApiClient) -> None:
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


async def test_view_aggregates_labelled_roles(talk: ApiClient) -> None:
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
