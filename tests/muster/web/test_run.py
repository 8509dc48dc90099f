"""Serving: the port, the lazy start, and connections of strangers."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from aiohttp import ClientSession, CookieJar

from kubekit.client.auth.endpoint import Endpoint
from kubekit.errors import UsageError
from kubekit.serving import listener as listener_module
from kubekit.serving.connection_limits import Connections, Limits
from kubekit.serving.listener import serve_alone
from muster.web import server
from muster.web.access import gate
from muster.web.access.gate import Policy, own_users
from muster.web.access.keys import Sessions, new_token
from tests.waiting import eventually

NOWHERE = Endpoint("https://127.0.0.1:1")
POLICY = Policy()


@pytest.fixture
async def listener() -> AsyncIterator[socket.socket]:
    """A listener that is served."""
    with server.listen(0) as listener:
        serving = asyncio.create_task(server.serve(listener, NOWHERE, POLICY, serve_alone))
        yield listener
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


def test_a_taken_port_is_avoided_or_named() -> None:
    with server.listen(0) as first:
        port = first.getsockname()[1]
        with server.listen(None, last_port=port) as second:
            assert second.getsockname()[1] != port
        with pytest.raises(UsageError, match=f"cannot listen on port {port}"):
            server.listen(port)
    with server.listen(None, last_port=port) as again:
        assert again.getsockname() == ("127.0.0.1", port)


async def test_many_silent_strangers_do_not_lock_the_owner_out(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        listener_module, "connections_of_process", lambda: Connections(Limits(3, 100))
    )
    url = server.url_of(listener)
    async with ClientSession(url, cookie_jar=CookieJar(unsafe=True)) as owner:
        await (await owner.get("/", params={"token": new_token(POLICY.keys)})).read()
        stream = await owner.get("/stream")  # a connection with a session
        strangers = [await asyncio.open_connection(*listener.getsockname()) for _ in range(10)]

        assert await strangers[0][0].read() == b""  # the oldest are closed
        assert await stream.content.readline() == b"event: hello\n"
        assert (await owner.get("/healthz")).status == 200
        stream.close()
        for _, writer in strangers:
            writer.close()


async def test_strangers_that_never_read_are_closed_too(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ordinary close waits until the client has read its answers."""
    monkeypatch.setattr(
        listener_module, "connections_of_process", lambda: Connections(Limits(3, 100))
    )
    requests = b"GET /static/vendor/htmx.min.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 120
    silent = await asyncio.open_connection(*listener.getsockname())
    await eventually(lambda: _connections_of(listener) == 1)
    strangers = [await _stubborn(listener, requests) for _ in range(12)]
    await eventually(lambda: _connections_of(listener) <= 3)

    silent[1].close()
    for stranger in strangers:
        stranger.close()


async def _stubborn(listener: socket.socket, requests: bytes) -> socket.socket:
    """A client with a small buffer that sends requests and reads no answer."""
    stranger = socket.socket()
    stranger.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    stranger.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(stranger, listener.getsockname())
    with suppress(OSError):
        await loop.sock_sendall(stranger, requests)
        await asyncio.sleep(0.05)  # pace: the answers fill the buffers, which nothing reports
    return stranger


def _connections_of(listener: socket.socket) -> int:
    """How many sockets of this process are the server's side of a connection."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError), socket.socket(fileno=os.dup(int(name))) as opened:
            opened.getpeername()
            count += opened.getsockname() == listener.getsockname()
    return count


@pytest.mark.parametrize("request_line", ["GET /", "GET /?token=x", "GET /healthz"])
@pytest.mark.parametrize(
    "headers",
    [
        "Host: 127.0.0.1:99999",
        "Host: 127.0.0.1:abc",
        "Host: 127.0.0.1\r\nOrigin: http://[",
        "Host: 127.0.0.1\r\nOrigin: \xff",
        "Host: 127.0.0.1\r\nX-CSRF-Token: \xff",
    ],
)
async def test_malformed_headers_get_one_sentence(
    listener: socket.socket, caplog: pytest.LogCaptureFixture, request_line: str, headers: str
) -> None:
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    writer.write(
        f"{request_line} HTTP/1.1\r\n{headers}\r\nConnection: close\r\n\r\n".encode("latin-1")
    )
    answer = (await reader.read()).decode()
    writer.close()

    assert answer.startswith("HTTP/1.1 400 ")
    assert answer.partition("\r\n\r\n")[2].startswith("The header ")
    assert caplog.records == []


@pytest.mark.parametrize("own", [True, False])
async def test_another_user_of_the_machine_gets_nothing_for_a_token_or_a_cookie(own: bool) -> None:
    """Cookies go to every port of 127.0.0.1, and tokens are in the list of processes."""
    uid = os.getuid()
    policy = Policy(users=frozenset((uid if own else uid + 1,)))
    with server.listen(0) as listener:
        serving = asyncio.create_task(server.serve(listener, NOWHERE, policy, serve_alone))
        token, session = new_token(policy.keys), Sessions(policy.keys).new()
        cookies = {f"muster_{listener.getsockname()[1]}": session}
        async with ClientSession(server.url_of(listener)) as thief:
            answers = [
                await thief.get("/submit", cookies=cookies),
                await thief.get("/", params={"token": token}),
                await thief.get("/healthz"),
            ]
            assert [answer.status for answer in answers] == [200 if own else 403] * 2 + [200]
            if not own:
                assert "belongs to another user" in await answers[0].text()
                assert "Set-Cookie" not in answers[1].headers
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


@pytest.mark.parametrize(
    ("uid", "sudo", "users"),
    [
        (1000, "", {0, 1000}),
        (1000, "7", {0, 1000}),
        (0, "1000", {0, 1000}),
        (0, "", set()),
        (0, "x", set()),
        (0, "²", set()),
        (0, "9" * 5000, set()),
    ],
)
def test_the_owner_is_the_user_who_started_it(
    monkeypatch: pytest.MonkeyPatch, uid: int, sudo: str, users: set[int]
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: uid)
    monkeypatch.setenv("SUDO_UID", sudo)

    assert own_users() == users


async def test_bugs_that_strangers_meet_cost_one_line_of_log(
    listener: socket.socket, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> str:
        raise ValueError("a bug")

    monkeypatch.setattr(gate, "malformed", fail)
    async with ClientSession(server.url_of(listener)) as stranger:
        answers = [await stranger.get("/healthz") for _ in range(3)]

    assert [answer.status for answer in answers] == [500] * 3
    assert [row.getMessage() for row in caplog.records] == [
        "dashboard: GET /healthz: ValueError('a bug')"
    ]
    assert caplog.records[0].exc_info is None


async def test_malformed_requests_do_not_fill_the_log(
    listener: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(b"\x16\x03\x01nonsense\r\n\r\n")
        assert b"400" in await reader.readline()
        writer.close()

    # None if another test has caused the line a moment ago.
    assert len(caplog.records) <= 1
