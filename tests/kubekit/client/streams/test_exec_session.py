"""Exec and attach over a real websocket."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from kubekit.client.auth.endpoint import Endpoint
from kubekit.client.client import Client
from kubekit.client.streams.exec_session import V4, V5, Channel
from kubekit.objects.meta import Key
from kubekit.request_errors import BadRequest, Forbidden, Unreachable, Unsupported
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
        client.exec(X, (), container="c", stdin=True, tty=True) as session,
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
