"""Runs one handler of a probe or hook: a program in the container, a request, or a connection.

A container that does not run, fails or answers too late is a result, not an exception.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from kubekit import errors
from kubekit.objects.core import port_number
from kubekit.serving.acceptor import is_lack
from localkube.node.standalone import shim_socket

if TYPE_CHECKING:
    from localkube.node.pod import Container, Handler, HttpGet, Port
    from localkube.node.runtime.container_runtime import Runtime

_MAX_OUTPUT = 10 * 1024
"""Bytes of a program's output that are kept, as in the kubelet."""
_MAX_LINE = 8 * 1024
_RETRY = 1.0
"""Seconds until a handler is tried again for which there was no descriptor."""


class HandlerResult(NamedTuple):
    ok: bool
    output: str = ""


@dataclass(frozen=True)
class HandlerRunner:
    """Runs handlers in the containers of one runtime."""

    runtime: Runtime

    async def run(
        self, uid: str, container: Container, handler: Handler, limit: float | None
    ) -> HandlerResult:
        """Run a handler for at most `limit` seconds, as soon as there are descriptors for it."""
        while True:
            try:
                async with asyncio.timeout(limit):
                    return await self._run(uid, container, handler)
            except TimeoutError:
                return HandlerResult(False, f"no answer in {limit:g} s")
            except Exception as error:  # noqa: BLE001 - whatever the pod's fields lead to
                if not is_lack(error):  # which says nothing about the container
                    return HandlerResult(False, errors.describe(error))
            await asyncio.sleep(_RETRY)

    async def _run(self, uid: str, container: Container, handler: Handler) -> HandlerResult:
        if handler.exec is not None:
            return await self._exec(uid, container.name, handler.exec.command)
        if handler.http_get is not None:
            return await self._http_get(uid, container, handler.http_get)
        target = handler.tcp_socket or handler.grpc
        if target is not None:
            port = container_port(container, target.port)
            _, writer = await self._connect(uid, port, target.host)
            writer.close()
        if handler.sleep is not None:
            await asyncio.sleep(handler.sleep.seconds)
        return HandlerResult(True)

    async def _exec(self, uid: str, container: str, command: tuple[str, ...]) -> HandlerResult:
        output = b""
        connection = self.runtime.connect_shim(
            uid, container, op="exec", argv=list(command), tty=False, stdin=False
        )
        async with connection as shim:
            async for channel, data in shim.frames():
                if channel in (shim_socket.STDOUT, shim_socket.STDERR):
                    output = (output + data)[:_MAX_OUTPUT]
                elif channel == shim_socket.STATUS:
                    status = json.loads(data)
                    if "exitCode" in status:
                        text = output.decode(errors="replace") or status.get("message", "")
                        return HandlerResult(status["exitCode"] == 0, text)
        return HandlerResult(False, "the container exited")

    async def _http_get(self, uid: str, container: Container, get: HttpGet) -> HandlerResult:
        port = container_port(container, get.port)
        secure = get.scheme.upper() == "HTTPS"
        reader, writer = await self._connect(uid, port, get.host, secure=secure)
        try:
            host = get.host or self.runtime.records.read(uid).address
            writer.write(_request(get, f"{host}:{port}"))
            await writer.drain()
            line = await reader.readuntil(b"\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return HandlerResult(False, "the answer is not HTTP")
        finally:
            writer.close()
        words = line.split(b" ")
        if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1][:3].isdigit():
            return HandlerResult(False, "the answer is not HTTP")
        code = int(words[1][:3])  # redirects are a success, and are not followed
        if 200 <= code < 400:
            return HandlerResult(True)
        return HandlerResult(False, f"HTTP probe failed with statuscode: {code}")

    async def _connect(
        self, uid: str, port: int, host: str, *, secure: bool = False
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        tls: dict[str, Any] = {}
        if secure:  # like the kubelet, without checking the certificate
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            tls = {"ssl": context, "server_hostname": ""}
        if host:
            return await asyncio.open_connection(host, port, limit=_MAX_LINE, **tls)
        sock = await self.runtime.reach(uid, port)
        try:
            return await asyncio.open_connection(sock=sock, limit=_MAX_LINE, **tls)
        except BaseException:  # also cancelled by the time limit
            with contextlib.suppress(OSError):
                sock.close()
            raise


def container_port(container: Container, port: Port) -> int:
    """The port's number; a name is looked up among the container's ports."""
    number = port_number(port, [container])
    if number is None:
        raise ValueError(f'the container has no port named "{port}"')
    return number


def _request(get: HttpGet, host: str) -> bytes:
    custom = {header.name.title(): header.value for header in get.http_headers}
    headers = {
        "Host": host,
        "User-Agent": "kube-probe/muster",
        "Accept": "*/*",
        "Connection": "close",
    }
    lines = [f"{name}: {value}" for name, value in (headers | custom).items()]
    path = get.path if get.path.startswith("/") else f"/{get.path}"
    return "\r\n".join([f"GET {path} HTTP/1.1", *lines, "", ""]).encode()
