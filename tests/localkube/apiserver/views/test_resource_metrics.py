"""Usage from the node agent at metrics.k8s.io; metrics of the server at /metrics."""

from __future__ import annotations

import errno
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kubekit.telemetry.metrics import REGISTRY
from localkube.node_interface import Consumption, Usage
from tests.localkube.apiserver.fake_node import FakeNode
from tests.localkube.apiserver.running_server import running_server
from tests.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.localkube.apiserver.running_server import ApiClient

METRICS = "/apis/metrics.k8s.io/v1beta1"
PODS = f"{METRICS}/namespaces/default/pods"
CORE_PODS = "/api/v1/namespaces/default/pods"


class MeteredNode(FakeNode):
    """A node agent that reports the usage in `pods`."""

    def __init__(self) -> None:
        super().__init__()
        self.pods: dict[str, dict[str, Consumption]] = {}

    async def usage(self) -> Usage:
        return Usage(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), 2.5, self.pods)


async def test_usage_of_pods_and_nodes_comes_from_the_node_agent(tmp_path: Path) -> None:
    node = MeteredNode()
    async with running_server(tmp_path, node) as api:
        await api.send("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
        a = await api.create_pod("a", nodeName="n")
        b = await api.create_pod("b", nodeName="n")
        await api.create_pod("unknown")
        node.pods[a["metadata"]["uid"]] = {"main": Consumption(0.25, 3 << 20)}
        node.pods[b["metadata"]["uid"]] = {"main": Consumption(1.5, 1 << 20)}

        listed = (await api.send("GET", PODS)).body
        single = (await api.send("GET", f"{PODS}/a")).body
        selected = (await api.send("GET", f"{PODS}?fieldSelector=metadata.name%3Db")).body
        nodes = (await api.send("GET", f"{METRICS}/nodes")).body

        assert [item["metadata"]["name"] for item in listed["items"]] == ["a", "b"]
        assert single["containers"] == [
            {"name": "main", "usage": {"cpu": "250000000n", "memory": "3072Ki"}}
        ]
        assert (single["timestamp"], single["window"]) == ("2026-01-02T03:04:05Z", "2.500s")
        assert [item["metadata"]["name"] for item in selected["items"]] == ["b"]
        assert nodes["items"][0]["usage"] == {"cpu": "1750000000n", "memory": "4096Ki"}
        assert (await api.send("GET", f"{PODS}/unknown")).status == 404


class NodeWithoutDescriptors(MeteredNode):
    async def usage(self) -> Usage:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


async def test_usage_without_descriptors_is_one_line_of_log_and_a_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_server(tmp_path, NodeWithoutDescriptors()) as api:
        replies = [await api.send("GET", f"{METRICS}/nodes") for _ in range(3)]

    assert {reply.status for reply in replies} == {503}
    assert (
        "no descriptors left: Too many open files; raise `ulimit -n`"
        in (replies[0].body["message"])
    )
    assert [record.exc_info for record in caplog.records] == [None]


async def test_gpu_usage_is_shown_for_pods_with_gpus(tmp_path: Path) -> None:
    node = MeteredNode()
    async with running_server(tmp_path, node) as api:
        await api.send("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
        a = await api.create_pod("a", nodeName="n")
        b = await api.create_pod("b", nodeName="n")
        node.pods[a["metadata"]["uid"]] = {"main": Consumption(0.0, 0, 1.25, 3 << 30)}
        node.pods[b["metadata"]["uid"]] = {"main": Consumption(0.0, 0)}

        pods = (await api.send("GET", PODS)).body["items"]
        nodes = (await api.send("GET", f"{METRICS}/nodes")).body["items"]

        gpus = {"nvidia.com/gpu": "1250m", "nvidia.com/gpu-memory": "3145728Ki"}
        none = {"cpu": "0n", "memory": "0Ki"}
        assert [pod["containers"][0]["usage"] for pod in pods] == [none | gpus, none]
        assert nodes[0]["usage"] == none | gpus


async def test_without_measurements_the_list_is_empty(api: ApiClient) -> None:
    await api.create_pod("a")

    assert (await api.send("GET", PODS)).body["items"] == []
    assert (await api.send("GET", f"{PODS}/a")).status == 404
    assert (await api.send("POST", PODS, {})).status == 405


async def metric(api: ApiClient, start: str) -> float | None:
    """The value of the first metric whose line begins with `start`."""
    text = str((await api.send("GET", "/metrics")).body)
    lines = [line for line in text.splitlines() if line.startswith(start)]
    return float(lines[0].rpartition(" ")[2]) if lines else None


async def test_the_server_counts_requests(api: ApiClient) -> None:
    counted = 'muster_apiserver_requests_total{code="%s",resource="pods",verb="%s"}'
    expected = {("201", "create"): 1.0, ("404", "get"): 2.0, ("200", "list"): 1.0}
    before = {key: await metric(api, counted % key) or 0.0 for key in expected}
    timed = 'muster_apiserver_request_seconds_count{resource="pods",verb="get"}'
    timed_before = await metric(api, timed) or 0.0

    await api.create_pod("counted")
    await api.send("GET", f"{CORE_PODS}/none")
    await api.send("GET", f"{CORE_PODS}/none")
    await api.send("GET", CORE_PODS)

    after = {key: await metric(api, counted % key) or 0.0 for key in expected}
    assert {key: after[key] - before[key] for key in expected} == expected
    assert await metric(api, timed) == timed_before + 2
    assert await metric(api, "muster_apiserver_store_revision ") == api.server.store.revision


def watches() -> float:
    return REGISTRY.get_sample_value("muster_apiserver_watches", {"resource": "pods"}) or 0


async def test_the_server_counts_open_watches(api: ApiClient) -> None:
    before = watches()  # earlier servers of this process counted theirs
    async with api.session.get(f"{api.server.url}{CORE_PODS}?watch=1"):
        await eventually(lambda: watches() == before + 1, what="the watch being counted")
    await api.create_pod("a")  # the server notices the end of a connection when it writes
    await eventually(lambda: watches() == before, what="its end being counted")
