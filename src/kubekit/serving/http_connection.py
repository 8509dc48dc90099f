"""One HTTP connection of the API server, bounded in time and memory.

aiohttp reads the requests; this class watches it. The line and headers of a request must arrive
within `HEADER_SECONDS` and `HEADER_BYTES`, and a client without a valid token must send a request
at least that often. The body of a request is read only when its token is valid; without one, the
connection is closed after the answer. Malformed requests cost one line of log every few seconds,
however many come.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import WriteTransport
from contextlib import asynccontextmanager, suppress
from socket import SHUT_RDWR, SO_RCVBUF, SOL_SOCKET
from typing import TYPE_CHECKING, Any

from aiohttp import web
from aiohttp.streams import EMPTY_PAYLOAD

from kubekit.request_errors import StatusError
from kubekit.serving.connection_limits import CHUNKED_BYTES, HEADER_BYTES
from kubekit.telemetry.unexpected_errors import RepeatedLine

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Callable

    from aiohttp.web_request import BaseRequest

    from kubekit.serving.connection_limits import Connections
    from kubekit.serving.peer import Peer

HEADER_SECONDS = 10.0
_ANSWER_SECONDS = 1.0
"""For a client without a valid token to read the answer while its body is not read."""
_LINGERING_SECONDS = 10.0
"""How long the rest of a body is read that the answer did not wait for."""
_WAITING_BUFFER, _BUFFER = 32 * 1024, 1024 * 1024
"""Bytes that the kernel keeps for a connection. We read them at once, into several buffers."""
_MAX_PIPELINED = 4
"""Requests that a client without a valid token may send ahead of the answers."""
_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"Content-Length: 0\r\nConnection: close\r\n\r\n"
)
_log = logging.getLogger(__name__)
_malformed, _large = (RepeatedLine(_log, logging.WARNING) for _ in range(2))


class ClientSocket:
    """An accepted socket, from its first moment to its end; None for a client in this process."""

    def __init__(self, sock: socket.socket | None, peer: Peer) -> None:
        self.peer = peer
        self.header_bytes = 0
        self._socket = sock
        self.transport: asyncio.BaseTransport | None = None
        """From the end of the TLS handshake."""
        self._set_buffer(_WAITING_BUFFER)

    def authenticated(self) -> None:
        """Its requests may be large."""
        self._set_buffer(_BUFFER)

    def _set_buffer(self, size: int) -> None:
        if self._socket is not None:
            with suppress(OSError):  # the client has disconnected
                self._socket.setsockopt(SOL_SOCKET, SO_RCVBUF, size)

    def drop(self) -> None:
        """Close at once.

        During a TLS handshake there is no transport yet that could be closed: the event loop finds
        the end of the stream.
        """
        if isinstance(self.transport, WriteTransport):
            self.transport.abort()
        if self._socket is not None:
            with suppress(OSError):  # the client was faster
                self._socket.shutdown(SHUT_RDWR)


class HttpConnection(web.RequestHandler):
    """The protocol of one connection, from the end of its TLS handshake."""

    def __init__(
        self,
        server: web.Server,
        client: ClientSocket,
        connections: Connections,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type] # as AppRunner passes it
            max_line_size=HEADER_BYTES,
            max_field_size=HEADER_BYTES,
            lingering_time=0,
        )
        self._client, self._connections = client, connections
        self._authenticated = False
        self._awaits_token = False
        """Whether nothing is read until the request turns out to have a valid token."""
        self._body = EMPTY_PAYLOAD
        """The body of the newest request: until its end, no other request begins."""
        self._chunked = False
        """Whether that body is sent in chunks, whose lines aiohttp reads without a limit."""
        self._body_received = 0
        self._headers_received = 0
        self._last_progress = loop.time()
        """When the connection began, the last headers were complete, or new headers began."""
        self._timer: asyncio.TimerHandle | None = None
        self.on_lost: Callable[[], None] | None = None
        """Called when the connection ends, for an answer that would not notice it."""

    @property
    def peer_uid(self) -> int | None:
        """The user of this machine at the other end; None if it is not known."""
        return self._client.peer.uid

    def authenticate(self) -> bool:
        """A request has a valid token; False if there are too many connections already."""
        if not self._authenticated and self._connections.authenticate(self._client):
            self._authenticated = True
            self._client.authenticated()
            self._lingering_time = _LINGERING_SECONDS
            if self._awaits_token:
                self.resume_reading()
        return self._authenticated

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._client.transport = transport
        self._timer = self._loop.call_later(HEADER_SECONDS, self._check_progress)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._connections.leave(self._client)
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)
        if self.on_lost is not None:
            self.on_lost()
        # Without cycles the buffers are freed now; Python looks for cycles only now and then.
        self._body, self._client.transport, self._timer = EMPTY_PAYLOAD, None, None

    def eof_received(self) -> None:
        """The client has closed its side: TLS has no other end than that of both sides.

        asyncio would wait until the client has read what was written, and until then drop, and log,
        all that a stream writes as fast as it can.
        """
        self._loop.call_soon(self._client.drop)

    def data_received(self, data: bytes) -> None:
        headers = self._payload_parser is None and not self._upgraded and self._body.is_eof()
        requests = self._request_count
        super().data_received(data)
        if self._request_count != requests:
            self._headers_complete()
        elif headers and data:
            self._headers_grew(len(data))
        elif self._chunked and not self._body.is_eof():
            self._body_received += len(data)
            if self._body_received > CHUNKED_BYTES:
                _large.log("an endless body from %s", self._client.peer.name)
                self._client.drop()

    def close(self) -> None:
        """The last answer is written, and the rest of its request is not wanted."""
        super().close()
        if self._awaits_token and not self._authenticated:
            self._loop.call_later(_ANSWER_SECONDS, self._client.drop)

    def _headers_complete(self) -> None:
        self._body = self._messages[-1][1] if self._messages else EMPTY_PAYLOAD
        # A malformed request is an error in the place of its headers.
        self._chunked = bool(self._messages) and getattr(self._messages[-1][0], "chunked", False)
        self._body_received = self._headers_received = 0
        self._last_progress = self._loop.time()
        if not self._authenticated:
            self._connections.release_header_bytes(self._client)
            if len(self._messages) > _MAX_PIPELINED:
                self._client.drop()
            elif not self._body.is_eof() and not self._awaits_token:
                self._awaits_token = True
                self.pause_reading()

    def _headers_grew(self, count: int) -> None:
        if not self._headers_received:
            self._last_progress = self._loop.time()
        self._headers_received += count
        if self._timer is None:
            self._timer = self._loop.call_later(HEADER_SECONDS, self._check_progress)
        if not self._authenticated:
            self._connections.add_header_bytes(self._client, count)
        if self._headers_received > HEADER_BYTES:
            _large.log("too large headers from %s", self._client.peer.name)
            if self.transport is not None:
                self.transport.write(_TOO_LARGE)
            self.force_close()

    def _check_progress(self) -> None:
        """Close the connection if it is too slow; look again later if it could become so."""
        self._timer = None
        if self._authenticated and not self._headers_received:
            return
        left = self._last_progress + HEADER_SECONDS - self._loop.time()
        if left <= 0 and self._current_request is None:
            self._client.drop()
        else:
            left = max(left, HEADER_SECONDS / 10)
            self._timer = self._loop.call_later(left, self._check_progress)

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer a request that aiohttp could not read, and close the connection."""
        if isinstance(exc, UnicodeEncodeError):  # the answer names what is not UTF-8, as in Expect
            status = 400
        if status >= 500:
            return super().handle_error(request, status, exc, message)
        _malformed.log("malformed request from %s: %s", self._client.peer.name, _first_line(exc))
        response = web.Response(status=status, text=f"{status} malformed request\n")
        response.force_close()
        return response

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Log an error of aiohttp itself, which a client may be able to repeat, as one line."""
        error = kw.get("exc_info")
        reason = f": {type(error).__name__}: {_first_line(error)}" if error else ""
        _malformed.log("a request from %s failed%s", self._client.peer.name, reason)


@asynccontextmanager
async def while_connected(request: web.Request) -> AsyncIterator[None]:
    """Raise ConnectionResetError in the block as soon as the client disconnects.

    A stream with nothing to write would not notice it, and keep its files and tasks.
    """
    connection = request.protocol
    if not isinstance(connection, HttpConnection):
        yield
        return
    if connection.transport is None:
        raise ConnectionResetError("the client has disconnected")
    loop = asyncio.get_running_loop()
    limit = asyncio.timeout(None)
    try:
        async with limit:
            connection.on_lost = lambda: limit.reschedule(loop.time())
            try:
                yield
            finally:
                connection.on_lost = None
    except TimeoutError:
        if not limit.expired():
            raise
        raise ConnectionResetError("the client has disconnected") from None


def check_room(request: web.Request) -> None:
    """The request is authenticated: keep its connection, or answer 429 if there are too many."""
    connection = request.protocol
    if isinstance(connection, HttpConnection) and not connection.authenticate():
        raise StatusError(
            "the server has too many connections; try again in a moment",
            status=429,
            reason="TooManyRequests",
            details={"retryAfterSeconds": 1},
        )


def _first_line(error: object) -> str:
    """The beginning of an error's message: a client chooses its length."""
    return str(error).strip().partition("\n")[0].strip()[:200]
