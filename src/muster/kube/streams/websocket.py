"""Websockets to the server, for exec, attach and port-forward.

Opened by `transport.py` for who needs one, so that daemons never import aiohttp for it. Promise:
every failure arrives as Unreachable, Untrusted or the refusal the server gave, never as an aiohttp
error.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import aiohttp
from yarl import URL

from muster.errors import ConfigError, MusterError, Unreachable, UntrustedCertificate
from muster.kube.error_response import error_from_response
from muster.kube.request import Response
from muster.kube.transport import proxy, tls
from muster.kube.transport.connection_pool import CONNECT_TIMEOUT, enable_keepalive

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from muster.kube.auth.credentials import Credential
    from muster.kube.auth.endpoint import Endpoint
    from muster.kube.request import Request

HANG_UP_TURNS = 1000

# By name, so that the table can speak of classes which only some versions of aiohttp have.
ERRORS: dict[str, type[MusterError]] = {
    "ClientError": Unreachable,
    "ClientConnectionError": Unreachable,
    "ClientConnectionResetError": Unreachable,
    "ClientConnectorError": Unreachable,
    "ClientConnectorDNSError": Unreachable,
    "ClientConnectorSSLError": UntrustedCertificate,
    "ClientConnectorCertificateError": UntrustedCertificate,
    "ClientSSLError": UntrustedCertificate,
    "ServerFingerprintMismatch": UntrustedCertificate,
    "ClientHttpProxyError": Unreachable,
    "ClientProxyConnectionError": Unreachable,
    "ClientOSError": Unreachable,
    "ClientPayloadError": Unreachable,
    "ClientResponseError": Unreachable,
    "ConnectionTimeoutError": Unreachable,
    "ContentTypeError": Unreachable,
    "InvalidURL": ConfigError,
    "InvalidUrlClientError": ConfigError,
    "InvalidUrlRedirectClientError": ConfigError,
    "NonHttpUrlClientError": ConfigError,
    "NonHttpUrlRedirectClientError": ConfigError,
    "RedirectClientError": Unreachable,
    "ServerConnectionError": Unreachable,
    "ServerDisconnectedError": Unreachable,
    "ServerTimeoutError": Unreachable,
    "SocketTimeoutError": Unreachable,
    "TooManyRedirects": Unreachable,
    "UnixClientConnectorError": Unreachable,
    "UploadAbortedError": Unreachable,
    "WSServerHandshakeError": Unreachable,
    "TimeoutError": Unreachable,
    "SSLError": UntrustedCertificate,
    "OSError": Unreachable,
}


class WebSocketConnector:
    """The websockets to one server."""

    def __init__(self, endpoint: Endpoint, user_agent: str) -> None:
        self._endpoint, self._base = endpoint, endpoint.url
        self._made: WeakSet[socket.socket] = WeakSet()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, socket_factory=self._socket),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": user_agent},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT),
        )

    @asynccontextmanager
    async def connect(
        self, request: Request, protocols: Sequence[str], credential: Credential
    ) -> AsyncIterator[AiohttpWebSocket]:
        """An open one, closed with the block."""
        headers = {"Accept": request.accept}
        if credential.authorization:
            headers["Authorization"] = credential.authorization
        try:
            raw = await self._session.ws_connect(
                URL(self._base + request.target, encoded=True),
                protocols=protocols,
                headers=headers,
                ssl=tls.client_context(self._endpoint, credential) or True,
                max_msg_size=0,
                proxy=proxy.proxy_for(self._endpoint) or None,
                server_hostname=self._endpoint.server_name or None,
            )
        except aiohttp.WSServerHandshakeError as error:
            if error.status < 400:
                raise self.explain(error) from error
            refusal = Response(error.status, error.headers or {}, b"")
            expired = tls.expired_certificate(self._endpoint) if error.status == 401 else ""
            raise error_from_response(refusal, request, expired=expired) from error
        except (aiohttp.ClientError, OSError) as error:
            raise self.explain(error) from error
        try:
            yield AiohttpWebSocket(raw, self)
        finally:
            await raw.close()

    async def close(self) -> None:
        await self._session.close()
        await self._hang_up()

    async def _hang_up(self) -> None:
        """End the connections that were let go of in the midst of something.

        Over TLS asyncio keeps such a one for half a minute, until the server has said goodbye too.
        A loop that ends before would leave it open.
        """
        for made in self._made:
            with suppress(OSError):
                made.shutdown(socket.SHUT_RDWR)
        for _ in range(HANG_UP_TURNS):  # a socket tells nobody that it was closed
            if all(made.fileno() < 0 for made in self._made):
                return
            await asyncio.sleep(0.001)

    def _socket(self, address: Any) -> socket.socket:
        made = socket.socket(*address[:3])
        enable_keepalive(made)
        self._made.add(made)
        return made

    def explain(self, error: Exception) -> MusterError:
        """What went wrong, in our own words."""
        kind = next(ERRORS[c.__name__] for c in type(error).__mro__ if c.__name__ in ERRORS)
        if kind is UntrustedCertificate:
            return UntrustedCertificate(tls.explain_untrusted(self._endpoint, error))
        if isinstance(error, TimeoutError):
            return kind(f"no answer from {self._base} in time")
        return kind(f"cannot reach {self._base}: {tls.explain_connect_error(error)}")


class AiohttpWebSocket:
    """A two-way stream of binary messages."""

    def __init__(
        self, raw: aiohttp.ClientWebSocketResponse[bool], sockets: WebSocketConnector
    ) -> None:
        self._raw, self._sockets = raw, sockets

    @property
    def protocol(self) -> str:
        return self._raw.protocol or ""

    async def send(self, data: bytes) -> None:
        try:
            await self._raw.send_bytes(data)
        except (aiohttp.ClientError, OSError) as error:
            raise self._sockets.explain(error) from error

    async def receive(self) -> bytes | None:
        message = await self._raw.receive()
        if message.type is aiohttp.WSMsgType.BINARY:
            data: bytes = message.data
            return data
        if message.type is aiohttp.WSMsgType.TEXT:
            return str(message.data).encode()
        return None

    async def close(self) -> None:
        await self._raw.close()
