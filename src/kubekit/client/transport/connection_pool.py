"""The connections to one server: opened when none is idle, kept while they can be used again.

A request over a connection that turns out to be closed is sent again on a new one if it is a GET,
PUT or DELETE, which mean the same twice; no other request is.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from kubekit.client.transport.connection import Connection, ConnectionClosed
from kubekit.client.transport.tls import enable_keepalive

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable

    from kubekit.client.request import Response
    from kubekit.client.transport.proxy import Proxy

    Connector = Callable[[asyncio.Protocol], None]

CONNECT_TIMEOUT = 10.0
# kube-apiserver closes an idle connection after 90 seconds. Older ones are not worth the try.
IDLE_SECONDS = 60.0


class EncodedRequest(NamedTuple):
    """The bytes of a request, whether they may be sent twice, and the silence allowed after it."""

    data: bytes
    idempotent: bool
    silence: float | None = None


class ConnectionPool:
    """Connections to the server at `url`, perhaps through a proxy.

    A `connector` connects a protocol to a server in the same process instead.
    """

    def __init__(
        self,
        url: str,
        *,
        server_name: str = "",
        proxy: Proxy | None = None,
        connector: Connector | None = None,
    ) -> None:
        parts = urlsplit(url)
        self._secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._secure else 80)
        self._server_name = server_name or self._host
        self._proxy = proxy
        self._connector = connector
        self._tls: ssl.SSLContext | None = None
        self._idle: list[tuple[float, Connection]] = []
        self._all: set[Connection] = set()

    def set_tls_context(self, tls: ssl.SSLContext | None) -> None:
        """Use this context for new connections; close idle connections of another context."""
        if tls is not self._tls:
            self._tls = tls
            for _, connection in self._idle:
                connection.abort()
            self._idle.clear()

    async def exchange(self, message: EncodedRequest) -> Response:
        """Send a request and read the whole response."""
        connection = self._take_idle()
        # The server may close an idle connection while a request is on its way. Only an idempotent
        # request is then sent again: nobody knows whether the server has read the first one.
        if connection is not None and message.idempotent:
            try:
                return await self._exchange(connection, message)
            except ConnectionClosed as stale:
                if stale.answered:
                    raise
                connection = None
        return await self._exchange(connection or await self._open(), message)

    @asynccontextmanager
    async def stream(self, message: EncodedRequest) -> AsyncIterator[Connection]:
        """Send a request and read the head of the response; only the block uses the connection."""
        connection = self._take_idle()
        try:
            if connection is not None:
                try:
                    await connection.send(message.data, message.silence)
                except ConnectionClosed as stale:
                    if stale.answered or not message.idempotent:
                        raise
                    connection = None
            if connection is None:
                connection = await self._open()
                await connection.send(message.data, message.silence)
            yield connection
        finally:
            if connection is not None:
                self._return(connection)

    async def close(self) -> None:
        """Close all connections and wait until they are closed."""
        closing = list(self._all)
        for connection in closing:
            connection.abort()
        await asyncio.gather(*(connection.closed for connection in closing))

    async def _exchange(self, connection: Connection, message: EncodedRequest) -> Response:
        try:
            return await connection.exchange(message.data, message.silence)
        finally:
            self._return(connection)

    def _take_idle(self) -> Connection | None:
        oldest = asyncio.get_running_loop().time() - IDLE_SECONDS
        while self._idle:
            # The last one returned first: the server is least likely to have closed it.
            since, connection = self._idle.pop()
            if connection.reusable and since > oldest:
                return connection
            connection.abort()
        return None

    def _return(self, connection: Connection) -> None:
        if connection.reusable:
            self._idle.append((asyncio.get_running_loop().time(), connection))
        else:
            connection.abort()

    # Opening

    async def _open(self) -> Connection:
        proxy = self._proxy
        connection = await (self._open_tunnel(proxy) if proxy else self._open_direct())
        self._all.add(connection)
        connection.closed.add_done_callback(lambda _: self._all.discard(connection))
        return connection

    async def _open_direct(self) -> Connection:
        connection = Connection()
        if self._connector is not None:
            self._connector(connection)
            return connection
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                transport, _ = await asyncio.get_running_loop().create_connection(
                    lambda: connection,
                    self._host,
                    self._port,
                    ssl=self._tls,
                    server_hostname=self._server_name if self._tls else None,
                )
        except BaseException:
            # asyncio says goodbye to the server and waits for its answer.
            if connection.was_made:
                connection.abort()
            raise
        enable_keepalive(transport.get_extra_info("socket"))
        return connection

    async def _open_tunnel(self, proxy: Proxy) -> Connection:
        from kubekit.client.transport.tunnel import Destination, open_tunnel

        connection = Connection()
        destination = Destination(self._host, self._port, self._tls, self._server_name)
        await open_tunnel(proxy, destination, connection)
        return connection
