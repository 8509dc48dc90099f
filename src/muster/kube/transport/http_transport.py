"""Requests over real sockets, and the one seam behind which they can be replaced.

`Client` holds a `Transport`; tests hold a scripted one. Promises: every failure of the network
arrives as Unreachable or Untrusted; a 401 makes a credential that can be renewed be renewed once;
a stream has no limit on the length of its lines.

The number of requests in flight is bounded by `Client`, not here: a watch or a followed log holds
its connection for hours and must not eat the others' share.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from muster.errors import MusterError, Unreachable, UntrustedCertificate
from muster.kube.error_response import error_from_response
from muster.kube.request import Request, Response
from muster.kube.transport import proxy, tls
from muster.kube.transport.connection_pool import ConnectFailed, ConnectionPool, EncodedRequest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from muster.kube.auth.credentials import Credential
    from muster.kube.auth.endpoint import Endpoint
    from muster.kube.streams.websocket import WebSocketConnector
    from muster.kube.transport.connection import Connection

TIMEOUT = 60.0
IDEMPOTENT_METHODS = frozenset(("GET", "PUT", "DELETE"))


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
    """HTTP/1.1, with TLS as the endpoint asks for. Nothing is sent before the first request."""

    def __init__(self, endpoint: Endpoint, *, user_agent: str = "muster") -> None:
        self._endpoint = endpoint
        self._user_agent = user_agent
        self._base = endpoint.url
        self._pool = ConnectionPool(
            endpoint.url, server_name=endpoint.server_name, via=proxy.proxy_for(endpoint)
        )
        self._sockets: WebSocketConnector | None = None
        self._tls_of: tuple[bytes, bytes] | None = None

    async def send(self, request: Request) -> Response:
        response = await self._send(request)
        if response.status != 401:
            return response
        if self._endpoint.credentials.reject():
            response = await self._send(request)
        if expired := self._expired(response.status):
            raise error_from_response(response, request, expired=expired)
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        message = self._message(request, await self._credential())
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(_seconds(request)):
                    connection = await stack.enter_async_context(self._pool.streamed(message))
            except OSError as error:
                raise self._explain(error) from error
            if connection.status >= 300:
                raise await self._refusal(request, connection)
            yield self._pieces(connection)

    @asynccontextmanager
    async def websocket(
        self, request: Request, protocols: Sequence[str]
    ) -> AsyncIterator[WebSocket]:
        from muster.kube.streams.websocket import (
            WebSocketConnector,  # aiohttp: only who needs it pays for it
        )

        if self._sockets is None:
            self._sockets = WebSocketConnector(self._endpoint, self._user_agent)
        credential = await self._credential()
        async with self._sockets.connect(request, protocols, credential) as socket:
            yield socket

    async def close(self) -> None:
        await self._pool.close()
        if self._sockets is not None:
            await self._sockets.close()

    async def _send(self, request: Request) -> Response:
        message = self._message(request, await self._credential())
        try:
            async with asyncio.timeout(_seconds(request)):
                return await self._pool.whole(message)
        except OSError as error:
            raise self._explain(error) from error

    async def _credential(self) -> Credential:
        source = self._endpoint.credentials
        credential = source.get() if source.is_ready() else await asyncio.to_thread(source.get)
        if self._tls_of != credential[1:]:
            self._pool.trust(tls.client_context(self._endpoint, credential))
            self._tls_of = credential[1:]
        return credential

    def _message(self, request: Request, credential: Credential) -> EncodedRequest:
        data = request.message(self._base, self._user_agent, credential.authorization)
        return EncodedRequest(data, request.method in IDEMPOTENT_METHODS)

    async def _refusal(self, request: Request, connection: Connection) -> MusterError:
        try:
            async with asyncio.timeout(TIMEOUT):
                body = b"".join([piece async for piece in connection.pieces()])
        except OSError as error:
            return self._explain(error)
        if connection.status == 401:
            self._endpoint.credentials.reject()
        refusal = Response(connection.status, connection.headers, body)
        return error_from_response(refusal, request, expired=self._expired(refusal.status))

    async def _pieces(self, connection: Connection) -> AsyncIterator[bytes]:
        try:
            async for piece in connection.pieces():
                yield piece
        except OSError as error:
            raise self._explain(error) from error

    def _expired(self, status: int) -> str:
        return tls.expired_certificate(self._endpoint) if status == 401 else ""

    def _explain(self, error: OSError) -> MusterError:
        if isinstance(error, TimeoutError):
            return Unreachable(f"no answer from {self._base} in time")
        if isinstance(error, ConnectFailed):
            cause = error.__cause__
            assert isinstance(cause, OSError)
            if isinstance(cause, ssl.SSLError):
                return UntrustedCertificate(tls.explain_untrusted(self._endpoint, cause))
            return Unreachable(f"cannot reach {self._base}: {tls.explain_connect_error(cause)}")
        # After the handshake a server can only show by hanging up that it dislikes our certificate.
        if expired := tls.expired_certificate(self._endpoint):
            return UntrustedCertificate(f"{self._base} hung up: {expired}")
        return Unreachable(f"{self._base} broke the connection off")


def _seconds(request: Request) -> float | None:
    return TIMEOUT if request.timeout is None else request.timeout or None
