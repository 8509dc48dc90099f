"""Exec, attach and port-forward over a real websocket."""

from __future__ import annotations

import asyncio
import json
import struct
import zlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import WSMsgType, web

from kubekit.client.auth.endpoint import Endpoint
from kubekit.client.client import Client
from kubekit.client.streams.exec_session import V4, V5, Channel
from kubekit.client.streams.port_forward import PROTOCOL
from kubekit.client.streams.spdy import Data, Ended, Mux, Opened, Reply, Reset
from kubekit.errors import BadRequest, Forbidden, Unreachable, Unsupported
from kubekit.objects.meta import Key
from tests.kubekit.client.transport.test_http_transport import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

X = Key("ns", "x")
Socket = web.WebSocketResponse
SUCCESS = b'\x03{"status":"Success"}'


@asynccontextmanager
async def container(
    behave: Callable[[Socket, web.BaseRequest], Awaitable[None]], *protocols: str
) -> AsyncIterator[Client]:
    """A client of a server whose websockets follow `behave`."""

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        socket = Socket(protocols=protocols)
        await socket.prepare(request)
        await behave(socket, request)
        await socket.close()
        return socket

    async with serving(handler) as url, Client.connect(Endpoint(url)) as client:
        yield client


async def test_output_arrives_by_channel_and_the_exit_code_at_the_end() -> None:
    asked = []

    async def behave(socket: Socket, request: web.BaseRequest) -> None:
        asked.append(request.raw_path)
        for message in (b"\x01", b"\x01out", b"\x02err", b"\x01more"):
            await socket.send_bytes(message)
        failure = {
            "status": "Failure",
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
        }
        await socket.send_bytes(b"\x03" + json.dumps(failure).encode())

    async with container(behave, V5) as client, client.exec(X, ["sh", "-c", "a b"]) as session:
        heard = [part async for part in session]
    assert heard == [
        (Channel.STDOUT, b"out"),
        (Channel.STDERR, b"err"),
        (Channel.STDOUT, b"more"),
    ]
    assert session.exit_code == 3
    assert asked == [
        "/api/v1/namespaces/ns/pods/x/exec"
        "?command=sh&command=-c&command=a%20b&stdout=true&stderr=true"
    ]


async def test_input_is_sent_and_closed_and_the_terminal_resized() -> None:
    received: list[bytes] = []

    async def behave(socket: Socket, request: web.BaseRequest) -> None:
        async for message in socket:
            received.append(message.data)
            if message.data == b"\xff\x00":
                await socket.send_bytes(SUCCESS)
                return

    async with (
        container(behave, V5) as client,
        client.attach(X, container="c", stdin=True, tty=True) as session,
    ):
        await session.resize(80, 24)
        await session.write(b"y" * 40_000)
        await session.close_stdin()
        assert [part async for part in session] == []
    assert session.exit_code == 0
    assert received[0] == b'\x04{"Width":80,"Height":24}'
    assert b"".join(m[1:] for m in received[1:-1]) == b"y" * 40_000


async def test_with_v4_the_input_cannot_be_closed() -> None:
    async def behave(socket: Socket, request: web.BaseRequest) -> None:
        await socket.send_bytes(SUCCESS)

    async with container(behave, V4) as client, client.exec(X, ["true"], stdin=True) as session:
        with pytest.raises(Unsupported):
            await session.close_stdin()
        assert [part async for part in session] == []


async def test_a_command_that_could_not_start_is_an_error() -> None:
    async def behave(socket: Socket, request: web.BaseRequest) -> None:
        failure = {"status": "Failure", "message": "no such file: nope", "code": 400}
        await socket.send_bytes(b"\x03" + json.dumps(failure).encode())

    async with container(behave, V5) as client, client.exec(X, ["nope"]) as session:
        with pytest.raises(BadRequest, match="no such file"):
            await anext(aiter(session))


async def test_a_connection_that_ends_early_is_not_an_exit_code() -> None:
    async def behave(socket: Socket, request: web.BaseRequest) -> None:
        await socket.send_bytes(b"\x01partial")

    async with container(behave, V5) as client, client.exec(X, ["x"]) as session:
        output = aiter(session)
        assert await anext(output) == (Channel.STDOUT, b"partial")
        with pytest.raises(Unreachable, match="before the command did"):
            await anext(output)
    assert session.exit_code is None


async def test_a_forbidden_session_names_verb_and_resource() -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        return web.json_response({"code": 403}, status=403)

    async with serving(handler) as url, Client.connect(Endpoint(url)) as client:
        with pytest.raises(Forbidden, match="not allowed to get pods/exec x in namespace ns"):
            async with client.exec(X, ["x"]):
                pass


class Node:
    """The other end of a port-forward: reads SPDY as a node does, and echoes."""

    def __init__(self, *, refuses: str = "") -> None:
        self.opened: list[dict[str, str]] = []
        self._refuses = refuses
        self._inflate = zlib.decompressobj()
        self._kinds: dict[int, str] = {}
        self._accepted: set[int] = set()

    async def __call__(self, socket: Socket, request: web.BaseRequest) -> None:
        ping = struct.pack(">III", 0x80030006, 4, 2)
        await socket.send_bytes(ping)
        buffer = b""
        async for message in socket:
            assert message.type is WSMsgType.BINARY
            buffer += message.data
            while len(buffer) >= 8:
                first, second = struct.unpack_from(">II", buffer)
                size = 8 + (second & 0xFFFFFF)
                if len(buffer) < size:
                    break
                frame, buffer = buffer[8:size], buffer[size:]
                await self._frame(socket, first, second >> 24, frame)

    async def _frame(self, socket: Socket, first: int, flags: int, frame: bytes) -> None:
        if first == 0x80030006:
            assert frame == struct.pack(">I", 2)
            self.opened.append({"ping": "answered"})
        elif first == 0x80030001:
            (stream,) = struct.unpack_from(">I", frame)
            headers = self._headers(frame[10:])
            self.opened.append(headers)
            self._kinds[stream] = headers["streamtype"]
            await socket.send_bytes(struct.pack(">III", 0x80030002, 4, stream))
            if headers["streamtype"] == "error" and self._refuses:
                await self._send(socket, stream, self._refuses.encode(), last=True)
            self._accepted.add(stream)
        elif not first & 0x80000000:
            assert first in self._accepted, "data before the stream was accepted is dropped"
            assert self._kinds[first] == "data"
            await self._send(socket, first, frame.upper(), last=bool(flags & 1))

    async def _send(self, socket: Socket, stream: int, data: bytes, *, last: bool) -> None:
        whole = struct.pack(">II", stream, int(last) << 24 | len(data)) + data
        for cut in (whole[:3], whole[3:]):  # messages are not frames
            if cut:
                await socket.send_bytes(cut)

    def _headers(self, block: bytes) -> dict[str, str]:
        plain = self._inflate.decompress(block)
        texts, at = [], 4
        while at < len(plain):
            (size,) = struct.unpack_from(">I", plain, at)
            texts.append(plain[at + 4 : at + 4 + size].decode())
            at += 4 + size
        return dict(zip(texts[::2], texts[1::2], strict=True))


async def read_all(connection: Any) -> bytes:
    received = b""
    while data := await connection.read():
        received += data
    return received


async def test_connections_share_a_forward_and_keep_their_bytes_apart() -> None:
    node = Node()
    async with container(node, PROTOCOL) as client, client.port_forward(X, 8080) as forward:
        first, second = await forward.connect(), await forward.connect()
        await first.write(b"one")
        await second.write(b"t" * 200_000)
        await first.close_write()
        await second.close_write()
        assert await read_all(second) == b"T" * 200_000
        assert await read_all(first) == b"ONE"
        assert await first.read() == b"", "the end stays the end"
    opened = [headers for headers in node.opened if "port" in headers]
    assert [h["streamtype"] for h in opened] == ["error", "data", "error", "data"]
    assert {h["port"] for h in opened} == {"8080"}
    assert [h["requestid"] for h in opened] == ["0", "0", "1", "1"]
    assert {"ping": "answered"} in node.opened


async def test_a_closed_port_is_an_error_of_its_own_connection() -> None:
    node = Node(refuses="connection refused")
    async with container(node, PROTOCOL) as client, client.port_forward(X, 1) as forward:
        connection = await forward.connect()
        with pytest.raises(Unreachable, match="connection refused"):
            await connection.read()


async def test_a_broken_forward_ends_its_connections_and_raises_the_error() -> None:
    async def behave(socket: Socket, request: web.BaseRequest) -> None:
        await socket.receive()

    async with container(behave, PROTOCOL) as client:
        with pytest.raises(Unreachable, match="the connection to the cluster ended"):
            async with client.port_forward(X, 1) as forward:
                await (await forward.connect()).read()


def test_frames_may_be_cut_anywhere() -> None:
    mux = Mux()
    reset = struct.pack(">IIII", 0x80030003, 8, 1, 5)
    ours = struct.pack(">III", 0x80030006, 4, 1)
    theirs = struct.pack(">III", 0x80030006, 4, 2)
    settings = struct.pack(">III", 0x80030004, 4, 0)
    opened = struct.pack(">III", 0x80030002, 4, 1)
    wire = opened + mux.data(1, b"abc", last=True) + settings + ours + theirs + reset
    wire += mux.data(3, b"")
    events = [event for byte in wire for event in mux.feed(bytes([byte]))]
    assert events == [
        Opened(1),
        Data(1, b"abc", True),
        Reply(theirs),
        Reset(1),
        Data(3, b"", False),
    ]
    assert mux.feed(struct.pack(">IIII", 0x80030007, 8, 1, 0)) == [Ended()]


async def test_a_forward_that_the_server_ends_says_so() -> None:
    async def behave(socket: Socket, request: web.BaseRequest) -> None:
        await socket.receive()
        await socket.send_bytes(struct.pack(">IIII", 0x80030007, 8, 1, 0))
        await socket.receive()

    async with container(behave, PROTOCOL) as client, client.port_forward(X, 1) as forward:
        with pytest.raises(Unreachable, match="the server ended the port-forward"):
            await (await forward.connect()).read()


async def test_forwarding_survives_many_connections_at_once() -> None:
    async def talk(forward: Any, number: int) -> None:
        connection = await forward.connect()
        await connection.write(b"n%d" % number)
        await connection.close_write()
        assert await read_all(connection) == b"N%d" % number

    async with (
        container(Node(), PROTOCOL) as client,
        client.port_forward(X, 80) as forward,
        asyncio.TaskGroup() as group,
    ):
        for number in range(50):
            group.create_task(talk(forward, number))
