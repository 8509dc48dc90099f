"""Services at loopback addresses: node ports, and host addresses without root."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable
from typing import Any

import msgspec
import pytest

from kubekit.objects.core import Service
from kubekit.objects.events import EventSubject, EventText
from kubekit.objects.kinds import PODS, SERVICES
from kubekit.objects.meta import Key
from localkube.node.descriptors import Descriptors
from localkube.node.network import loopback_ports
from localkube.node.network.bridge import BridgeNetwork
from localkube.node.network.loopback_ports import (
    LoopbackPorts,
    Place,
    host_places,
    node_ports,
    ready_targets,
)
from localkube.node.network.pod_network import Network
from localkube.node.network.service_addresses import EndpointSlice
from tests.localkube.node.local_node import LocalNode, Raw, needs_namespaces, wait_for
from tests.localkube.node.pod_builders import container, make_pod, manifest
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
    web = read(service(nodePort=30080))
    assert node_ports([web]) == {
        Place("127.0.0.1", 30080): (Key("default", "s"), web.spec.ports[0])
    }
    assert node_ports([read(service(nodePort=30080, protocol="UDP"))]) == {}


def places(*ports: Raw, lowest: int, **spec: Any) -> list[tuple[str, int]]:
    """The places of a service, each with the service's port."""
    raw = {"metadata": {"name": "s"}, "spec": {"clusterIP": "10.1.2.3", "ports": ports, **spec}}
    return [(str(place), port.port) for place, port in host_places(read(raw), lowest)]


def test_a_service_has_a_loopback_address_where_low_ports_get_8000_more() -> None:
    web, tls, other = {"port": 80}, {"port": 443}, {"port": 9000}
    udp = {"port": 53, "protocol": "UDP"}

    assert places(web, other, lowest=80) == [("127.1.2.3:80", 80), ("127.1.2.3:9000", 9000)]
    assert places(web, tls, udp, lowest=1024) == [
        ("127.1.2.3:8080", 80),
        ("127.1.2.3:8443", 443),
    ]
    assert places(web, {"port": 8080}, lowest=1024) == [("127.1.2.3:8080", 8080)]
    assert places(web, lowest=80, clusterIP="None") == []


def test_connections_go_to_the_named_port_of_ready_pods() -> None:
    web = container("main", ports=[{"name": "http", "containerPort": 8080}])
    good = make_pod("a", web, meta={"labels": {"app": "web"}}, status=READY)
    unready = make_pod("b", web, meta={"labels": {"app": "web"}})
    other = make_pod("c", web, status=READY)
    nameless = make_pod("d", meta={"labels": {"app": "web"}}, status=READY)
    everyone = [good, unready, other, nameless]

    assert ready_targets(read(service()), everyone, "http") == [("uid-a", 8080)]
    assert ready_targets(read(service()), everyone, 80) == [("uid-a", 80), ("uid-d", 80)]


async def answer(port: int, message: bytes, address: str = "127.0.0.1") -> bytes:
    """The answer to the message; empty if no server answers."""
    try:
        reader, writer = await asyncio.open_connection(address, port)
        with contextlib.closing(writer):
            writer.write(message)
            writer.write_eof()
            return await reader.read()
    except OSError:
        return b""


class _Objects:
    """An informer with these objects."""

    def __init__(self, *objects: Any) -> None:
        self.objects = {each.metadata.key: each for each in objects}

    def subscribe(self, _: object) -> None: ...

    async def synced(self) -> None: ...

    def all(self) -> list[Any]:
        return list(self.objects.values())

    def get(self, key: Key) -> Any:
        return self.objects.get(key)


class _Events:
    """A recorder that keeps what it is told."""

    def __init__(self) -> None:
        self.texts: list[EventText] = []

    def record(self, _: EventSubject, text: EventText) -> None:
        self.texts.append(text)


def opened(
    network: type[Network], port: int, *services: Raw, slices: tuple[Raw, ...] = ()
) -> tuple[LoopbackPorts, _Events]:
    """The ports of these services, whose only pod is the server at this port."""
    pod = make_pod("a", meta={"labels": {"app": "web"}}, status=READY)
    found = [msgspec.convert(raw, EndpointSlice) for raw in slices]
    objects: tuple[Any, Any, Any] = (
        _Objects(pod),
        _Objects(*map(read, services)),
        _Objects(*found),
    )
    runtime: Any = _Runtime(port)
    events: Any = _Events()
    runtime.network = network.__new__(network)  # no part of it is opened
    return LoopbackPorts(runtime, *objects, events), events


async def greeting_server() -> asyncio.Server:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    return await asyncio.start_server(greet, "127.0.0.1", 0)


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
    monkeypatch.setattr(loopback_ports, "_LISTEN_AGAIN", 0.1)
    server = await greeting_server()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ports, _ = opened(BridgeNetwork, server.sockets[0].getsockname()[1], service(nodePort=port))
    with no_descriptor_left():
        running = asyncio.create_task(ports.run())
        await eventually(lambda: ports._failed == {Place("127.0.0.1", port)})
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


async def test_without_root_this_machine_reaches_a_service_at_its_loopback_address() -> None:
    server = await greeting_server()
    endpoint = server.sockets[0].getsockname()[1]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port, taken = 20000 + free.getsockname()[1] % 10000, free.getsockname()[1]
    web = service(targetPort=80) | {"metadata": {"name": "web", "namespace": "default"}}
    web["spec"] = {"clusterIP": "10.99.0.7", "selector": {"app": "web"}, "ports": [{"port": port}]}
    foreign = service() | {"metadata": {"name": "foreign", "namespace": "default"}}
    foreign["spec"] = {"clusterIP": "10.99.0.8", "ports": [{"port": port}]}
    second = service() | {"metadata": {"name": "second", "namespace": "default"}}
    second["spec"] = {"clusterIP": "10.99.0.9", "ports": [{"port": taken}]}
    written_by_hand = {
        "metadata": {
            "name": "foreign-1",
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": "foreign"},
        },
        "endpoints": [{"addresses": ["127.0.0.1"]}],
        "ports": [{"port": endpoint}],
    }
    ports, events = opened(Network, endpoint, web, foreign, second, slices=(written_by_hand,))
    with socket.create_server(("0.0.0.0", taken)):
        running = asyncio.create_task(ports.run())
        await wait_for(lambda: _is(answer(port, b"", "127.99.0.7"), b"hello"), "it listens")
        by_endpoint = await answer(port, b"", "127.99.0.8")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    server.close()

    assert by_endpoint == b"hello"
    assert (
        EventText("HostAddress", f"This machine reaches port {port} at 127.99.0.7:{port}")
        in events.texts
    )
    assert (
        EventText(
            "HostAddressFailed",
            "This machine does not reach the service at "
            f"127.99.0.9:{taken}: Address already in use",
            "Warning",
        )
        in events.texts
    )
    assert await answer(port, b"", "127.99.0.7") == b""


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
