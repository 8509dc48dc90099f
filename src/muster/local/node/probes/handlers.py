"""Carrying out one handler of a probe or hook: a program in the container, a request, a connection.

Called by `prober` and `stopping`. The answer is whether it went well and what was said; nothing is
raised for a container that is not there, not well or not quick enough.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from typing import TYPE_CHECKING, NamedTuple

from muster import errors
from muster.errors import CannotRun
from muster.local.node.standalone import shim_socket

if TYPE_CHECKING:
    from muster.local.node.pod import Container, Handler, HttpGet, Port
    from muster.local.node.runtime.interface import Runtime

_MOST_SAID = 10 * 1024
_LONGEST_LINE = 8 * 1024


class HandlerResult(NamedTuple):
    well: bool
    said: str = ""


class HandlerRunner:
    """Asks the containers of one runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def ask(
        self, uid: str, container: Container, handler: Handler, limit: float | None
    ) -> HandlerResult:
        """The answer of a container of that pod, in at most `limit` seconds."""
        try:
            async with asyncio.timeout(limit):
                return await self._ask(uid, container, handler)
        except TimeoutError:
            return HandlerResult(False, f"no answer in {limit:g} s")
        except (OSError, CannotRun, ValueError) as error:
            return HandlerResult(False, errors.describe(error))

    async def _ask(self, uid: str, container: Container, handler: Handler) -> HandlerResult:
        if handler.exec is not None:
            return await self._run(uid, container.name, handler.exec.command)
        if handler.http_get is not None:
            return await self._get(uid, container, handler.http_get)
        socket = handler.tcp_socket or handler.grpc
        if socket is not None:
            _, writer = await self._connect(uid, port_number(container, socket.port), socket.host)
            writer.close()
        if handler.sleep is not None:
            await asyncio.sleep(handler.sleep.seconds)
        return HandlerResult(True)

    async def _run(self, uid: str, container: str, command: tuple[str, ...]) -> HandlerResult:
        said = b""
        ask = self._runtime.ask(
            uid, container, op="exec", argv=list(command), tty=False, stdin=False
        )
        async with ask as shim:
            async for channel, data in shim.frames():
                if channel in (shim_socket.STDOUT, shim_socket.STDERR):
                    said = (said + data)[:_MOST_SAID]
                elif channel == shim_socket.STATUS:
                    status = json.loads(data)
                    if "exitCode" in status:
                        text = said.decode(errors="replace") or status.get("message", "")
                        return HandlerResult(status["exitCode"] == 0, text)
        return HandlerResult(False, "the container ended")

    async def _get(self, uid: str, container: Container, asked: HttpGet) -> HandlerResult:
        port = port_number(container, asked.port)
        secure = asked.scheme.upper() == "HTTPS"
        reader, writer = await self._connect(uid, port, asked.host, secure=secure)
        try:
            host = asked.host or self._runtime.read(uid).address
            writer.write(_request(asked, f"{host}:{port}"))
            await writer.drain()
            line = await reader.readuntil(b"\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return HandlerResult(False, "the answer is not HTTP")
        finally:
            writer.close()
        words = line.split(b" ")
        if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1][:3].isdigit():
            return HandlerResult(False, "the answer is not HTTP")
        code = int(words[1][:3])
        return HandlerResult(200 <= code < 400, f"HTTP probe failed with statuscode: {code}")

    async def _connect(
        self, uid: str, port: int, host: str, *, secure: bool = False
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = None
        if secure:  # as the kubelet does it, without looking at the certificate
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        name = "" if secure else None
        if host:
            return await asyncio.open_connection(
                host, port, ssl=context, server_hostname=name, limit=_LONGEST_LINE
            )
        sock = await self._runtime.reach(uid, port)
        try:
            return await asyncio.open_connection(
                sock=sock, ssl=context, server_hostname=name, limit=_LONGEST_LINE
            )
        except BaseException:
            with contextlib.suppress(OSError):
                sock.close()
            raise


def port_number(container: Container, port: Port) -> int:
    """The port's number; a name is looked up among the container's ports."""
    if isinstance(port, int):
        return port
    if port.isdigit():
        return int(port)
    for known in container.ports:
        if known.name == port:
            return known.container_port
    raise ValueError(f'the container has no port called "{port}"')


def _request(asked: HttpGet, host: str) -> bytes:
    given = {header.name.title(): header.value for header in asked.http_headers}
    headers = {
        "Host": host,
        "User-Agent": "kube-probe/muster",
        "Accept": "*/*",
        "Connection": "close",
    }
    lines = [f"{name}: {value}" for name, value in (headers | given).items()]
    path = asked.path if asked.path.startswith("/") else f"/{asked.path}"
    return "\r\n".join([f"GET {path} HTTP/1.1", *lines, "", ""]).encode()
