"""What stands between a client and an API server in real networks, on 127.0.0.1.

`Relay` passes bytes on, as a load balancer or, with CONNECT, as a proxy does: it refuses, demands a
login, delays, cuts and goes dead. `Gateway` speaks HTTP on both sides: it compresses what it passes
on, and shows a certificate that can be exchanged while it runs. Each has a thread with an event
loop of its own, so that blocking clients can be tested too.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import tempfile
import threading
import zlib
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from tests.controlplane.certificates import Authority

T = TypeVar("T")
_HOP_BY_HOP = {"content-length", "transfer-encoding", "connection", "host", "date", "server"}


class _Threaded:
    """An event loop in a thread, for the time of a `with` block."""

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._stop())
        self._run(self._end_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _end_tasks(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _start(self) -> None:
        raise NotImplementedError

    async def _stop(self) -> None:
        raise NotImplementedError


class Relay(_Threaded):
    """Passes bytes to `target`, or to the server that a CONNECT names if there is no target."""

    def __init__(
        self,
        target: str = "",
        *,
        login: str = "",
        refuse: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._target, self._login, self._refuse, self._tls = target, login, refuse, tls
        self.names: dict[str, str] = {}
        """Where names lead that only the proxy knows: `cluster.example:443` to `127.0.0.1:6443`."""
        self.asked: list[str] = []
        """The targets of CONNECT requests."""
        self.connections = 0
        self.down_bytes = 0
        self.delay = 0.0
        """Seconds before each piece of `piece` bytes from the server is passed on."""
        self.piece = 65536
        self.loses_answers = False
        """Whether bytes from the server are dropped, while those to the server arrive."""
        self._flowing = threading.Event()
        self._flowing.set()
        self._open: set[asyncio.StreamWriter] = set()

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    async def _stop(self) -> None:
        self._server.close()
        await self._cut()

    def cut(self) -> None:
        """Break every connection, without a goodbye."""
        self._run(self._cut())

    def go_dead(self) -> None:
        """From now on pass nothing on, and break nothing."""
        self._flowing.clear()

    def revive(self) -> None:
        """Pass bytes on again, on new connections; the old ones are broken."""
        self.cut()
        self.loses_answers = False
        self._flowing.set()

    async def _cut(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        self.connections += 1
        try:
            target = self._target or await self._tunnel_target(reader, writer)
            if target:
                await self._relay(reader, writer, target)
        except (OSError, asyncio.IncompleteReadError):
            pass  # one side has gone, as it may
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _tunnel_target(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> str:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, target, _ = head.splitlines()[0].split()
        assert method == "CONNECT", head
        self.asked.append(target)
        expected = f"Proxy-Authorization: Basic {base64.b64encode(self._login.encode()).decode()}"
        known = not self._login or expected in head.splitlines()
        status = (self._refuse or 200) if known else 407
        rest = "\r\n" if status == 200 else "Content-Length: 3\r\n\r\nno."
        writer.write(f"HTTP/1.1 {status} x\r\n{rest}".encode())
        await writer.drain()
        return self.names.get(target, target) if status == 200 else ""

    async def _relay(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: str
    ) -> None:
        host, port = target.rsplit(":", 1)
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        self._open.add(far_writer)
        up = asyncio.ensure_future(self._pump(reader, far_writer))  # owner: this function
        down = asyncio.ensure_future(self._pump(far_reader, writer, down=True))  # owner: as above
        try:
            await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (up, down):
                task.cancel()
            await asyncio.gather(up, down, return_exceptions=True)
            self._open.discard(far_writer)
            far_writer.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, down: bool = False
    ) -> None:
        while data := await reader.read(self.piece if down else 65536):
            if not self._flowing.is_set():
                await asyncio.Event().wait()
            if down and self.loses_answers:
                continue
            if down and self.delay:
                await asyncio.sleep(self.delay)  # pace: this relay is slow
            self.down_bytes += len(data) if down else 0
            writer.write(data)
            await writer.drain()


class Gateway(_Threaded):
    """An HTTPS gateway to the API server at `url`; it adds the server's token by itself."""

    def __init__(self, url: str, authority: Authority, *, token: str, ca: bytes) -> None:
        self._url, self._token, self._ca = url, token, ca
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.accepts = ""
        """The only token that it lets pass; empty for any."""
        self.compress = False
        self.encoding = "gzip"
        self.answers: list[web.Response] = []
        """Answers of the gateway itself, for the next requests."""
        self.asked: list[tuple[str, str]] = []
        """Path with query, and Accept-Encoding, of every request."""
        self.show_certificate_of(authority)

    def show_certificate_of(self, authority: Authority) -> None:
        """Show a certificate of this authority to clients that connect from now on."""
        pair = authority.server()
        with tempfile.NamedTemporaryFile() as file:
            file.write(pair.certificate + pair.key)
            file.flush()
            self._tls.load_cert_chain(file.name)

    @property
    def lists(self) -> int:
        return sum("watch=" not in path for path, _ in self.asked)

    async def _start(self) -> None:
        upstream = ssl.create_default_context(cadata=self._ca.decode())
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=upstream),
            auto_decompress=False,
            skip_auto_headers=("Accept-Encoding",),
            timeout=aiohttp.ClientTimeout(total=None),
        )
        self._runner = web.ServerRunner(web.Server(self._handle), shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls).start()
        self.port = self._runner.addresses[0][1]
        self.url = f"https://127.0.0.1:{self.port}"

    async def _stop(self) -> None:
        await self._session.close()
        await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append((request.raw_path, request.headers.get("Accept-Encoding", "none")))
        if self.answers:
            return self.answers.pop(0)
        if self.accepts and request.headers.get("Authorization") != f"Bearer {self.accepts}":
            return web.json_response({"kind": "Status", "code": 401}, status=401)
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _HOP_BY_HOP}
        headers["Authorization"] = f"Bearer {self._token}"
        async with self._session.request(
            request.method,
            self._url + request.raw_path,
            headers=headers,
            data=await request.read() or None,
        ) as upstream:
            return await self._pass_on(request, upstream)

    async def _pass_on(
        self, request: web.BaseRequest, upstream: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=upstream.status)
        for name, value in upstream.headers.items():
            if name.lower() not in _HOP_BY_HOP:
                response.headers[name] = value
        packer = None
        if self.compress:
            response.headers["Content-Encoding"] = self.encoding
            packer = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
        await response.prepare(request)
        with suppress(ConnectionError):  # the client has gone
            async for chunk in upstream.content.iter_any():
                await response.write(chunk if packer is None else _packed(packer, chunk))
            if packer is not None:
                await response.write(packer.flush())
        return response


def _packed(packer: Any, chunk: bytes) -> bytes:
    """Compressed and flushed, so that an event does not wait for the next one."""
    data: bytes = packer.compress(chunk) + packer.flush(zlib.Z_SYNC_FLUSH)
    return data


def host_and_port(url: str) -> str:
    return urlsplit(url).netloc
