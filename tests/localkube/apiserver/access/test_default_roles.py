"""The roles every cluster begins with: discovery, view, edit, admin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local_daemon import extensions
from tests.localkube.apiserver.access.accounts import (
    ACCOUNTS,
    NS,
    PODS,
    RBAC,
    ROLES,
    grant,
    send_as,
    token_for,
)
from tests.localkube.apiserver.running_server import MERGE, running_server

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localkube.apiserver.running_server import ApiClient


async def test_an_account_without_roles_may_only_discover_the_api(api: ApiClient) -> None:
    token = await token_for(api)

    assert (await send_as(api, token, "GET", "/apis")).status == 200
    assert (await send_as(api, token, "GET", "/openapi/v3")).status == 200
    refused = await send_as(api, token, "GET", PODS)
    assert refused.status == 403
    assert refused.body["message"] == (
        'pods is forbidden: User "system:serviceaccount:default:default" cannot list resource'
        ' "pods" in API group "" in the namespace "default"'
    )


async def test_view_reads_and_edit_writes_but_neither_grants_roles(api: ApiClient) -> None:
    for name in ("viewer", "editor"):
        await api.send("POST", ACCOUNTS, {"metadata": {"name": name}})
    await grant(api, "view", "viewer")
    await grant(api, "edit", "editor")
    viewer, editor = await token_for(api, "viewer"), await token_for(api, "editor")
    config = {"metadata": {"name": "a"}}
    bindings = f"{RBAC}/namespaces/default/rolebindings"

    assert (await send_as(api, viewer, "GET", PODS)).status == 200
    assert (await send_as(api, viewer, "GET", f"{NS}/secrets")).status == 403
    assert (await send_as(api, viewer, "POST", f"{NS}/configmaps", config)).status == 403
    assert (await send_as(api, editor, "POST", f"{NS}/configmaps", config)).status == 201
    assert (await send_as(api, editor, "GET", PODS)).status == 200
    assert (await send_as(api, editor, "GET", bindings)).status == 403
    assert (await send_as(api, editor, "GET", "/api/v1/nodes")).status == 403


async def test_view_aggregates_labelled_roles(api: ApiClient) -> None:
    await grant(api, "view")
    token = await token_for(api)
    rule = {"verbs": ["list"], "apiGroups": [""], "resources": ["secrets"]}
    label = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    await api.send("POST", ROLES, {"metadata": {"name": "x", "labels": label}, "rules": [rule]})

    assert rule in (await api.send("GET", f"{ROLES}/view")).body["rules"]
    assert rule in (await api.send("GET", f"{ROLES}/admin")).body["rules"]
    assert (await send_as(api, token, "GET", f"{NS}/secrets")).status == 200
    await api.send("DELETE", f"{ROLES}/x")
    assert (await send_as(api, token, "GET", f"{NS}/secrets")).status == 403


async def test_view_and_edit_have_the_rights_of_the_callers_kinds(tmp_path: Path) -> None:
    known = extensions(tmp_path).kinds
    async with running_server(tmp_path, known=known) as api:
        groups = {
            role: {
                group
                for rule in (await api.send("GET", f"{ROLES}/{role}")).body["rules"]
                if "create" in rule["verbs"] or role == "view"
                for group in rule.get("apiGroups", ())
            }
            for role in ("view", "edit", "admin")
        }
    assert all({"kubeflow.org", "scheduling.volcano.sh"} <= found for found in groups.values())


async def test_roles_that_an_admin_changed_stay_changed_after_a_restart(tmp_path: Path) -> None:
    async with running_server(tmp_path) as api:
        await api.send("PATCH", f"{ROLES}/system:discovery", {"rules": []}, MERGE)
        token = await token_for(api)
    async with running_server(tmp_path) as api:
        assert not (await api.send("GET", f"{ROLES}/system:discovery")).body.get("rules")
        assert (await send_as(api, token, "GET", "/apis")).status == 403


async def test_the_right_to_patch_and_update_creates_nothing(api: ApiClient) -> None:
    rule = {"verbs": ["patch", "update"], "apiGroups": ["", "coordination.k8s.io"]}
    role = {"metadata": {"name": "changer"}, "rules": [rule | {"resources": ["*"]}]}
    await api.send("POST", ROLES, role)
    await grant(api, "changer")
    bearer = f"Bearer {await token_for(api)}"
    apply = "application/apply-patch+yaml"
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"

    applied = await api.send(
        "PATCH", f"{NS}/configmaps/a?fieldManager=x", config, apply, Authorization=bearer
    )
    lease = {"metadata": {"name": "a"}}
    updated = await api.send("PUT", f"{leases}/a", lease, Authorization=bearer)

    assert (applied.status, updated.status) == (403, 403)
    assert (await api.send("GET", f"{NS}/configmaps/a")).status == 404
    assert (await api.send("GET", f"{leases}/a")).status == 404
    await api.send("POST", f"{NS}/configmaps", config)
    again = await api.send(
        "PATCH", f"{NS}/configmaps/a?fieldManager=x", config, apply, Authorization=bearer
    )
    assert again.status == 200
