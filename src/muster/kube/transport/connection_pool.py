"""The connections to one server: dialled when there is no idle one, kept while they are good.

Held by `transport.py`. Promises: over a connection that had gone stale GET, PUT and DELETE are
sent again, which mean the same twice, and nothing else is; a server that vanished without a word
is noticed within a minute, also by a silent watch; closing leaves nothing open.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from muster.kube.transport import proxy
from muster.kube.transport.connection import Connection, ConnectionClosed

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

    from muster.kube.request import Response

CONNECT_TIMEOUT = 10.0
IDLE_SECONDS = 60.0


class ConnectFailed(OSError):
    """No connection came about; the cause says why."""


class EncodedRequest(NamedTuple):
    """A request as it goes over the wire, and whether it may go twice."""

    data: bytes
    repeatable: bool


class ConnectionPool:
    """Connections to the server at `url`, perhaps through a proxy."""

    def __init__(self, url: str, *, server_name: str = "", via: str = "") -> None:
        parts = urlsplit(url)
        self._secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._secure else 80)
        self._server_name = server_name or self._host
        self._proxy = via
        self._tls: ssl.SSLContext | None = None
        self._idle: list[tuple[float, Connection]] = []
        self._all: set[Connection] = set()

    def trust(self, tls: ssl.SSLContext | None) -> None:
        """What new connections show and trust; idle ones that showed something else are ended."""
        if tls is not self._tls:
            self._tls = tls
            for _, connection in self._idle:
                connection.abort()
            self._idle.clear()

    async def whole(self, message: EncodedRequest) -> Response:
        """Send, and read the answer to its end."""
        connection = self._kept()
        if connection is not None and message.repeatable:
            try:
                return await self._whole(connection, message)
            except ConnectionClosed as stale:
                if stale.answered:
                    raise
                connection = None
        return await self._whole(connection or await self._dial(), message)

    @asynccontextmanager
    async def streamed(self, message: EncodedRequest) -> AsyncIterator[Connection]:
        """Send, and read the head of the answer; the connection is the block's."""
        connection = self._kept()
        try:
            if connection is not None:
                try:
                    await connection.head(message.data)
                except ConnectionClosed as stale:
                    if stale.answered or not message.repeatable:
                        raise
                    connection = None
            if connection is None:
                connection = await self._dial()
                await connection.head(message.data)
            yield connection
        finally:
            if connection is not None:
                self._keep(connection)

    async def close(self) -> None:
        """End all connections and wait until they are."""
        ending = list(self._all)
        for connection in ending:
            connection.abort()
        await asyncio.gather(*(connection.lost for connection in ending))

    async def _whole(self, connection: Connection, message: EncodedRequest) -> Response:
        try:
            return await connection.whole(message.data)
        finally:
            self._keep(connection)

    def _kept(self) -> Connection | None:
        oldest = asyncio.get_running_loop().time() - IDLE_SECONDS
        while self._idle:
            since, connection = self._idle.pop()
            if connection.reusable and since > oldest:
                return connection
            connection.abort()
        return None

    def _keep(self, connection: Connection) -> None:
        if connection.reusable:
            self._idle.append((asyncio.get_running_loop().time(), connection))
        else:
            connection.abort()

    # Dialling

    async def _dial(self) -> Connection:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                connection = await (self._tunnelled() if self._proxy else self._direct())
        except TimeoutError:
            raise
        except OSError as error:
            raise ConnectFailed(str(error)) from error
        self._all.add(connection)
        connection.lost.add_done_callback(lambda _: self._all.discard(connection))
        return connection

    async def _direct(self) -> Connection:
        transport, connection = await asyncio.get_running_loop().create_connection(
            Connection,
            self._host,
            self._port,
            ssl=self._tls,
            server_hostname=self._server_name if self._tls else None,
        )
        enable_keepalive(transport.get_extra_info("socket"))
        return connection

    async def _tunnelled(self) -> Connection:
        """Ask the proxy to connect us, then speak TLS through it, or plain HTTP."""
        loop, via = asyncio.get_running_loop(), urlsplit(self._proxy)
        secure = via.scheme == "https"
        transport, connection = await loop.create_connection(
            Connection,
            via.hostname or "",
            via.port or (443 if secure else 80),
            ssl=secure or None,
        )
        enable_keepalive(transport.get_extra_info("socket"))
        status = await connection.head(proxy.connect_request(self._proxy, self._host, self._port))
        if status != 200:
            transport.abort()
            raise ConnectionRefusedError(f"the proxy {via.hostname} answers {status}")
        through = Connection()
        if self._tls is None:
            transport.set_protocol(through)
            through.connection_made(transport)
            return through
        name = self._server_name
        inner = await loop.start_tls(transport, through, self._tls, server_hostname=name)
        through.connection_made(_made(inner))
        return through


def _made(transport: asyncio.Transport | None) -> asyncio.Transport:
    """The transport of a finished handshake; asyncio gives none if the peer left meanwhile."""
    if transport is None:
        raise ConnectionResetError("closed during the handshake")
    return transport


def enable_keepalive(made: socket.socket) -> None:
    """Let the system notice when the other side is gone."""
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
