"""Websockets to the server, for exec, attach and port-forward.

The only module of this package that imports aiohttp, and loaded only when a websocket is opened.
Every failure is raised as Unreachable, UntrustedCertificate or the server's own error, never as an
error of aiohttp.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import aiohttp
from yarl import URL

from kubekit.client.request import Response
from kubekit.client.transport import tls
from kubekit.client.transport.connection_pool import CONNECT_TIMEOUT
from kubekit.client.transport.proxy import ProxyError
from kubekit.client.transport.tls import enable_keepalive
from kubekit.client.transport.tunnel import Destination, open_tunnel
from kubekit.errors import ConfigError, MusterError
from kubekit.request_errors import Unreachable, UntrustedCertificate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from aiohttp.client_proto import ResponseHandler

    from kubekit.client.auth.credentials import Credential
    from kubekit.client.auth.endpoint import Endpoint
    from kubekit.client.request import Request
    from kubekit.client.transport.proxy import Proxy

HANDSHAKE_TIMEOUT = 60.0
CLOSE_ATTEMPTS = 1000  # of a millisecond each
_CERTIFICATE_ERRORS = (ssl.SSLError, aiohttp.ClientSSLError, aiohttp.ServerFingerprintMismatch)
_ADDRESS_ERRORS = (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError)


class WebSocketConnector:
    """Opens websockets to one server."""

    def __init__(self, endpoint: Endpoint, user_agent: str, proxy: Proxy | None = None) -> None:
        self._endpoint, self._base = endpoint, endpoint.url
        self._tls = tls.ClientContext(endpoint)
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._tunnels = _TunnelConnector(proxy, endpoint.server_name) if proxy else None
        self._session = aiohttp.ClientSession(
            connector=self._tunnels or aiohttp.TCPConnector(limit=0, socket_factory=self._socket),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": user_agent},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT),
        )

    @asynccontextmanager
    async def connect(
        self, request: Request, protocols: Sequence[str], credential: Credential
    ) -> AsyncIterator[WebSocket]:
        """Open a websocket; it is closed with the block."""
        headers = {"Accept": request.accept}
        if credential.authorization:
            headers["Authorization"] = credential.authorization
        try:
            async with asyncio.timeout(HANDSHAKE_TIMEOUT):
                raw = await self._session.ws_connect(
                    URL(self._base + request.target, encoded=True),
                    protocols=protocols,
                    headers=headers,
                    ssl=self._tls.update(credential) or True,
                    max_msg_size=0,
                    server_hostname=self._endpoint.server_name or None,
                )
        except aiohttp.WSServerHandshakeError as error:
            if error.status < 400:
                raise self.explain(error) from error
            response = Response(error.status, error.headers or {}, b"")
            raise tls.response_error(self._endpoint, response, request) from error
        except (aiohttp.ClientError, OSError) as error:
            raise self.explain(error) from error
        try:
            yield WebSocket(raw, self)
        finally:
            await raw.close()

    async def close(self) -> None:
        await self._session.close()
        for tunnel in self._tunnels.tunnels if self._tunnels else ():
            tunnel.abort()
        await self._shut_down_sockets()

    async def _shut_down_sockets(self) -> None:
        """Close the connections that were left in the middle of a message.

        Over TLS, asyncio keeps such a connection for half a minute, until the server closes it too.
        An event loop that ends before that would leave it open.
        """
        for sock in self._sockets:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for _ in range(CLOSE_ATTEMPTS):  # nothing signals that a socket was closed
            if all(sock.fileno() < 0 for sock in self._sockets):
                return
            await asyncio.sleep(0.001)

    def _socket(self, address: Any) -> socket.socket:
        sock = socket.socket(*address[:3])
        enable_keepalive(sock)
        self._sockets.add(sock)
        return sock

    def explain(self, error: Exception) -> MusterError:
        """The error of this program for one of aiohttp or of the system."""
        cause = error.__cause__
        if isinstance(error, aiohttp.ClientOSError) and isinstance(
            cause, ssl.SSLError | ProxyError
        ):
            error = cause  # of a tunnel: aiohttp wraps it
        if isinstance(error, ProxyError):
            return tls.connect_error(self._endpoint, error)
        kind = error_type(error)
        if kind is UntrustedCertificate:
            return UntrustedCertificate(tls.explain_untrusted(self._endpoint, error))
        if isinstance(error, TimeoutError):
            return Unreachable(f"no answer from {self._base} in time")
        return kind(f"cannot reach {self._base}: {tls.explain_connect_error(error)}")


class _TunnelConnector(aiohttp.BaseConnector):
    """Connections through a proxy; aiohttp would check it by the authority of the cluster."""

    def __init__(self, proxy: Proxy, server_name: str) -> None:
        super().__init__(limit=0)
        self._proxy, self._server_name = proxy, server_name
        self.tunnels: WeakSet[asyncio.Transport] = WeakSet()

    async def _create_connection(
        self, req: aiohttp.ClientRequest, traces: object, timeout: object
    ) -> ResponseHandler:
        protocol: ResponseHandler = self._factory()
        host = req.url.host or ""
        context = req.ssl if isinstance(req.ssl, ssl.SSLContext) else None
        destination = Destination(host, req.url.port or 443, context, self._server_name or host)
        self.tunnels.add(await open_tunnel(self._proxy, destination, protocol))
        return protocol


def error_type(error: Exception) -> type[MusterError]:
    """Whose fault an error of aiohttp or of the system is."""
    if isinstance(error, _CERTIFICATE_ERRORS):
        return UntrustedCertificate
    return ConfigError if isinstance(error, _ADDRESS_ERRORS) else Unreachable


class WebSocket:
    """A two-way stream of binary messages."""

    def __init__(
        self, raw: aiohttp.ClientWebSocketResponse[bool], connector: WebSocketConnector
    ) -> None:
        self._raw, self._connector = raw, connector

    @property
    def protocol(self) -> str:
        """The subprotocol that the server chose."""
        return self._raw.protocol or ""

    async def send(self, data: bytes) -> None:
        try:
            await self._raw.send_bytes(data)
        except (aiohttp.ClientError, OSError) as error:
            raise self._connector.explain(error) from error

    async def receive(self) -> bytes | None:
        """The next message; None when the other side has closed."""
        message = await self._raw.receive()
        if message.type is aiohttp.WSMsgType.BINARY:
            data: bytes = message.data
            return data
        if message.type is aiohttp.WSMsgType.TEXT:
            return str(message.data).encode()
        return None

    async def close(self) -> None:
        await self._raw.close()
