"""The `Transport` protocol, and its implementation over HTTP/1.1.

`Client` holds a `Transport`, so tests can hold a scripted one. Every failure of the network is
raised as Unreachable or UntrustedCertificate; a 401 renews a credential that can be renewed, once.

`Client` bounds the number of requests in flight, not the transport: a watch or a followed log holds
its connection for hours and must not use up the share of short requests.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from muster.kube.request import Request, Response
from muster.kube.transport import proxy, tls
from muster.kube.transport.connection import ConnectionClosed
from muster.kube.transport.connection_pool import ConnectionPool, EncodedRequest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from muster.errors import MusterError
    from muster.kube.auth.credentials import Credential
    from muster.kube.auth.endpoint import Endpoint
    from muster.kube.streams.websocket import WebSocketConnector
    from muster.kube.transport.connection import Connection
    from muster.kube.transport.connection_pool import Connector

TIMEOUT = 60.0
IDEMPOTENT_METHODS = frozenset(("GET", "PUT", "DELETE"))


class WebSocket(Protocol):
    """A two-way stream of binary messages."""

    @property
    def protocol(self) -> str:
        """The subprotocol the server chose."""

    async def send(self, data: bytes) -> None: ...

    async def receive(self) -> bytes | None:
        """The next message; None when the other side has closed."""

    async def close(self) -> None: ...


class Transport(Protocol):
    """The network, as the client uses it."""

    async def send(self, request: Request) -> Response: ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The body in chunks; an error response is raised on entering."""

    def websocket(
        self, request: Request, protocols: Sequence[str]
    ) -> AbstractAsyncContextManager[WebSocket]: ...

    async def close(self) -> None: ...


class HttpTransport:
    """HTTP/1.1, with TLS if the endpoint has it. Connects with the first request."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        user_agent: str = "muster",
        connector: Connector | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._user_agent = user_agent
        self._base = endpoint.url
        self._pool = ConnectionPool(
            endpoint.url,
            server_name=endpoint.server_name,
            proxy_url="" if connector else proxy.proxy_for(endpoint),
            connector=connector,
        )
        self._websockets: WebSocketConnector | None = None
        self._tls_of: tuple[bytes, bytes] | None = None

    async def send(self, request: Request) -> Response:
        credential = await self._credential()
        response = await self._send(request, credential)
        if response.status == 401 and self._endpoint.credentials.reject(credential):
            response = await self._send(request, await self._credential())
        if response.status == 401:
            raise tls.response_error(self._endpoint, response, request)
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        credential = await self._credential()
        message = self._message(request, credential)
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(_timeout(request)):
                    connection = await stack.enter_async_context(self._pool.stream(message))
            except OSError as error:
                raise self._explain(error) from error
            if connection.status >= 300:
                if connection.status == 401:  # the caller opens the next stream with a new one
                    self._endpoint.credentials.reject(credential)
                raise await self._error_of(request, connection)
            yield self._body(connection)

    @asynccontextmanager
    async def websocket(
        self, request: Request, protocols: Sequence[str]
    ) -> AsyncIterator[WebSocket]:
        # Imported here because it loads aiohttp, which most processes do not need.
        from muster.kube.streams.websocket import WebSocketConnector

        if self._websockets is None:
            self._websockets = WebSocketConnector(self._endpoint, self._user_agent)
        credential = await self._credential()
        async with self._websockets.connect(request, protocols, credential) as socket:
            yield socket

    async def close(self) -> None:
        await self._pool.close()
        if self._websockets is not None:
            await self._websockets.close()

    async def _send(self, request: Request, credential: Credential) -> Response:
        message = self._message(request, credential)
        try:
            async with asyncio.timeout(_timeout(request)):
                return await self._pool.exchange(message)
        except OSError as error:
            raise self._explain(error) from error

    async def _credential(self) -> Credential:
        source = self._endpoint.credentials
        # An exec plugin may run for seconds, and the event loop must not wait for it.
        credential = source.get() if source.is_ready() else await asyncio.to_thread(source.get)
        if self._tls_of != credential[1:]:
            self._pool.set_tls_context(tls.client_context(self._endpoint, credential))
            self._tls_of = credential[1:]
        return credential

    def _message(self, request: Request, credential: Credential) -> EncodedRequest:
        data = request.message(self._base, self._user_agent, credential.authorization)
        return EncodedRequest(data, request.method in IDEMPOTENT_METHODS)

    async def _error_of(self, request: Request, connection: Connection) -> MusterError:
        try:
            async with asyncio.timeout(TIMEOUT):
                body = b"".join([chunk async for chunk in connection.body()])
        except OSError as error:
            return self._explain(error)
        response = Response(connection.status, connection.headers, body)
        return tls.response_error(self._endpoint, response, request)

    async def _body(self, connection: Connection) -> AsyncIterator[bytes]:
        try:
            async for chunk in connection.body():
                yield chunk
        except OSError as error:
            raise self._explain(error) from error

    def _explain(self, error: OSError) -> MusterError:
        if isinstance(error, ConnectionClosed):
            return tls.closed_connection_error(self._endpoint)
        return tls.connect_error(self._endpoint, error)


def _timeout(request: Request) -> float | None:
    return TIMEOUT if request.timeout is None else request.timeout or None
