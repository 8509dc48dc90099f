"""Connections and their pool, against a server that follows a script byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from kubekit.client.auth.endpoint import Endpoint
from kubekit.client.request import Request
from kubekit.client.transport import connection
from kubekit.client.transport.http_transport import HttpTransport
from kubekit.request_errors import Unreachable
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

GET = Request("GET", "/api/v1/pods")
POST = Request("POST", "/api/v1/pods", (), b"{}")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Scripted:
    """A server with a script per connection: a response per request, None to close."""

    def __init__(self, *scripts: list[bytes | None]) -> None:
        self.scripts, self.asked = list(scripts), list[str]()
        self.writers = list[asyncio.StreamWriter]()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(self.writers)
        self.writers.append(writer)
        # A client that leaves before the end of the script is part of some tests.
        with contextlib.closing(writer), contextlib.suppress(asyncio.IncompleteReadError):
            for answer in self.scripts.pop(0):
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = head.lower().partition("content-length: ")[2].split("\r\n")[0]
                await reader.readexactly(int(length or 0))
                self.asked.append(f"{number} {head.split()[0]}")
                if answer is None:
                    return
                writer.write(answer)
            await reader.read()


@asynccontextmanager
async def talking(server: Scripted) -> AsyncIterator[HttpTransport]:
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    http = HttpTransport(Endpoint(f"http://127.0.0.1:{port}"))
    try:
        yield http
    finally:
        await http.close()
        listening.close()
        await listening.wait_closed()
        for writer in server.writers:
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def test_requests_in_turn_share_a_connection_and_at_once_do_not() -> None:
    server = Scripted([OK, OK, OK], [OK])
    async with talking(server) as http:
        await http.send(GET)
        await http.send(POST)
        await asyncio.gather(http.send(GET), http.send(GET))
    assert sorted(server.asked) == ["0 GET", "0 GET", "0 POST", "1 GET"]


async def test_a_get_over_a_stale_connection_is_sent_again_and_a_post_never() -> None:
    server = Scripted([OK, None], [OK, None])
    async with talking(server) as http:
        await http.send(GET)
        assert (await http.send(GET)).body == b"ok"
        with pytest.raises(Unreachable, match="closed the connection"):
            await http.send(POST)
    assert server.asked == ["0 GET", "0 GET", "1 GET", "1 POST"]


async def test_a_get_with_a_partial_response_is_not_sent_again() -> None:
    server = Scripted([OK, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", None])
    async with talking(server) as http:
        await http.send(GET)
        asking = asyncio.ensure_future(http.send(GET))
        await eventually(lambda: len(server.asked) == 2)
        server.writers[0].close()
        with pytest.raises(Unreachable):
            await asking
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
        OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),
    ],
    ids=["chunked", "announced", "last of its connection"],
)
async def test_every_form_of_response_is_read_to_its_end(answer: bytes) -> None:
    async with talking(Scripted([answer, OK], [OK])) as http:
        assert (await http.send(GET)).body == b"ok"
        assert (await http.send(GET)).body == b"ok"


async def test_a_response_without_a_length_ends_with_its_connection() -> None:
    server = Scripted([b"HTTP/1.1 200 OK\r\n\r\nok", None])
    async with talking(server) as http:
        asking = asyncio.ensure_future(http.send(GET))
        await eventually(lambda: len(server.asked) == 1)
        server.writers[0].close()
        assert (await asking).body == b"ok"


async def test_a_response_that_is_not_http_is_unreachable_and_closes_the_connection() -> None:
    async with talking(Scripted([b"SSH-2.0-OpenSSH\r\n"], [OK])) as http:
        with pytest.raises(Unreachable):
            await http.send(GET)
        assert (await http.send(GET)).body == b"ok"


async def test_the_late_response_of_a_cancelled_request_is_dropped() -> None:
    server = Scripted([b"", OK], [OK.replace(b"ok", b"mine"[:2])])
    async with talking(server) as http:
        asking = asyncio.ensure_future(http.send(GET))
        await eventually(lambda: len(server.asked) == 1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (await http.send(GET)).body == b"mi"
    assert server.asked == ["0 GET", "1 GET"]


async def test_an_unexpected_response_closes_the_connection() -> None:
    server = Scripted([OK], [OK])
    async with talking(server) as http:
        await http.send(GET)
        server.writers[0].write(OK)
        await eventually(server.writers[0].transport.is_closing)
        await http.send(POST)
    assert server.asked == ["0 GET", "1 POST"]


async def test_a_stream_nobody_reads_stops_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_BUFFERED_BYTES", 1000)
    piece = b"x" * 65536
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (500 * len(piece))
    server = Scripted([head + 500 * piece])
    async with talking(server) as http, http.stream(GET) as pieces:
        first = await anext(pieces)
        held = server.writers[0].transport.get_write_buffer_size
        stuck = held()
        assert stuck > 100 * len(piece), "the kernel's buffers are full, the rest waits over there"
        rest = [piece async for piece in pieces]
        assert len(first) + sum(map(len, rest)) == 500 * len(piece)
