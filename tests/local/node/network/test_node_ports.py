"""Node ports: services reached at 127.0.0.1."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable
from typing import Any

import msgspec
import pytest

from muster.api.core import Service
from muster.api.kinds import PODS, SERVICES
from muster.api.meta import Key
from muster.local.descriptors import Descriptors
from muster.local.node.network import node_ports as node_ports_module
from muster.local.node.network.node_ports import NodePorts, node_ports, ready_targets
from muster.local.node.pod import Pod
from tests.local.node.local_node import LocalNode, Raw, needs_namespaces, wait_for
from tests.local.node.pod_builders import container, make_pod, manifest
from tests.no_descriptors import no_descriptor_left, room_for
from tests.waiting import eventually

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


class _Services:
    """An informer with one service."""

    def __init__(self, *services: Service) -> None:
        self.services = {each.metadata.key: each for each in services}

    def subscribe(self, _: object) -> None: ...

    async def synced(self) -> None: ...

    def all(self) -> list[Service]:
        return list(self.services.values())

    def get(self, key: Key) -> Service | None:
        return self.services.get(key)


class _Pods:
    def all(self) -> list[Pod]:
        return [make_pod("a", meta={"labels": {"app": "web"}}, status=READY)]


class _Runtime:
    """A runtime whose pods are a server of this test, while there are descriptors for them."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.descriptors = Descriptors()

    async def reach(self, uid: str, port: int) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._port))


async def test_a_node_port_listens_again_after_a_lack_of_descriptors(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(node_ports_module, "_LISTEN_AGAIN", 0.1)

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    services: Any = _Services(read(service(nodePort=port)))
    pods: Any = _Pods()
    runtime: Any = _Runtime(server.sockets[0].getsockname()[1])
    ports = NodePorts(runtime, pods, services)
    with no_descriptor_left():
        running = asyncio.create_task(ports.run())
        await eventually(lambda: ports._failed == {port})
    await wait_for(lambda: _is(answer(port, b""), b"hello"), "it listens")
    with socket.socket() as client:
        client.connect(("127.0.0.1", port))
        with no_descriptor_left():
            await eventually(lambda: "cannot accept connections" in caplog.text)
    after = [await answer(port, b"") for _ in range(3)]
    with room_for(-20):  # connections of before may just be closing
        refused = await answer(port, b"")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    closed = await answer(port, b"")
    server.close()

    assert after == [b"hello"] * 3
    assert (refused, closed) == (b"", b"")


async def _is(answer: Awaitable[bytes], expected: bytes) -> bool:
    return await answer == expected


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
