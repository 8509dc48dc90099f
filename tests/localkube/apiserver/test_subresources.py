"""finalize, eviction, scale."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.localkube.apiserver.running_server import MERGE

if TYPE_CHECKING:
    from tests.localkube.apiserver.running_server import ApiClient, Reply


PODS = "/api/v1/namespaces/default/pods"


async def test_a_namespace_stays_until_it_is_finalized(api: ApiClient) -> None:
    await api.send("POST", "/api/v1/namespaces", {"metadata": {"name": "x"}})
    marked = await api.send("DELETE", "/api/v1/namespaces/x")
    rejected = await api.send(
        "POST", "/api/v1/namespaces/x/configmaps", {"metadata": {"name": "a"}}
    )
    body = {"metadata": {"name": "x"}, "spec": {"finalizers": []}}
    await api.send("PUT", "/api/v1/namespaces/x/finalize", body)
    gone = await api.send("GET", "/api/v1/namespaces/x")

    assert marked.body["status"]["phase"] == "Terminating"
    assert (rejected.status, gone.status) == (403, 404)


async def ready_pods_with_budget(api: ApiClient, names: str, allowed: int) -> None:
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    for name in names:
        await api.create_pod(name)
        await api.send("PATCH", f"{PODS}/{name}", {"metadata": {"labels": {"x": "y"}}}, MERGE)
        await api.send("PATCH", f"{PODS}/{name}/status", ready, MERGE)
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"x": "y"}}}
    await api.send("POST", budgets, {"metadata": {"name": "b"}, "spec": spec})
    # The part of the controller of budgets.
    counted = {"status": {"observedGeneration": 1, "disruptionsAllowed": allowed}}
    await api.send("PATCH", f"{budgets}/b/status", counted, MERGE)


async def evict(api: ApiClient, name: str) -> Reply:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return await api.send("POST", f"{PODS}/{name}/eviction", body)


async def test_parallel_evictions_keep_a_budget(api: ApiClient) -> None:
    await ready_pods_with_budget(api, "abcdefgh", allowed=2)

    answers = await asyncio.gather(*(evict(api, name) for name in "abcdefgh"))

    assert sorted(answer.status for answer in answers) == [201] * 2 + [429] * 6


async def test_a_deployment_is_scaled_through_its_subresource(api: ApiClient) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    template = {
        "metadata": {"labels": {"x": "y"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"selector": {"matchLabels": {"x": "y"}}, "template": template}
    await api.send("POST", path, {"metadata": {"name": "d"}, "spec": spec})

    scaled = await api.send("PATCH", f"{path}/d/scale", {"spec": {"replicas": 3}}, MERGE)
    read = await api.send("GET", f"{path}/d/scale")
    negative = await api.send("PATCH", f"{path}/d/scale", {"spec": {"replicas": -1}}, MERGE)

    assert (scaled.status, read.body["spec"]["replicas"]) == (200, 3)
    assert read.body["status"]["selector"] == "x=y"
    assert negative.status == 422
    assert (await api.send("GET", f"{path}/d")).body["spec"]["replicas"] == 3
