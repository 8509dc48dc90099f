"""Port-forward: bytes reach programs of a pod and come back, in both protocols."""

from __future__ import annotations

import asyncio
import select
import socket
import struct
import zlib
from typing import TYPE_CHECKING

import pytest
from aiohttp import WSMsgType, WSServerHandshakeError

from kubekit.client.auth.endpoint import Endpoint
from kubekit.client.client import Client
from kubekit.client.streams.exec_session import V4
from kubekit.objects.meta import Key
from kubekit.request_errors import Unreachable
from localkube.apiserver.streams import port_forward
from localkube.apiserver.streams.port_forward import _Stream
from localkube.apiserver.streams.spdy import (
    MAX_BLOCK,
    PROTOCOL,
    Data,
    HeaderReader,
    Mux,
    Opened,
    Opening,
    dictionary,
)
from tests.localkube.apiserver.fake_node import FakeNode
from tests.localkube.apiserver.running_server import running_server
from tests.localkube.port_forward_client import ClientMux, forward_port
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.localkube.apiserver.running_server import ApiClient
    from tests.localkube.port_forward_client import PortForward

A = Key("default", "a")
FORWARD = "/api/v1/namespaces/default/pods/a/portforward"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[ApiClient]:
    """A server with a node agent, on which pod `a` runs."""
    async with running_server(tmp_path, FakeNode()) as api:
        await api.create_pod("a", nodeName="n")
        yield api


@pytest.fixture
async def client(api: ApiClient) -> AsyncIterator[Client]:
    server = api.server
    endpoint = Endpoint.with_token(server.url, server.token, ca=server.ca)
    async with Client.connect(endpoint) as client:
        yield client


async def exchange(forward: PortForward, data: bytes) -> bytes:
    connection = await forward.connect()
    sending = asyncio.create_task(connection.write(data))
    received = b""
    while len(received) < len(data):
        received += await connection.read()
    await sending
    await connection.close_write()
    assert await connection.read() == b""
    return received


async def test_many_connections_share_one_forward(client: Client) -> None:
    async with forward_port(client, A, 8080) as forward:
        sent = [b"%d" % number * (number * 5000 + 1) for number in range(20)] + [b"a" * 3_000_000]
        received = await asyncio.gather(*(exchange(forward, data) for data in sent))

    assert received == [data.upper() for data in sent]


async def test_a_port_on_which_nothing_listens_is_an_error_of_its_connection(
    client: Client,
) -> None:
    async with forward_port(client, A, 1) as forward:
        connection = await forward.connect()
        with pytest.raises(Unreachable, match=r"forwarding port 1 to pod a, uid .*refused"):
            await connection.read()
        with pytest.raises(Unreachable):
            await (await forward.connect()).read()


async def test_a_connection_of_a_client_that_leaves_is_closed(
    api: ApiClient, client: Client
) -> None:
    async with forward_port(client, A, 80) as forward:
        await (await forward.connect()).write(b"x")
    node = api.server.streams.backend
    assert isinstance(node, FakeNode)
    async with asyncio.timeout(20):
        await asyncio.gather(*node._programs)


async def test_a_client_that_leaves_closes_also_a_connection_to_a_program_that_does_not_read(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = asyncio.Event()

    async def ping_until_it_has_left(_: object) -> None:
        await left.wait()

    monkeypatch.setattr(port_forward, "keep_open", ping_until_it_has_left)
    node = api.server.streams.backend
    assert isinstance(node, FakeNode)
    url = f"{api.server.url}{FORWARD}?ports={FakeNode.SILENT}"
    async with api.session.ws_connect(url, protocols=[V4]) as websocket:
        for _ in range(80):  # more than the server keeps for the program
            await websocket.send_bytes(bytes(64 * 1024))
        assert not hung_up(node.silent[0])
        left.set()

        await eventually(lambda: hung_up(node.silent[0]), what="the end of the connection")
    node.silent[0].close()


def hung_up(program: socket.socket) -> bool:
    """Whether the other side has closed the connection; reads nothing."""
    poll = select.poll()
    poll.register(program, 0)
    return bool(poll.poll(0))


async def test_a_program_that_breaks_its_connection_ends_no_other() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        program, _ = listener.accept()
    program.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    program.close()  # a reset, because of the option

    async def nothing(*_: bytes) -> None: ...

    stream = _Stream(nothing, nothing)
    await stream.arrive(b"")  # the client sends no more
    await stream.copy_to(writer)
    with pytest.raises(ConnectionResetError):
        await reader.read()
    writer.close()


async def test_the_channels_of_the_python_client(api: ApiClient) -> None:
    url = f"{api.server.url}{FORWARD}?ports=80,1"
    async with api.session.ws_connect(url, protocols=[V4]) as websocket:
        first = [await websocket.receive_bytes() for _ in range(4)]
        error = await websocket.receive_bytes()
        await websocket.send_bytes(b"\0hello")
        echo = await websocket.receive_bytes()

    assert first == [bytes([n, port, 0]) for n, port in ((0, 80), (1, 80), (2, 1), (3, 1))]
    assert error.startswith(b"\3error forwarding port 1 to pod a")
    assert echo == b"\0HELLO"


@pytest.mark.parametrize(
    "message",
    [
        ClientMux().open({"streamtype": "data"})[1],
        ClientMux().open({"streamtype": "data", "port": "99999"})[1],
        ClientMux().open({"streamtype": "data", "port": "80", "x": "y" * 2 * MAX_BLOCK})[1],
        b"\x80\x03\x00\x01\0\0\0\x10" + b"\xff" * 16,
    ],
    ids=["no port", "no such port", "long headers", "not compressed"],
)
async def test_a_malformed_stream_ends_the_websocket_with_a_reason(
    api: ApiClient, message: bytes
) -> None:
    async with api.session.ws_connect(api.server.url + FORWARD, protocols=[PROTOCOL]) as websocket:
        await websocket.send_bytes(message)
        end = await websocket.receive()

    assert (end.type, end.data) == (WSMsgType.CLOSE, 1002)
    assert end.extra


@pytest.mark.parametrize(
    "query", ["?ports=x", "?ports=0", "?ports=80,65536", "?ports=²", "?ports=" + "9" * 5000]
)
async def test_a_malformed_port_is_refused(api: ApiClient, query: str) -> None:
    reply = await api.send("GET", FORWARD + query)

    assert (reply.status, "as a port" in reply.body["message"]) == (400, True)


async def test_a_forward_needs_an_upgrade_and_a_node(api: ApiClient) -> None:
    await api.create_pod("unbound")

    plain = await api.send("GET", FORWARD)
    unbound = await api.send("GET", FORWARD.replace("/a/", "/unbound/"))

    with pytest.raises(WSServerHandshakeError) as portless:
        await api.session.ws_connect(api.server.url + FORWARD, protocols=[V4])

    assert portless.value.status == 400
    assert (plain.status, plain.body["message"]) == (400, "Upgrade request required")
    assert (unbound.status, unbound.body["message"]) == (
        400,
        "pod unbound does not have a host assigned",
    )


def test_the_dictionary_is_that_of_the_protocol() -> None:
    assert (len(dictionary()), zlib.adler32(dictionary())) == (1423, 0xE3C6A7C2)


def test_headers_that_use_the_dictionary_are_read() -> None:
    deflate = zlib.compressobj(zdict=dictionary())
    reader = HeaderReader()

    for expected in ({"content-type": "text/plain"}, {"content-type": "text/html", "age": "1"}):
        block = len(expected).to_bytes(4, "big")
        for text in (text for pair in expected.items() for text in pair):
            block += len(text).to_bytes(4, "big") + text.encode()
        packed = deflate.compress(block) + deflate.flush(zlib.Z_SYNC_FLUSH)
        assert reader.read(packed) == expected


def test_a_stream_of_a_client_is_accepted() -> None:
    client, server = ClientMux(), Mux()
    stream, frame = client.open({"port": "1"})
    answers = client.feed(server.accept(stream))

    assert server.feed(frame) == [Opening(stream, frame[18:], False)]
    assert answers == [Opened(stream)]
    assert server.feed(client.data(stream, b"x")) == [Data(stream, b"x", False)]
