"""Admission webhooks on this server: services, slow webhooks, reinvocation, connections."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.localkube.apiserver.fake_node import FakeNode
from tests.localkube.apiserver.running_server import running_server
from tests.webhook_server import WebhookServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.localkube.apiserver.running_server import ApiClient

NS = "/api/v1/namespaces/default"
CM = f"{NS}/configmaps"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"


@pytest.fixture
def hooks(tmp_path: Path) -> Iterator[WebhookServer]:
    server = WebhookServer(tmp_path)
    server.start("hooks.default.svc")
    yield server
    server.stop()


@pytest.fixture
async def with_node(tmp_path: Path) -> AsyncIterator[ApiClient]:
    async with running_server(tmp_path / "server", FakeNode()) as api:
        yield api


def webhook(hooks: WebhookServer, behaviour: str, *resources: str, **more: Any) -> dict[str, Any]:
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"]}
    return {
        "name": f"{behaviour}.hooks.example.com",
        "clientConfig": {"url": f"{hooks.url}/here/{behaviour}", "caBundle": hooks.ca_bundle},
        "rules": [{**rule, "resources": list(resources) or ["configmaps"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }


async def configure(api: ApiClient, kind: str, *webhooks: dict[str, Any]) -> Any:
    body = {"metadata": {"name": "a"}, "webhooks": list(webhooks)}
    return await api.send("POST", f"{CONFIGURATIONS}/{kind}webhookconfigurations", body)


async def test_a_slow_webhook_blocks_nobody_else(api: ApiClient, hooks: WebhookServer) -> None:
    await configure(api, "validating", webhook(hooks, "never", timeoutSeconds=30))
    waiting = asyncio.create_task(api.send("POST", CM, {"metadata": {"name": "a"}}))
    while not hooks.reviews:
        assert (await api.send("GET", f"{NS}/pods")).status == 200

    other = await api.send("POST", f"{NS}/secrets", {"metadata": {"name": "a"}})

    assert (other.status, waiting.done()) == (201, False)
    hooks.release()
    assert (await waiting).status == 201


async def test_a_webhook_behind_a_service(with_node: ApiClient, hooks: WebhookServer) -> None:
    api = with_node
    service = {"clientConfig": {"caBundle": hooks.ca_bundle, "service": {
        "namespace": "default", "name": "hooks", "path": "/here/deny-message",
    }}}  # fmt: skip
    await configure(api, "validating", {**webhook(hooks, "deny"), **service})
    body = {"metadata": {"name": "a"}}
    url = 'Post "https://hooks.default.svc:443/here/deny-message?timeout=10s"'

    missing = await api.send("POST", CM, body)
    ports = [{"port": 443, "targetPort": hooks.port}]
    spec = {"selector": {"a": "b"}, "ports": ports}
    await api.send("POST", f"{NS}/services", {"metadata": {"name": "hooks"}, "spec": spec})
    without = await api.send("POST", CM, body)
    endpoint = {"addresses": ["127.0.0.1"], "conditions": {"ready": True}}
    labels = {"kubernetes.io/service-name": "hooks"}
    slice_ = {"addressType": "IPv4", "ports": [{"port": hooks.port}], "endpoints": [endpoint]}
    await api.send("POST", SLICES, {"metadata": {"name": "hooks", "labels": labels}, **slice_})
    called = await api.send("POST", CM, body)

    assert missing.body["message"].endswith(f'{url}: service "hooks" not found')
    assert without.body["message"].endswith(f'{url}: no endpoints available for service "hooks"')
    assert (called.status, called.body["reason"]) == (403, "Forbidden")


async def test_a_webhook_that_asks_for_it_is_called_again(
    api: ApiClient, hooks: WebhookServer
) -> None:
    first = webhook(hooks, "recorded", reinvocationPolicy="IfNeeded")
    await configure(api, "mutating", first, webhook(hooks, "label"))

    created = await api.send("POST", CM, {"metadata": {"name": "a"}})

    assert created.body["metadata"]["labels"] == {"hooked": "yes"}
    assert [path for path, _ in hooks.reviews] == [
        "/here/recorded",
        "/here/label",
        "/here/recorded",
    ]


async def test_webhooks_see_the_scale_of_an_object(api: ApiClient, hooks: WebhookServer) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    labels = {"a": "b"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    await api.send("POST", path, {"metadata": {"name": "d"}, "spec": spec})
    await configure(api, "mutating", webhook(hooks, "replicas", "deployments/scale"))

    body = {"metadata": {"name": "d"}, "spec": {"replicas": 3}}
    scaled = await api.send("PUT", f"{path}/d/scale", body)

    request = hooks.reviews[0][1]["request"]
    assert (request["kind"]["kind"], request["object"]["spec"]) == ("Scale", {"replicas": 3})
    assert scaled.body["spec"] == {"replicas": 7}


async def test_a_webhook_refuses_an_exec(with_node: ApiClient, hooks: WebhookServer) -> None:
    api = with_node
    await api.create_pod("a", nodeName="n")
    await configure(api, "validating", webhook(hooks, "deny", "pods/exec"))

    refused = await api.send("GET", f"{NS}/pods/a/exec?command=cat&command=x&stdin=true")

    request = hooks.reviews[0][1]["request"]
    assert request["operation"] == "CONNECT"
    assert request["object"]["command"] == ["cat", "x"]
    assert (refused.status, "denied the request" in refused.body["message"]) == (400, True)


async def test_the_deletion_of_a_collection_asks_about_each_object(
    api: ApiClient, hooks: WebhookServer
) -> None:
    for name in ("a", "b"):
        await api.send("POST", CM, {"metadata": {"name": name}})
    await configure(api, "validating", webhook(hooks, "recorded"))

    await api.send("DELETE", CM)

    requests = [review["request"] for _, review in hooks.reviews]
    assert [request["oldObject"]["metadata"]["name"] for request in requests] == ["a", "b"]
    assert all("name" not in request for request in requests)


async def test_writes_of_the_server_itself_go_past_webhooks(
    api: ApiClient, hooks: WebhookServer
) -> None:
    await configure(api, "validating", webhook(hooks, "deny", "serviceaccounts"))

    created = await api.send("POST", "/api/v1/namespaces", {"metadata": {"name": "x"}})

    assert created.status == 201
    account = await api.send("GET", "/api/v1/namespaces/x/serviceaccounts/default")
    assert account.status == 200
