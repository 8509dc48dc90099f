"""Node ports: services reached at 127.0.0.1."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import msgspec
import pytest

from muster.api.core import Service
from muster.api.kinds import PODS, SERVICES
from muster.api.meta import Key
from muster.local.node.network.node_ports import node_ports, ready_targets
from tests.local.node.local_node import LocalNode, Raw, needs_namespaces, wait_for
from tests.local.node.pod_builders import container, make_pod, manifest

SERVE = """
import socket
server = socket.create_server(("0.0.0.0", 8080))
while True:
    peer, _ = server.accept()
    while data := peer.recv(65536):
        peer.sendall(socket.gethostname().encode() + b":" + data)
    peer.close()
"""
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def service(**port: Any) -> Raw:
    return {
        "metadata": {"name": "s", "namespace": "default"},
        "spec": {"type": "NodePort", "selector": {"app": "web"}, "ports": [{"port": 80, **port}]},
    }


def read(raw: Raw) -> Service:
    return msgspec.convert(raw, Service)


def test_only_tcp_node_ports_are_served() -> None:
    assert node_ports([read(service())]) == {}
    assert node_ports([read(service(nodePort=30080))]) == {30080: (Key("default", "s"), 80)}
    assert node_ports([read(service(nodePort=30080, protocol="UDP"))]) == {}


def test_connections_go_to_the_named_port_of_ready_pods() -> None:
    web = container("main", ports=[{"name": "http", "containerPort": 8080}])
    good = make_pod("a", web, meta={"labels": {"app": "web"}}, status=READY)
    unready = make_pod("b", web, meta={"labels": {"app": "web"}})
    other = make_pod("c", web, status=READY)
    nameless = make_pod("d", meta={"labels": {"app": "web"}}, status=READY)
    everyone = [good, unready, other, nameless]

    assert ready_targets(read(service()), everyone, "http") == [("uid-a", 8080)]
    assert ready_targets(read(service()), everyone, 80) == [("uid-a", 80), ("uid-d", 80)]


async def answer(port: int, message: bytes) -> bytes:
    """The answer to the message; empty if no server answers."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.closing(writer):
            writer.write(message)
            writer.write_eof()
            return await reader.read()
    except OSError:
        return b""


@pytest.mark.slow
@needs_namespaces
async def test_a_node_port_connects_to_the_pods_of_its_service_in_turn(local: LocalNode) -> None:
    for name in ("web-0", "web-1"):
        body = manifest(name, container("main", "python", "-c", SERVE))
        body["metadata"]["labels"] = {"app": "web"}
        body["spec"]["containers"][0]["readinessProbe"] = {
            "tcpSocket": {"port": 8080},
            "periodSeconds": 1,
        }
        await local.run(body)
    created = await local.client.create(SERVICES.read_as(dict), service(targetPort=8080))
    port = created["spec"]["ports"][0]["nodePort"]

    async def both() -> bool:
        answers = {await answer(port, b"x") for _ in range(2)}
        return answers == {b"web-0:x", b"web-1:x"}

    await wait_for(both, "both pods answer")
    await local.client.delete(PODS, Key("default", "web-0"), grace=0)
    await local.gone("web-0")

    async def only_one() -> bool:
        return {await answer(port, b"y") for _ in range(4)} == {b"web-1:y"}

    await wait_for(only_one, "only the other pod answers")

    await local.client.delete(SERVICES, Key("default", "s"))

    async def closed() -> bool:
        return await answer(port, b"z") == b""

    await wait_for(closed, "the port is closed")
