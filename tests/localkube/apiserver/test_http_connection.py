"""Slow, large and malformed requests over a real socket."""

from __future__ import annotations

import asyncio
import errno
import gc
import io
import itertools
import logging
import os
import socket
import ssl
import weakref
from typing import TYPE_CHECKING

import aiohttp
import pytest

from kubekit.serving import http_connection, listener
from kubekit.serving.connection_limits import Limits
from kubekit.serving.peer import Peer, PeerFinder
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.localkube.apiserver.running_server import ApiClient

PODS = "/api/v1/namespaces/default/pods"
TOO_MANY = "the server has too many connections; try again in a moment"


class Client:
    """A TLS connection on which a test sends whatever it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def of(cls, api: ApiClient) -> Client:
        context = ssl.create_default_context(cadata=api.server.ca.decode())
        return cls(*await asyncio.open_connection("127.0.0.1", api.server.port, ssl=context))

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def send_all(self, parts: Iterable[bytes]) -> None:
        for part in parts:
            await self.send(part)

    async def line(self) -> bytes:
        return await self._reader.readline()

    async def end(self) -> bytes:
        """All that the server sends until it closes the connection."""
        try:
            async with asyncio.timeout(60):
                return await self._reader.read()
        except ConnectionError:
            return b""
        finally:
            self.abort()

    def abort(self) -> None:
        self._writer.transport.abort()


async def test_half_a_header_is_closed_in_time(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "HEADER_SECONDS", 2)
    token = f"Authorization: Bearer {api.server.token}\r\n".encode()
    silent, half, known = [await Client.of(api) for _ in range(3)]
    await half.send(b"GET /api HTTP/1.1\r\nHost: x\r\nX-Half: ")
    await known.send(b"GET /api HTTP/1.1\r\nHost: x\r\n" + token + b"\r\n")
    answer = await known.line()
    await known.send(b"GET /api HT")

    assert await silent.end() == b""
    assert await half.end() == b""
    assert answer == b"HTTP/1.1 200 OK\r\n"
    assert b"HTTP" not in await known.end(), "also after a valid request"


async def test_an_authenticated_connection_may_be_idle(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "HEADER_SECONDS", 1)
    async with api.session.get(f"{api.server.url}{PODS}?watch=1") as watch:
        for _ in range(2):  # its end shows that the time has passed
            await (await Client.of(api)).end()
        await api.create_pod("a")
        while b'"a"' not in await watch.content.readline():
            pass


async def test_a_silent_connection_without_tls_is_closed_in_time(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "HANDSHAKE_SECONDS", 0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
    async with asyncio.timeout(60):
        assert await reader.read() == b""
    writer.close()


async def test_headers_are_limited_in_total(api: ApiClient) -> None:
    client = await Client.of(api)
    await client.send(b"GET /api HTTP/1.1\r\nHost: x\r\n")
    headers = (b"X-%d: %s\r\n" % (number, b"a" * 900_000) for number in range(100))
    with pytest.raises(ConnectionError):
        await client.send_all(headers)
    await client.end()
    line = f"{PODS}?labelSelector={'a' * 900_000}"

    assert (await api.send("GET", line)).status == 400, "a long URL alone is read"


@pytest.mark.parametrize(
    ("header", "part"),
    [
        (b"Content-Length: 3000000", b"x" * 60_000),
        (b"Transfer-Encoding: chunked", b"1;" + b"a" * 60_000),
    ],
    ids=["large body", "endless chunk extension"],
)
async def test_a_body_without_a_valid_token_is_not_read(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch, header: bytes, part: bytes
) -> None:
    monkeypatch.setattr(listener, "_SHUTDOWN_SECONDS", 0.2)
    received = 0
    data_received = http_connection.HttpConnection.data_received

    def count(self: http_connection.HttpConnection, data: bytes) -> None:
        nonlocal received
        received += len(data)
        data_received(self, data)

    monkeypatch.setattr(http_connection.HttpConnection, "data_received", count)
    client = await Client.of(api)
    await client.send(
        b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer wrong\r\n"
        + header
        + b"\r\n\r\n"
    )
    answer = await client.line()
    with pytest.raises(ConnectionError):
        await asyncio.wait_for(client.send_all(itertools.repeat(part)), 60)
    await client.end()

    assert answer == b"HTTP/1.1 401 Unauthorized\r\n"
    assert received < 1_000_000


async def test_a_closed_connection_leaves_nothing_for_the_garbage_collector(
    api: ApiClient,
) -> None:
    """Its buffers are large and its objects are few: the collector would come too late."""
    gc.collect()
    gc.disable()
    try:
        client = await Client.of(api)
        await client.send(b"POST /api HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc")
        reference = weakref.ref(_only_connection(api))
        await client.end()

        async def freed() -> bool:
            return reference() is None

        assert await eventually(freed)
    finally:
        gc.enable()


def _only_connection(api: ApiClient) -> object:
    gc.collect()
    (connection,) = (o for o in gc.get_objects() if type(o) is http_connection.HttpConnection)
    return connection


async def test_a_large_body_with_an_invalid_token_gets_its_answer(api: ApiClient) -> None:
    """A pod renews its token when it reads this answer."""
    headers = {"Authorization": "Bearer wrong"}
    async with aiohttp.ClientSession(headers=headers) as session:
        context = ssl.create_default_context(cadata=api.server.ca.decode())
        for _ in range(5):
            async with session.post(
                f"{api.server.url}{PODS}", data=io.BytesIO(b"x" * 2_900_000), ssl=context
            ) as answer:
                assert answer.status == 401


async def test_a_body_that_comes_after_a_valid_header_is_read(api: ApiClient) -> None:
    body = b'{"metadata": {"name": "late", "annotations": {"a": "%s"}}}' % (b"x" * 200_000)
    token = f"Authorization: Bearer {api.server.token}\r\n".encode()
    client = await Client.of(api)
    await client.send(
        b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        + token
        + b"Content-Length: %d\r\n\r\n" % len(body)
    )
    await client.send_all((body[:10], body[10:100_000], body[100_000:]))
    answer = await client.line()
    client.abort()

    assert answer == b"HTTP/1.1 201 Created\r\n"


async def test_malformed_requests_are_one_line_of_log(
    api: ApiClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    answers = []
    for number in range(50):
        client = await Client.of(api)
        await client.send(b"GET /%d HTTP/1.1\r\n\x00: bad\r\n\r\n" % number)
        answers.append(await client.end())

    assert all(answer.startswith(b"HTTP/1.0 400") for answer in answers)
    assert len(caplog.records) <= 1
    assert not any(record.exc_info for record in caplog.records)


async def test_a_header_that_is_not_utf8_is_malformed(api: ApiClient) -> None:
    client = await Client.of(api)
    await client.send(b"GET /api HTTP/1.1\r\nHost: x\r\nExpect: \xff\r\n\r\n")

    assert (await client.end()).startswith(b"HTTP/1.1 400")


async def test_a_full_server_says_so(api: ApiClient) -> None:
    connections = api.server.listeners.connections
    connections.limits = Limits(waiting=10, authenticated=1)
    async with api.session.get(f"{api.server.url}{PODS}?watch=1"):
        full = await api.send("GET", PODS)
        alive = await api.send("GET", "/healthz")

    async def accepted() -> bool:
        return (await api.send("GET", PODS)).status == 200

    assert await eventually(accepted), "the watch is closed, and there is room again"

    assert (full.status, full.body["message"]) == (429, TOO_MANY)
    assert full.headers["Retry-After"] == "1"
    assert alive.status == 200


async def test_without_descriptors_the_server_goes_on_later(api: ApiClient) -> None:
    failures = 0

    class Socket(socket.socket):
        """Has no descriptor for the first two connections that it could accept."""

        def accept(self) -> tuple[socket.socket, object]:
            nonlocal failures
            if failures < 2:
                failures += 1
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return super().accept()

    with Socket(socket.AF_INET) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        api.server.listeners.accept_from(sock)
        async with asyncio.timeout(60):
            _, writer = await asyncio.open_connection(*sock.getsockname(), ssl=_any())
        writer.close()

    assert failures == 2


def _any() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@pytest.mark.parametrize("half_closed", [False, True])
def test_the_peer_of_a_local_connection_is_its_user(half_closed: bool) -> None:
    finder = PeerFinder()
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        if half_closed:
            client.shutdown(socket.SHUT_WR)
        accepted, _ = server.accept()
        peer = finder.find(accepted)
        accepted.close()
    finder.close()

    assert peer == Peer(f"user {os.getuid()}", owner=True, uid=os.getuid())


async def test_an_endless_chunk_line_of_a_client_with_a_token_is_closed(api: ApiClient) -> None:
    client = await Client.of(api)
    token = f"Authorization: Bearer {api.server.token}\r\n".encode()
    start = b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\n" + token
    await client.send(start + b"Transfer-Encoding: chunked\r\n\r\n1;")
    with pytest.raises(ConnectionError):
        await client.send_all(itertools.repeat(b"a" * 60_000, 1000))
    client.abort()


async def test_only_the_address_of_the_server_listens(api: ApiClient) -> None:
    with pytest.raises(OSError, match=r"Connect call failed|not supported|Cannot assign"):
        await asyncio.open_connection("::1", api.server.port)
