"""Writes that wait for expressions or webhooks, and the requests meanwhile."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.localkube.apiserver.running_server import MERGE, running_server
from tests.webhook_server import WebhookServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.localkube.apiserver.running_server import ApiClient

CORE = "/api/v1/namespaces/default"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/things"
# The characters of a text of 16 MiB are counted for every key.
ENDLESS = "['x']" + ".map(a, a + a + a + a)" * 12 + ".all(a, self.all(k, a.size() > 0))"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[ApiClient]:
    async with running_server(tmp_path / "server") as client:
        yield client


@pytest.fixture
def hooks(tmp_path: Path) -> Iterator[WebhookServer]:
    server = WebhookServer(tmp_path)
    server.start()
    yield server
    server.stop()


async def define_things(api: ApiClient, rule: str) -> None:
    """A kind whose `spec`, a map of numbers, has a rule."""
    spec = {
        "type": "object",
        "additionalProperties": {"type": "integer"},
        "x-kubernetes-validations": [{"rule": rule, "message": "broken"}],
    }
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "things", "kind": "Thing"}
    body = {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]}
    reply = await api.send("POST", CRDS, {"metadata": {"name": "things.example.com"}, "spec": body})
    assert reply.status == 201, reply.body


def thing(**spec: int) -> dict[str, Any]:
    head = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}
    return {**head, "spec": spec}


async def test_other_requests_are_answered_while_an_expression_is_evaluated(
    api: ApiClient,
) -> None:
    await define_things(api, ENDLESS)
    started = time.monotonic()
    waiting = asyncio.create_task(
        api.send("POST", THINGS, thing(**{f"k{i}": i for i in range(2000)}))
    )
    longest, answered = 0.0, 0
    while not waiting.done():
        before = time.monotonic()
        secret = {"metadata": {"generateName": "s-"}}
        assert (await api.send("POST", f"{CORE}/secrets", secret)).status == 201
        longest, answered = max(longest, time.monotonic() - before), answered + 1

    refused = await waiting
    assert (refused.status, "cost limit exceeded" in refused.body["message"]) == (422, True)
    assert answered > 5
    assert longest < (time.monotonic() - started) / 2


async def test_no_write_to_one_object_is_lost_while_others_are_evaluated(api: ApiClient) -> None:
    await define_things(api, "self.all(k, self[k] >= 0)")
    assert (await api.send("POST", THINGS, thing())).status == 201

    replies = await asyncio.gather(
        *(api.send("PATCH", f"{THINGS}/t", {"spec": {f"k{i}": i}}, MERGE) for i in range(24))
    )

    stored = (await api.send("GET", f"{THINGS}/t")).body
    assert [reply.status for reply in replies] == [200] * 24
    assert stored["spec"] == {f"k{i}": i for i in range(24)}
    assert stored["metadata"]["generation"] == 25


async def test_a_write_that_names_a_revision_fails_if_another_was_faster(api: ApiClient) -> None:
    await define_things(api, "self.all(k, self[k] >= 0)")
    first = (await api.send("POST", THINGS, thing())).body

    replies = await asyncio.gather(
        *(api.send("PUT", f"{THINGS}/t", {**first, "spec": {f"k{i}": i}}) for i in range(4))
    )

    assert sorted(reply.status for reply in replies) == [200, 409, 409, 409]


async def slow_webhook(api: ApiClient, hooks: WebhookServer, resource: str) -> None:
    """A webhook that allows the creation of objects once `hooks` is released."""
    rule = {
        "operations": ["CREATE"],
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": [resource],
    }
    webhook = {
        "name": "slow.hooks.example.com",
        "clientConfig": {"url": f"{hooks.url}/here/never", "caBundle": hooks.ca_bundle},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 30,
    }
    body = {"metadata": {"name": "slow"}, "webhooks": [webhook]}
    reply = await api.send("POST", f"{ADMISSION}/validatingwebhookconfigurations", body)
    assert reply.status == 201, reply.body


async def reviewed(api: ApiClient, hooks: WebhookServer, count: int) -> None:
    while len(hooks.reviews) < count:
        assert (await api.send("GET", f"{CORE}/pods")).status == 200


async def test_two_services_that_wait_do_not_get_the_same_address(
    api: ApiClient, hooks: WebhookServer
) -> None:
    await slow_webhook(api, hooks, "services")
    spec = {"clusterIP": "10.96.0.77", "ports": [{"port": 80}]}
    waiting = [
        asyncio.create_task(
            api.send("POST", f"{CORE}/services", {"metadata": {"name": name}, "spec": spec})
        )
        for name in ("a", "b")
    ]
    await reviewed(api, hooks, 2)
    hooks.release()

    replies = sorted([await each for each in waiting], key=lambda reply: reply.status)

    assert [reply.status for reply in replies] == [201, 422]
    assert "provided IP is already allocated" in replies[1].body["message"]


async def test_nothing_is_created_in_a_namespace_that_was_deleted_meanwhile(
    api: ApiClient, hooks: WebhookServer
) -> None:
    await api.send("POST", "/api/v1/namespaces", {"metadata": {"name": "x"}})
    await slow_webhook(api, hooks, "configmaps")
    body = {"metadata": {"name": "a"}}
    waiting = asyncio.create_task(api.send("POST", "/api/v1/namespaces/x/configmaps", body))
    await reviewed(api, hooks, 1)
    await api.send("DELETE", "/api/v1/namespaces/x")
    hooks.release()

    assert (await waiting).status == 403
