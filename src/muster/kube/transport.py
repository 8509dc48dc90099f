"""Requests over real sockets with aiohttp, and the one seam behind which they can be replaced.

`Client` holds a `Transport`; tests hold a scripted one. Promises: every failure of the network
arrives as Unreachable or Untrusted and never as an aiohttp error; a 401 makes a credential that can
be renewed be renewed once; a stream has no limit on the length of its lines. Over a connection that
had gone stale aiohttp sends GET, PUT and DELETE again, which mean the same twice, and nothing else.

The number of requests in flight is bounded by `Client`, not by the connection pool: a watch or a
followed log holds its connection for hours and must not eat the others' share.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from muster.errors import ConfigError, MusterError, Unreachable, Untrusted
from muster.kube import proxy, tls
from muster.kube.refusal import decode_error
from muster.kube.request import Request, Response

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from muster.kube.config import Endpoint
    from muster.kube.credentials import Credential

TIMEOUT = 60.0
CONNECT_TIMEOUT = 10.0
HANG_UP_TURNS = 1000
_ENDLESS = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT)

# By name, so that the table can speak of classes which only some versions of aiohttp have.
ERRORS: dict[str, type[MusterError]] = {
    "ClientError": Unreachable,
    "ClientConnectionError": Unreachable,
    "ClientConnectionResetError": Unreachable,
    "ClientConnectorError": Unreachable,
    "ClientConnectorDNSError": Unreachable,
    "ClientConnectorSSLError": Untrusted,
    "ClientConnectorCertificateError": Untrusted,
    "ClientSSLError": Untrusted,
    "ServerFingerprintMismatch": Untrusted,
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
    "SSLError": Untrusted,
    "OSError": Unreachable,
}


class WebSocket(Protocol):
    """A two-way stream of binary messages."""

    @property
    def protocol(self) -> str:
        """The subprotocol the server chose."""

    async def send(self, data: bytes) -> None: ...

    async def receive(self) -> bytes | None:
        """The next message, or None when the other side has closed."""

    async def close(self) -> None: ...


class Transport(Protocol):
    """All that the client knows of the network."""

    async def send(self, request: Request) -> Response: ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The body piece by piece; a refusal is raised on entering."""

    def websocket(
        self, request: Request, protocols: Sequence[str]
    ) -> AbstractAsyncContextManager[WebSocket]: ...

    async def close(self) -> None: ...


class HttpTransport:
    """aiohttp. Made without a running loop; the first request opens the session."""

    def __init__(self, endpoint: Endpoint, *, user_agent: str = "muster") -> None:
        self._endpoint = endpoint
        self._user_agent = user_agent
        self._base = endpoint.url
        self._session: aiohttp.ClientSession | None = None
        self._headers: dict[tuple[str | None, str, str], CIMultiDict[str]] = {}
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._tls: ssl.SSLContext | bool = True
        self._tls_of: tuple[bytes, bytes] | None = None
        self._options: dict[str, Any] = {
            "allow_redirects": False,
            "proxy": proxy.choose(endpoint) or None,
            "server_hostname": endpoint.server_name or None,
        }

    async def send(self, request: Request) -> Response:
        response = await self._send(request)
        if response.status != 401:
            return response
        if self._endpoint.credentials.refused():
            response = await self._send(request)
        if expired := self._expired(response.status):
            raise decode_error(response, request, expired=expired)
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        credential = await self._credential()
        refusal = None
        try:
            response = await self._open(request, credential)
            if response.status >= 300:
                refusal = Response(response.status, response.headers, await response.read())
        except (aiohttp.ClientError, OSError) as error:
            raise self._explain(error) from error
        async with response:
            if refusal is not None:
                if refusal.status == 401:
                    self._endpoint.credentials.refused()
                raise decode_error(refusal, request, expired=self._expired(refusal.status))
            yield self._chunks(response)

    @asynccontextmanager
    async def websocket(
        self, request: Request, protocols: Sequence[str]
    ) -> AsyncIterator[WebSocket]:
        credential = await self._credential()
        try:
            raw = await self._opened().ws_connect(
                URL(self._base + request.target, encoded=True),
                protocols=protocols,
                headers=self._headers_for(request, credential),
                ssl=self._tls,
                max_msg_size=0,
                proxy=self._options["proxy"],
                server_hostname=self._options["server_hostname"],
            )
        except aiohttp.WSServerHandshakeError as error:
            if error.status >= 400:
                answer = Response(error.status, error.headers or {}, b"")
                raise decode_error(answer, request, expired=self._expired(error.status)) from error
            raise self._explain(error) from error
        except (aiohttp.ClientError, OSError) as error:
            raise self._explain(error) from error
        try:
            yield _AiohttpWebSocket(raw, self)
        finally:
            await raw.close()

    async def close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()
            await self._hang_up()

    async def _hang_up(self) -> None:
        """End the connections that were let go of in the midst of something.

        Over TLS asyncio keeps such a one for half a minute, until the server has said goodbye too.
        A loop that ends before would leave it open.
        """
        for made in self._sockets:
            with suppress(OSError):
                made.shutdown(socket.SHUT_RDWR)
        for _ in range(HANG_UP_TURNS):  # a socket tells nobody that it was closed
            if all(made.fileno() < 0 for made in self._sockets):
                return
            await asyncio.sleep(0.001)

    async def _send(self, request: Request) -> Response:
        credential = await self._credential()
        try:
            async with await self._open(request, credential) as response:
                return Response(response.status, response.headers, await response.read())
        except (aiohttp.ClientError, OSError) as error:
            raise self._explain(error) from error

    async def _credential(self) -> Credential:
        source = self._endpoint.credentials
        credential = source.current() if source.ready() else await asyncio.to_thread(source.current)
        if self._tls_of != credential[1:]:
            self._tls = tls.context(self._endpoint, credential) or True
            self._tls_of = credential[1:]
        return credential

    async def _open(self, request: Request, credential: Credential) -> aiohttp.ClientResponse:
        options = self._options
        if request.timeout is not None:
            timeout = aiohttp.ClientTimeout(request.timeout) if request.timeout else _ENDLESS
            options = {**options, "timeout": timeout}
        return await self._opened().request(
            request.method,
            URL(self._base + request.target, encoded=True),
            data=request.body,
            headers=self._headers_for(request, credential),
            ssl=self._tls,
            **options,
        )

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0, keepalive_timeout=60, socket_factory=self._socket
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": self._user_agent, "Accept-Encoding": "identity"},
                timeout=aiohttp.ClientTimeout(total=TIMEOUT, sock_connect=CONNECT_TIMEOUT),
            )
        return self._session

    def _socket(self, address: Any) -> socket.socket:
        made = _socket_with_keepalive(address)
        self._sockets.add(made)
        return made

    def _headers_for(self, request: Request, credential: Credential) -> CIMultiDict[str]:
        content_type = None if request.body is None else request.content_type
        key = (content_type, request.accept, credential.authorization)
        found = self._headers.get(key)
        if found is None:
            if len(self._headers) > 50:  # a token that rotates for weeks
                self._headers.clear()
            found = self._headers[key] = CIMultiDict(Accept=request.accept)
            if content_type is not None:
                found["Content-Type"] = content_type
            if credential.authorization:
                found["Authorization"] = credential.authorization
        return found

    async def _chunks(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        try:
            async for chunk in response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, OSError) as error:
            raise self._explain(error) from error

    def _expired(self, status: int) -> str:
        return tls.expired(self._endpoint) if status == 401 else ""

    def _explain(self, error: Exception) -> MusterError:
        kind = next(ERRORS[c.__name__] for c in type(error).__mro__ if c.__name__ in ERRORS)
        if kind is Untrusted:
            return Untrusted(tls.untrusted(self._endpoint, error))
        if isinstance(error, TimeoutError):
            return kind(f"no answer from {self._base} in time")
        # After the handshake a server can only show by hanging up that it dislikes our certificate.
        connected = not isinstance(error, aiohttp.ClientConnectorError)
        if connected and (expired := tls.expired(self._endpoint)):
            return Untrusted(f"{self._base} hung up: {expired}")
        if isinstance(error, aiohttp.ClientPayloadError | aiohttp.ServerDisconnectedError):
            return kind(f"{self._base} broke the connection off")
        return kind(f"cannot reach {self._base}: {tls.reason(error)}")


class _AiohttpWebSocket:
    def __init__(
        self, raw: aiohttp.ClientWebSocketResponse[bool], transport: HttpTransport
    ) -> None:
        self._raw, self._transport = raw, transport

    @property
    def protocol(self) -> str:
        return self._raw.protocol or ""

    async def send(self, data: bytes) -> None:
        try:
            await self._raw.send_bytes(data)
        except (aiohttp.ClientError, OSError) as error:
            raise self._transport._explain(error) from error

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


def _socket_with_keepalive(address: Any) -> socket.socket:
    """A server that vanished without a word is noticed within a minute, also by a silent watch."""
    family, kind, protocol = address[0], address[1], address[2]
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made
