"""Both clients and websockets through a proxy that demands CONNECT, to the local API server."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import msgspec
import pytest
from aiohttp import web

from kubekit.client.auth.endpoint import Endpoint
from kubekit.client.blocking_client import BlockingClient
from kubekit.client.client import Client
from kubekit.client.request import Request
from kubekit.client.streams.exec_session import V5
from kubekit.client.watch_stream import WATCH_SECONDS_THROUGH_PROXY
from kubekit.objects.kinds import CONFIG_MAPS
from kubekit.objects.meta import Key
from kubekit.request_errors import Unreachable
from tests.builders import config_map
from tests.controlplane.certificates import Authority
from tests.kubekit.client.networks.intermediaries import Gateway, Relay, host_and_port
from tests.kubekit.client.transport.test_http_transport import server_tls, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

GET = Request("GET", "/version")
X = Key("ns", "x")
NAME = "cluster.example:6443"


@contextmanager
def proxied(
    gateway: Gateway,
    endpoint: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
    *,
    login: str = "",
    user: str = "",
    refuse: int = 0,
) -> Iterator[tuple[Relay, Endpoint]]:
    """A proxy in the environment, and the server under a name that only the proxy knows."""
    with Relay(login=login, refuse=refuse) as proxy:
        proxy.names[NAME] = host_and_port(gateway.url)
        url = proxy.url.replace("http://", f"http://{user}@") if user else proxy.url
        monkeypatch.setenv("HTTPS_PROXY", url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        yield (
            proxy,
            msgspec.structs.replace(endpoint, url=f"https://{NAME}", server_name="localhost"),
        )


async def failures(server: Endpoint) -> list[Unreachable]:
    """The errors of a request, a stream and a websocket of both clients."""
    caught: list[Unreachable] = []

    def blocking() -> None:
        with BlockingClient(server) as client:
            for attempt in (lambda: client.send(GET), lambda: list(client.logs(X))):
                with pytest.raises(Unreachable) as raised:
                    attempt()
                caught.append(raised.value)

    await asyncio.to_thread(blocking)
    async with Client.connect(server) as client:
        with pytest.raises(Unreachable) as raised:
            await client.send(GET)
        caught.append(raised.value)
        with pytest.raises(Unreachable) as raised:
            async for _ in client.watch(CONFIG_MAPS, since="1"):
                pass
        caught.append(raised.value)
        with pytest.raises(Unreachable) as raised:
            async with client.exec(X, ["true"]):
                pass
        caught.append(raised.value)
    assert len(caught) == 5
    return caught


async def test_requests_watches_and_logs_go_through_the_proxy_of_the_environment(
    gateway: Gateway, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    with proxied(gateway, endpoint, monkeypatch, login="me:p@ss", user="me:p%40ss") as (
        proxy,
        server,
    ):

        def commands() -> None:
            with BlockingClient(server) as client:
                made = client.create(CONFIG_MAPS, config_map("c", "default", a="1"))
                version = made.metadata.resource_version
                client.patch(CONFIG_MAPS, Key("default", "c"), {"data": {"a": "2"}})
                event = next(client.watch(CONFIG_MAPS, "default", since=version))
                assert (event.type, event.object.data) == ("MODIFIED", {"a": "2"})

        await asyncio.to_thread(commands)
        async with Client.connect(server) as client:
            listed = await client.list(CONFIG_MAPS, "default")
            await client.patch(CONFIG_MAPS, Key("default", "c"), {"data": {"a": "3"}})
            async for event in client.watch(CONFIG_MAPS, "default", since=listed.resource_version):
                assert event.object.data == {"a": "3"}
                break
        watched = next(path for path, _ in reversed(gateway.asked) if "watch=" in path)
        seconds = int(watched.partition("timeoutSeconds=")[2].partition("&")[0])
        shortest, longest = WATCH_SECONDS_THROUGH_PROXY
        assert shortest <= seconds <= longest
    assert set(proxy.asked) == {NAME}


@pytest.mark.usefixtures("unknown_names")
async def test_a_server_in_no_proxy_is_reached_directly(
    gateway: Gateway, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    with proxied(gateway, endpoint, monkeypatch) as (proxy, server):
        async with Client.connect(endpoint) as client:
            await client.send(GET)
        with BlockingClient(endpoint) as blocking:
            await asyncio.to_thread(blocking.send, GET)
        assert proxy.asked == [], "loopback"
        monkeypatch.setenv("NO_PROXY", "other.example, .example:6443")
        errors = await failures(server)
        assert all("cannot reach https://cluster.example:6443" in str(each) for each in errors)
        assert proxy.asked == []


@pytest.mark.parametrize(
    ("refuse", "login", "user", "message"),
    [
        (0, "me:secret", "", "asks for a user and password (407)"),
        (0, "me:secret", "me:wrongly", "does not accept the user and password of its URL (407)"),
        (403, "", "me:wrongly", "refuses to connect to cluster.example (403)"),
        (502, "", "", "refuses to connect to cluster.example (502)"),
    ],
)
async def test_a_proxy_that_refuses_is_named_and_the_next_step_too(  # noqa: PLR0917 - fixtures
    gateway: Gateway,
    endpoint: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    refuse: int,
    login: str,
    user: str,
    message: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    with proxied(gateway, endpoint, monkeypatch, login=login, user=user, refuse=refuse) as (
        proxy,
        server,
    ):
        errors = await failures(server)
    expected = f"the proxy {proxy.url} ($HTTPS_PROXY) {message}"
    assert [str(error) for error in errors] == [expected] * 5
    assert all(error.hint for error in errors)
    said = caplog.text + "".join(f"{error!r} {error.hint}" for error in errors)
    assert "wrongly" not in said
    assert gateway.asked == []


@pytest.mark.usefixtures("unknown_names")
async def test_a_proxy_that_cannot_be_reached_or_hangs_up_is_named(
    gateway: Gateway, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    with proxied(gateway, endpoint, monkeypatch) as (proxy, server):
        pass  # and now it is gone
    errors = await failures(server)
    expected = f"cannot reach the proxy {proxy.url} ($HTTPS_PROXY): Connection refused"
    assert [str(error) for error in errors] == [expected] * 5
    monkeypatch.setenv("HTTPS_PROXY", "http://nowhere.invalid:3128")
    for error in await failures(server):
        assert str(error).startswith("cannot reach the proxy http://nowhere.invalid:3128 (")
    with hanging_up() as url:
        monkeypatch.setenv("HTTPS_PROXY", url)
        for error in await failures(server):
            assert str(error).startswith(f"cannot reach the proxy {url} ($HTTPS_PROXY): ")


@contextmanager
def hanging_up() -> Iterator[str]:
    """A server that closes every connection after a request."""
    from threading import Thread

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for _ in range(5):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(1000)

        thread = Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(10)


@asynccontextmanager
async def container(authority: Authority, folder: Path) -> AsyncIterator[str]:
    """A server with TLS whose websockets greet, echo one message and end."""

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        websocket = web.WebSocketResponse(protocols=(V5,))
        await websocket.prepare(request)
        await websocket.send_bytes(b"\x01hello")
        data = await websocket.receive_bytes()
        await websocket.send_bytes(b"\x01" + data[1:])
        await websocket.send_bytes(b'\x03{"status":"Success"}')
        await websocket.close()
        return websocket

    async with serving(handler, server_tls(authority, folder)) as url:
        yield url


async def test_websockets_go_through_the_proxy(authority: Authority, tmp_path: Path) -> None:
    with Relay(login="me:p@ss") as proxy:
        async with container(authority, tmp_path) as url:
            endpoint = Endpoint(
                url, authority.certificate, proxy=proxy.url.replace("//", "//me:p%40ss@")
            )
            async with (
                Client.connect(endpoint) as client,
                client.exec(X, ["cat"], stdin=True) as session,
            ):
                await session.write(b"echo")
                heard = [data async for _, data in session]
        assert heard == [b"hello", b"echo"]
        assert proxy.asked == [host_and_port(url)]


async def test_a_proxy_may_speak_tls_itself(
    gateway: Gateway,
    endpoint: Endpoint,
    authority: Authority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = Authority("proxy-ca")
    trusted = tmp_path / "proxy-ca.pem"
    trusted.write_bytes(own.certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))  # the system's authorities
    with Relay(tls=server_tls(own, tmp_path)) as proxy:
        server = msgspec.structs.replace(endpoint, proxy=proxy.url)
        async with Client.connect(server) as client:
            assert (await client.send(GET)).status == 200
        with BlockingClient(server) as blocking:
            assert (await asyncio.to_thread(blocking.send, GET)).status == 200
        async with container(authority, tmp_path) as url:
            there = Endpoint(url, authority.certificate, proxy=proxy.url)
            async with (
                Client.connect(there) as client,
                client.exec(X, ["cat"], stdin=True) as session,
            ):
                await session.write(b"echo")
                assert [data async for _, data in session] == [b"hello", b"echo"]
