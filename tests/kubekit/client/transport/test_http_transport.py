"""Requests over real sockets, against a small real server."""

from __future__ import annotations

import asyncio
import gc
import ssl
import threading
import warnings
from contextlib import asynccontextmanager, closing
from typing import TYPE_CHECKING

import aiohttp
import pytest
import uvloop
from aiohttp import web

from kubekit.client.auth.credentials import Credential, StaticCredential, TokenFile
from kubekit.client.auth.endpoint import Endpoint
from kubekit.client.auth.exec_plugin import ExecPlugin, ExecPluginConfig
from kubekit.client.blocking_client import BlockingClient
from kubekit.client.request import Request
from kubekit.client.streams.websocket import error_type
from kubekit.client.transport.http_transport import HttpTransport
from kubekit.errors import ConfigError, MusterError
from kubekit.request_errors import Forbidden, Unauthorized, Unreachable, UntrustedCertificate
from tests.controlplane.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

    Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

GET = Request("GET", "/api/v1/pods")


@asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """The address of a server that answers everything with `handler`."""
    server = web.Server(handler)
    runner = web.ServerRunner(server)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"{'https' if tls else 'http'}://{host}:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def transport(endpoint: Endpoint) -> AsyncIterator[HttpTransport]:
    http = HttpTransport(endpoint, user_agent="tester")
    try:
        yield http
    finally:
        await http.close()


async def drained(http: HttpTransport) -> list[bytes]:
    async with http.stream(GET) as chunks:
        return [chunk async for chunk in chunks]


def subclasses(kind: type[Exception]) -> Iterator[type[Exception]]:
    for sub in kind.__subclasses__():
        yield sub
        yield from subclasses(sub)


def expected_error(name: str) -> type[MusterError]:
    if "SSL" in name or "Certificate" in name or "Fingerprint" in name:
        return UntrustedCertificate
    return ConfigError if "InvalidU" in name or "NonHttpUrl" in name else Unreachable


def test_every_error_of_aiohttp_becomes_one_of_ours() -> None:
    known = [sub for sub in subclasses(aiohttp.ClientError) if sub.__module__.startswith("aiohttp")]
    assert len(known) > 20
    classes: list[type[Exception]] = [*known, TimeoutError, ssl.SSLError, OSError]
    for sub in classes:
        assert error_type(sub.__new__(sub)) is expected_error(sub.__name__), sub


async def test_a_request_arrives_unchanged() -> None:
    seen: list[web.BaseRequest] = []
    bodies: list[bytes] = []

    async def handler(request: web.BaseRequest) -> web.Response:
        seen.append(request)
        bodies.append(await request.read())
        return web.Response(status=201, body=b"{}", headers={"X": "y"})

    async with serving(handler) as url:
        endpoint = Endpoint(f"{url}/prefix", credentials=StaticCredential(Credential("Bearer t")))
        async with transport(endpoint) as http:
            call = Request("POST", "/a/%2F", (("q", "a b&c"),), b"body", "text/x", "text/y")
            answer = await http.send(call)
            await http.send(GET)
    assert (answer.status, answer.headers["X"], answer.body) == (201, "y", b"{}")
    assert seen[0].raw_path == "/prefix/a/%2F?q=a%20b%26c"
    headers = seen[0].headers
    assert (headers["Content-Type"], headers["Accept"]) == ("text/x", "text/y")
    assert (headers["User-Agent"], headers["Authorization"]) == ("tester", "Bearer t")
    assert bodies == [b"body", b""]
    assert "Content-Type" not in seen[1].headers
    assert seen[0].transport is None or len({id(r.protocol) for r in seen}) == 1, "kept alive"


async def test_a_line_of_megabytes_streams_through() -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(50):
            await response.write(b"x" * 100_000)
        await response.write(b"\n")
        return response

    async with (
        serving(handler) as url,
        transport(Endpoint(url)) as http,
        http.stream(GET) as chunks,
    ):
        received = [chunk async for chunk in chunks]
    assert sum(map(len, received)) == 5_000_001


async def test_a_stream_that_breaks_is_unreachable() -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"half")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with serving(handler) as url, transport(Endpoint(url)) as http:
        with pytest.raises(Unreachable):
            await drained(http)


async def test_a_rejected_stream_raises_the_error() -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        return web.json_response({"code": 403, "message": "no"}, status=403)

    async with serving(handler) as url, transport(Endpoint(url)) as http:
        with pytest.raises(Forbidden, match="not allowed to list pods: no"):
            async with http.stream(GET):
                pass


@pytest.mark.usefixtures("unknown_names")
async def test_a_missing_server_a_timeout_and_an_unknown_host_are_unreachable() -> None:
    released = asyncio.Event()

    async def silent(request: web.BaseRequest) -> web.Response:
        await released.wait()
        return web.Response()

    async with serving(silent) as url, transport(Endpoint(url)) as http:
        with pytest.raises(Unreachable, match=f"no answer from {url} in time"):
            await http.send(GET._replace(timeout=0.05))
        released.set()
    async with transport(Endpoint(url)) as http:
        with pytest.raises(Unreachable, match=f"cannot reach {url}: Connection refused"):
            await http.send(GET)
    async with transport(Endpoint("http://nowhere.invalid")) as http:
        with pytest.raises(Unreachable, match=r"cannot reach http://nowhere\.invalid: "):
            await http.send(GET)


async def test_a_closed_connection_is_unreachable() -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    async with serving(handler) as url, transport(Endpoint(url)) as http:
        with pytest.raises(Unreachable, match="closed the connection"):
            await http.send(GET._replace(method="POST"))


async def test_a_redirect_is_not_followed() -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        raise web.HTTPFound("/login")

    async with serving(handler) as url, transport(Endpoint(url)) as http:
        assert (await http.send(GET)).status == 302


async def test_a_rotated_token_is_used_for_a_second_attempt(tmp_path: Path) -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        known = request.headers["Authorization"] == "Bearer new"
        return web.Response(status=200 if known else 401)

    (tmp_path / "token").write_text("old")
    source = TokenFile(tmp_path / "token")
    async with serving(handler) as url, transport(Endpoint(url, credentials=source)) as http:
        with pytest.raises(Unauthorized):
            await http.send(GET)
        (tmp_path / "token").write_text("new")
        assert (await http.send(GET)).status == 200
        (tmp_path / "token").write_text("old")
        source.reject(source.get())
        with pytest.raises(Unauthorized):
            async with http.stream(GET):
                pass


def server_tls(authority: Authority, folder: Path, *, clients: bool = False) -> ssl.SSLContext:
    pair = authority.server()
    (folder / "server.pem").write_bytes(pair.certificate + pair.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "server.pem")
    if clients:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=authority.certificate.decode())
    return context


async def peer(request: web.BaseRequest) -> web.Response:
    assert request.transport is not None
    certificate = request.transport.get_extra_info("peercert") or {}
    subject = dict(pair[0] for pair in certificate.get("subject", ()))
    return web.Response(text=subject.get("commonName", "nobody"))


async def test_tls_trusts_the_given_authority_and_shows_our_certificate(tmp_path: Path) -> None:
    authority = Authority()
    pair = authority.client("me")
    me = StaticCredential(Credential("", pair.certificate, pair.key))
    async with serving(peer, server_tls(authority, tmp_path, clients=True)) as url:
        async with transport(Endpoint(url, authority.certificate, credentials=me)) as http:
            assert (await http.send(GET)).body == b"me"
        async with transport(Endpoint(url, authority.certificate)) as http:
            with pytest.raises(Unreachable):
                await http.send(GET)


async def test_another_authority_or_a_wrong_name_is_untrusted(tmp_path: Path) -> None:
    authority = Authority()
    async with serving(peer, server_tls(authority, tmp_path)) as url:
        async with transport(Endpoint(url, Authority("other").certificate)) as http:
            with pytest.raises(
                UntrustedCertificate, match=f"the certificate of {url} is not trusted: "
            ):
                await http.send(GET)
        wrong = Endpoint(url, authority.certificate, server_name="elsewhere")
        async with transport(wrong) as http:
            with pytest.raises(UntrustedCertificate, match="elsewhere"):
                await http.send(GET)
        right = Endpoint(url, authority.certificate, server_name="localhost")
        async with transport(right) as http:
            assert (await http.send(GET)).status == 200
        async with transport(Endpoint(url, verify=False)) as http:
            assert (await http.send(GET)).status == 200


async def test_a_closed_transport_leaves_no_connection_open_whatever_the_server_does(
    tmp_path: Path,
) -> None:
    authority, over = Authority(), threading.Event()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"one\n")
        over.wait(30)  # the whole server stands still, and so says no goodbye
        return answer

    async def first_chunk(url: str) -> bytes:
        async with (
            transport(Endpoint(url, authority.certificate)) as http,
            http.stream(GET) as chunks,
        ):
            return await anext(chunks)

    def leaks(url: str) -> list[str]:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            assert asyncio.run(first_chunk(url)) == b"one\n"
            gc.collect()
        over.set()
        return [str(warning.message) for warning in seen]

    gc.collect()
    async with serving(handler, server_tls(authority, tmp_path)) as url:
        assert await asyncio.to_thread(leaks, url) == []


async def test_a_plugin_runs_again_when_its_token_is_rejected(tmp_path: Path) -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        known = request.headers["Authorization"] == "Bearer 2"
        return web.Response(status=200 if known else 401)

    script = tmp_path / "plugin"
    script.write_text(
        f"#!/bin/sh\necho run >> {tmp_path}/runs\n"
        'printf \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
        f'"status":{{"token":"%d"}}}}\' $(wc -l < {tmp_path}/runs)\n'
    )
    script.chmod(0o700)
    source = ExecPlugin(ExecPluginConfig("exec", str(script)))
    async with serving(handler) as url, transport(Endpoint(url, credentials=source)) as http:
        assert (await http.send(GET)).status == 200
        assert (await http.send(GET)).status == 200
    assert (tmp_path / "runs").read_text() == "run\nrun\n"


@asynccontextmanager
async def tunnel() -> AsyncIterator[tuple[str, list[str]]]:
    """A proxy that opens tunnels and records the requests for them."""
    asked: list[str] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        asked.append(head.splitlines()[0])
        host, port = head.split()[1].rsplit(":", 1)
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        with closing(writer), closing(far_writer):
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


async def test_both_transports_go_through_the_proxy(tmp_path: Path) -> None:
    authority = Authority()
    async with (
        serving(peer, server_tls(authority, tmp_path)) as url,
        tunnel() as (via, asked),
    ):
        endpoint = Endpoint(url, authority.certificate, proxy=via)
        async with transport(endpoint) as http:
            assert (await http.send(GET)).body == b"nobody"
        with BlockingClient(endpoint) as blocking:
            answer = await asyncio.to_thread(blocking.send, GET)
        assert answer.body == b"nobody"
    host = url.removeprefix("https://")
    assert [line.rpartition(" ")[0] for line in asked] == [f"CONNECT {host}"] * 2


def test_the_transport_works_on_uvloop_too(tmp_path: Path) -> None:
    async def through(via: bool) -> bytes:
        async with (
            serving(peer, server_tls(authority, tmp_path)) as url,
            tunnel() as (proxy, _),
            transport(Endpoint(url, authority.certificate, proxy=proxy if via else "")) as http,
        ):
            assert b"".join(await drained(http)) == b"nobody"
            return (await http.send(GET)).body

    authority = Authority()
    assert [uvloop.run(through(via)) for via in (False, True)] == [b"nobody", b"nobody"]
