"""Requests to pods, services and nodes are forwarded, and the answers come back complete."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from localkube.node_interface import Consumption, Usage
from tests.localkube.apiserver.fake_node import FakeNode
from tests.localkube.apiserver.running_server import running_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from tests.localkube.apiserver.running_server import ApiClient

DEFAULT = "/api/v1/namespaces/default"
PODS, SERVICES = f"{DEFAULT}/pods", f"{DEFAULT}/services"
NODES = "/api/v1/nodes"


class MeasuringNode(FakeNode):
    """A node whose pod `a` uses something."""

    uid = ""

    async def usage(self) -> Usage:
        used = {self.uid: {"main": Consumption(0.5, 4096)}}
        return Usage(datetime(2026, 1, 1, tzinfo=UTC), 15.0, used)


@pytest.fixture
def node() -> MeasuringNode:
    return MeasuringNode()


@pytest.fixture
async def api(tmp_path: Path, node: MeasuringNode) -> AsyncIterator[ApiClient]:
    """A server with a node agent, on which pod `a` runs."""
    async with running_server(tmp_path, node) as api:
        node.uid = (await api.create_pod("a", nodeName="n"))["metadata"]["uid"]
        yield api


async def repeat(request: web.Request) -> web.Response:
    assert "Authorization" not in request.headers
    text = f"{request.method} {request.path_qs} {await request.text()}"
    return web.Response(text=text, status=418, headers={"X-Pod": "yes"})


@asynccontextmanager
async def serving(
    node: FakeNode, answer: Callable[[web.Request], Awaitable[web.Response]] = repeat
) -> AsyncIterator[None]:
    """The HTTP port of the node answers requests with this function."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    node.web_address = (host, port)
    try:
        yield
    finally:
        await runner.cleanup()


async def test_a_request_is_forwarded_to_the_port_of_a_pod(api: ApiClient, node: FakeNode) -> None:
    async with serving(node):
        reply = await api.send("POST", f"{PODS}/a:80/proxy/x/y?q=1", b"body")
        folder = await api.send("GET", f"{PODS}/a:80/proxy/x/")
    unreachable = await api.send("GET", f"{PODS}/a:80/proxy/")

    assert (reply.status, reply.body) == (418, "POST /x/y?q=1 body")
    assert reply.headers["X-Pod"] == "yes"
    assert folder.body == "GET /x/ "
    assert unreachable.status == 503


async def test_the_root_of_a_server_has_a_slash(api: ApiClient) -> None:
    url = f"{api.server.url}{PODS}/a:80/proxy?q=1"
    async with api.session.get(url, allow_redirects=False) as reply:
        assert reply.status == 301
        assert reply.headers["Location"] == f"{PODS}/a:80/proxy/?q=1"


@pytest.mark.parametrize("accepted", ["gzip", "identity"])
async def test_a_compressed_answer_of_a_pod_says_that_it_is_compressed(
    api: ApiClient, node: FakeNode, accepted: str
) -> None:
    async def answer(request: web.Request) -> web.Response:
        assert request.headers["Accept-Encoding"] == accepted
        response = web.Response(text="text " * 1000)
        response.enable_compression()
        return response

    async with serving(node, answer):
        reply = await api.send("GET", f"{PODS}/a:80/proxy/", **{"Accept-Encoding": accepted})

    assert reply.body == "text " * 1000


@pytest.mark.parametrize("name", ["web:80", "http:web:http", "web:http"])
async def test_a_request_is_forwarded_to_an_endpoint_of_a_service(
    api: ApiClient, node: FakeNode, name: str
) -> None:
    ports = [{"name": "http", "port": 80, "targetPort": 8080}, {"name": "other", "port": 81}]
    await api.send("POST", SERVICES, {"metadata": {"name": "web"}, "spec": {"ports": ports}})
    subset = {"addresses": [{"ip": "10.9.9.9"}], "ports": [{"name": "http", "port": 8080}]}
    endpoints = {"metadata": {"name": "web"}, "subsets": [subset]}
    await api.send("POST", f"{DEFAULT}/endpoints", endpoints)
    async with serving(node):
        reply = await api.send("GET", f"{SERVICES}/{name}/proxy/x")
        other = await api.send("GET", f"{SERVICES}/web:81/proxy/x")

    assert reply.body == "GET /x "
    assert other.body["message"] == 'no endpoints available for service "web:81"'


async def test_a_node_is_healthy_and_forwards_to_its_ports(api: ApiClient, node: FakeNode) -> None:
    addresses = [{"type": "InternalIP", "address": "10.9.9.1"}]
    await api.send("POST", NODES, {"metadata": {"name": "n"}, "status": {"addresses": addresses}})
    health = await api.send("GET", f"{NODES}/n/proxy/healthz")
    unknown = await api.send("GET", f"{NODES}/n/proxy/configz")
    async with serving(node):
        port = await api.send("GET", f"{NODES}/n:9100/proxy/metrics")

    assert health.body == "ok"
    assert unknown.status == 404
    assert port.body == "GET /metrics "
