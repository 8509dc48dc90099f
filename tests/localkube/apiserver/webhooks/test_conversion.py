"""Conversion webhooks on this server: lists, watches, selectors of versions, failures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.webhook_server import WebhookServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.localkube.apiserver.running_server import ApiClient

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NEW, OLD = "/apis/x.io/v1/things", "/apis/x.io/v1beta1/things"


@pytest.fixture
def hooks(tmp_path: Path) -> Iterator[WebhookServer]:
    server = WebhookServer(tmp_path)
    server.start()
    yield server
    server.stop()


def version(name: str, *fields: str, storage: bool) -> dict[str, Any]:
    properties = {field: {"type": "string"} for field in fields}
    spec = {"type": "object", "properties": properties}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    scale = {"specReplicasPath": ".spec.port", "statusReplicasPath": ".status.replicas"}
    subresources = {"subresources": {"scale": scale}} if "port" in fields else {}
    return {"name": name, "served": True, "storage": storage, "schema": schema, **subresources}


async def define(api: ApiClient, hooks: WebhookServer, behaviour: str) -> None:
    config = {"url": f"{hooks.url}/here/{behaviour}", "caBundle": hooks.ca_bundle}
    webhook = {"clientConfig": config, "conversionReviewVersions": ["v1"]}
    spec = {
        "group": "x.io",
        "scope": "Cluster",
        "names": {"plural": "things", "kind": "Thing"},
        "conversion": {"strategy": "Webhook", "webhook": webhook},
        "versions": [
            version("v1", "hostPort", storage=True),
            version("v1beta1", "host", "port", storage=False),
        ],
    }
    created = await api.send("POST", CRDS, {"metadata": {"name": "things.x.io"}, "spec": spec})
    assert created.status == 201, created.body


def thing(name: str, called: str, **spec: str) -> dict[str, Any]:
    return {
        "apiVersion": f"x.io/{called}",
        "kind": "Thing",
        "metadata": {"name": name},
        "spec": spec,
    }


async def test_a_list_is_converted_with_one_call(api: ApiClient, hooks: WebhookServer) -> None:
    await define(api, hooks, "convert")
    for name in ("a", "b"):
        await api.send("POST", NEW, thing(name, "v1", hostPort=f"{name}:1"))
    stored = await api.send("GET", NEW)
    assert not hooks.reviews

    listed = await api.send("GET", OLD)

    assert [item["spec"]["hostPort"] for item in stored.body["items"]] == ["a:1", "b:1"]
    assert [item["spec"] for item in listed.body["items"]] == [
        {"host": "a", "port": "1"},
        {"host": "b", "port": "1"},
    ]
    assert len(hooks.reviews) == 1


async def test_a_watch_shows_converted_objects(api: ApiClient, hooks: WebhookServer) -> None:
    await define(api, hooks, "convert")
    async with api.session.get(f"{api.server.url}{OLD}?watch=true") as watch:
        await api.send("POST", NEW, thing("a", "v1", hostPort="a:1"))
        event = json.loads(await watch.content.readline())

    assert (event["type"], event["object"]["spec"]) == ("ADDED", {"host": "a", "port": "1"})
    scale = await api.send("GET", f"{OLD}/a/scale")
    assert scale.body["spec"] == {"replicas": "1"}


async def test_a_webhook_that_fails_holds_no_deletion_back(
    api: ApiClient, hooks: WebhookServer
) -> None:
    await define(api, hooks, "fail")
    await api.send("POST", NEW, thing("a", "v1", hostPort="a:1"))

    shown = await api.send("GET", f"{OLD}/a")
    deleted = await api.send("DELETE", f"{OLD}/a")

    assert (shown.status, shown.body["message"]) == (
        500,
        "conversion webhook for x.io/v1, Kind=Thing failed: cannot convert",
    )
    assert deleted.status == 200
    assert (await api.send("GET", f"{NEW}/a")).status == 404
