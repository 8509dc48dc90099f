"""The `Transport` protocol, and its implementation over HTTP/1.1.

`Client` holds a `Transport`, so tests can hold a scripted one. Every failure of the network is
raised as Unreachable or UntrustedCertificate; a 401 renews a credential that can be renewed, once.

`Client` bounds the number of requests in flight, not the transport: a watch or a followed log holds
its connection for hours and must not use up the share of short requests.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from kubekit.client.request import Request, Response
from kubekit.client.transport import tls
from kubekit.client.transport.connection import ConnectionClosed
from kubekit.client.transport.connection_pool import ConnectionPool, EncodedRequest
from kubekit.client.transport.content_encoding import BodyTooLarge, compresses
from kubekit.client.transport.proxy import proxy_for
from kubekit.request_errors import Unauthorized, UntrustedCertificate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from kubekit.client.auth.credentials import Credential
    from kubekit.client.auth.endpoint import Endpoint
    from kubekit.client.streams.websocket import WebSocket, WebSocketConnector
    from kubekit.client.transport.connection import Connection
    from kubekit.client.transport.connection_pool import Connector
    from kubekit.errors import MusterError

T = TypeVar("T")
TIMEOUT = 60.0  # of silence, not of the whole response: a link may be slow
LONGEST_ERROR = 4 << 20
IDEMPOTENT_METHODS = frozenset(("GET", "PUT", "DELETE"))


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
        self._endpoint, self._user_agent = endpoint, user_agent
        self._compress = compresses(endpoint)
        self.proxy = None if connector else proxy_for(endpoint)
        self._pool = ConnectionPool(
            endpoint.url, server_name=endpoint.server_name, proxy=self.proxy, connector=connector
        )
        self._websockets: WebSocketConnector | None = None
        self._tls = tls.ClientContext(endpoint)

    async def send(self, request: Request) -> Response:
        return await self._renewing(partial(self._send, request))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        async with AsyncExitStack() as stack:
            connection = await self._renewing(partial(self._open_stream, stack, request))
            yield self._body(connection, request)

    @asynccontextmanager
    async def websocket(
        self, request: Request, protocols: Sequence[str]
    ) -> AsyncIterator[WebSocket]:
        # Imported here because it loads aiohttp, which most processes do not need.
        from kubekit.client.streams.websocket import WebSocketConnector

        if self._websockets is None:
            self._websockets = WebSocketConnector(self._endpoint, self._user_agent, self.proxy)
        connect = partial(self._websockets.connect, request, protocols)
        async with AsyncExitStack() as stack:
            yield await self._renewing(lambda held: stack.enter_async_context(connect(held)))

    async def close(self) -> None:
        await self._pool.close()
        if self._websockets is not None:
            await self._websockets.close()

    async def _renewing(self, attempt: Callable[[Credential], Awaitable[T]]) -> T:
        """Attempt a call, and once more with newer credentials if the first are rejected.

        Neither rejection has done anything: a 401 was not acted upon, and before a certificate is
        trusted no request is sent.
        """
        source = self._endpoint.credentials
        credential = await self._credential()
        try:
            return await attempt(credential)
        except Unauthorized:
            if not source.reject(credential):
                raise
        except UntrustedCertificate:
            if not source.reread():
                raise
        return await attempt(await self._credential())

    async def _send(self, request: Request, credential: Credential) -> Response:
        message = self._message(request, credential, request.timeout)
        try:
            response = await self._pool.exchange(message)
        except BodyTooLarge as error:
            if not (request.large and self._compress):
                raise self._explain(error) from error
            return await self._send(request._replace(large=False), credential)
        except OSError as error:
            raise self._explain(error) from error
        if response.status == 401:
            raise tls.response_error(self._endpoint, response, request)
        return response

    async def _open_stream(
        self, stack: AsyncExitStack, request: Request, credential: Credential
    ) -> Connection:
        """Send a request and read the head of its response; an error response is raised."""
        # The head comes at once, even where the body may be silent for hours.
        message = self._message(request, credential, min(request.timeout or TIMEOUT, TIMEOUT))
        try:
            connection = await stack.enter_async_context(self._pool.stream(message))
        except OSError as error:
            raise self._explain(error) from error
        if connection.status >= 300:
            problem = await self._error_of(request, connection)
            await stack.aclose()
            raise problem
        return connection

    async def _credential(self) -> Credential:
        source = self._endpoint.credentials
        # An exec plugin may run for seconds, and the event loop must not wait for it.
        credential = source.get() if source.is_ready() else await asyncio.to_thread(source.get)
        self._pool.set_tls_context(self._tls.update(credential))
        return credential

    def _message(
        self, request: Request, credential: Credential, silence: float | None
    ) -> EncodedRequest:
        url, user_agent = self._endpoint.url, self._user_agent
        data = request.message(url, user_agent, credential.authorization, compress=self._compress)
        return EncodedRequest(data, request.method in IDEMPOTENT_METHODS, _silence(silence))

    async def _error_of(self, request: Request, connection: Connection) -> MusterError:
        body = b""
        try:
            async for chunk in connection.body(TIMEOUT):
                body += chunk
                if len(body) > LONGEST_ERROR:
                    break  # no Status is that long: the page of a proxy
        except OSError as error:
            return self._explain(error)
        response = Response(connection.status, connection.headers, body)
        return tls.response_error(self._endpoint, response, request)

    async def _body(self, connection: Connection, request: Request) -> AsyncIterator[bytes]:
        try:
            async for chunk in connection.body(_silence(request.timeout)):
                yield chunk
        except OSError as error:
            raise self._explain(error) from error

    def _explain(self, error: OSError) -> MusterError:
        if isinstance(error, ConnectionClosed):
            return tls.closed_connection_error(self._endpoint)
        return tls.connect_error(self._endpoint, error)


def _silence(timeout: float | None) -> float | None:
    return TIMEOUT if timeout is None else timeout or None
