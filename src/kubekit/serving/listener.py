"""Accepts connections, from the network or inside the process, and knows the peer of each.

The servers of uvloop and asyncio show a connection only when its TLS handshake is complete. All
listening sockets of a process have one set of limits: the dashboard of a local cluster is one of
them, so whoever floods one of the two ports takes nothing from the other users of both.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
from collections import deque
from typing import TYPE_CHECKING, Any

from kubekit.serving.acceptor import Acceptor
from kubekit.serving.connection_limits import Connections, Limits
from kubekit.serving.http_connection import ClientSocket, HttpConnection
from kubekit.serving.peer import Peer, PeerFinder
from kubekit.telemetry.unexpected_errors import RepeatedLine

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from aiohttp import web

    Data = bytes | bytearray | memoryview

HANDSHAKE_SECONDS = 10.0
_SHUTDOWN_SECONDS = 5.0
_BACKLOG = 1024
_UNBOUNDED = 1 << 30
_OWN = Peer("the local cluster itself", owner=True)
_no_descriptors = RepeatedLine(logging.getLogger(__name__), logging.ERROR)


def open_socket(address: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, port), family=family, backlog=_BACKLOG)


class Listener:
    """Serves the connections of one listening socket."""

    def __init__(
        self,
        sock: socket.socket,
        tls: ssl.SSLContext | None,
        server: web.Server,
        connections: Connections,
        peer_of: Callable[[socket.socket], Peer],
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self._tls, self._server = tls, server
        self._connections, self._peer_of, self._on_close = connections, peer_of, on_close
        self._loop = asyncio.get_running_loop()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._acceptor = Acceptor(sock, self._serve, self._make_room)

    @property
    def port(self) -> int:
        return self._acceptor.port

    async def close(self) -> None:
        """Stop to accept, and end the handshakes under way."""
        self._acceptor.close()
        for task in self._handshakes:
            task.cancel()
        await asyncio.gather(*self._handshakes, return_exceptions=True)
        if self._on_close is not None:
            self._on_close()

    def _serve(self, sock: socket.socket) -> None:
        client = ClientSocket(sock, self._peer_of(sock))
        self._connections.enter(client)
        handshake = self._shake_hands(sock, client)
        task = self._loop.create_task(handshake)  # owner: the listener, until it is closed
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _shake_hands(self, sock: socket.socket, client: ClientSocket) -> None:
        protocol = HttpConnection(self._server, client, self._connections, self._loop)
        try:
            await self._loop.connect_accepted_socket(
                lambda: protocol,
                sock,
                ssl=self._tls,
                ssl_handshake_timeout=HANDSHAKE_SECONDS if self._tls else None,
                ssl_shutdown_timeout=_SHUTDOWN_SECONDS if self._tls else None,
            )
        except BaseException as error:
            self._connections.leave(client)
            sock.close()
            if not isinstance(error, OSError):  # not a client's fault
                raise

    def _make_room(self, error: OSError) -> bool:
        """Close a waiting connection; False if there is none."""
        _no_descriptors.log("port %s cannot accept connections: %s", self.port, error.strerror)
        return self._connections.drop_oldest()


class Listeners:
    """The listening sockets of a server with TLS, and those of other servers in its process."""

    def __init__(self, server: web.Server, tls: ssl.SSLContext) -> None:
        self._server, self._tls = server, tls
        self.connections = connections_of_process()
        # Connections inside the process need no descriptor, so nobody else's limits concern them.
        self._own_connections = Connections(Limits(waiting=_UNBOUNDED, authenticated=_UNBOUNDED))
        self._finder = PeerFinder()
        self._listeners: list[Listener] = []

    def listen(self, address: str, port: int) -> int:
        """Listen at an address; returns the port, a free one for port 0."""
        return self._add(open_socket(address, port), self._finder.find).port

    def accept_from(self, sock: socket.socket) -> None:
        """Serve a listening socket that the caller has opened in the pods' network."""
        # The kernel would look for the client's socket in our own network.
        self._add(sock, _by_address)

    def serve(self, sock: socket.socket, server: web.Server) -> Listener:
        """Serve another server of this process, without TLS, under the same limits."""
        return Listener(sock, None, server, self.connections, self._finder.find)

    def connect(self, protocol: asyncio.Protocol) -> None:
        """Connect a client in this process; its requests need a token like all others."""
        client, loop = ClientSocket(None, _OWN), asyncio.get_running_loop()
        self._own_connections.enter(client)
        handler = HttpConnection(self._server, client, self._own_connections, loop)
        connect_in_process(protocol, handler)

    async def close(self) -> None:
        await asyncio.gather(*(each.close() for each in self._listeners))
        self._finder.close()

    def _add(self, sock: socket.socket, peer_of: Callable[[socket.socket], Peer]) -> Listener:
        listener = Listener(sock, self._tls, self._server, self.connections, peer_of)
        self._listeners.append(listener)
        return listener


def serve_alone(sock: socket.socket, server: web.Server) -> Listener:
    """Serve a server without TLS in a process that has no other one."""
    finder = PeerFinder()
    return Listener(sock, None, server, connections_of_process(), finder.find, finder.close)


def connections_of_process() -> Connections:
    """No connections yet, with the limits that the descriptors of this process allow."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Connections(Limits.for_descriptors(soft))


def _by_address(sock: socket.socket) -> Peer:
    try:
        return Peer(str(sock.getpeername()[0]))
    except OSError:  # it has disconnected already
        return Peer("")


_HIGH, _LOW = 256 * 1024, 64 * 1024
"""Bytes on the way at which the writer has to stop, and may go on."""


def connect_in_process(ours: asyncio.Protocol, theirs: asyncio.Protocol) -> None:
    """Connect two protocols of the running event loop: bytes go through memory.

    The components of a local cluster have about ninety connections to the API server of their own
    process, most of them watches. As TCP connections they take two descriptors each, which pods
    then lack, and every byte is encrypted and decrypted. A component that has a connection here
    also keeps it when no descriptor is left.
    """
    one, other = _End(ours), _End(theirs)
    one.peer, other.peer = other, one
    theirs.connection_made(other)
    ours.connection_made(one)


class _End(asyncio.Transport):
    """One end of a connection; `_incoming` has the bytes that its protocol has not read yet.

    Bytes are delivered in a later turn of the event loop, and a side whose bytes are not read is
    asked to stop writing, as with a socket.
    """

    peer: _End

    def __init__(self, protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._protocol: Any = protocol
        self._incoming: deque[bytes] = deque()
        self._size = 0
        self._reading = True
        self._scheduled = False
        self._closing = self._peer_closed = self._lost = False
        self._writing_paused = False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    # Writing

    def write(self, data: Data) -> None:
        if data and not self._closing and not self.peer._closing:
            self.peer._receive(bytes(data))

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return self.peer._size

    # Reading

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._schedule()

    def _receive(self, data: bytes) -> None:
        self._incoming.append(data)
        self._size += len(data)
        if self._size > _HIGH and not self.peer._writing_paused:
            self.peer._writing_paused = True
            self.peer._protocol.pause_writing()
        self._schedule()

    def _schedule(self) -> None:
        # A protocol that does not read now notices the end of the connection, too.
        if not self._scheduled and (self._peer_closed or (self._reading and self._incoming)):
            self._scheduled = True
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._scheduled = False
        if self._closing or not (self._reading or self._peer_closed):
            return
        if self._incoming:
            data = self._incoming[0] if len(self._incoming) == 1 else b"".join(self._incoming)
            self._incoming.clear()
            self._size = 0
            try:
                self._protocol.data_received(data)
            except Exception as error:  # noqa: BLE001 - as asyncio does: only this connection ends
                context = {"message": "a connection inside the daemon failed", "exception": error}
                self._loop.call_exception_handler(context)
                self.abort()
                return
            self.peer._resume_writing()
        if self._peer_closed and not self._closing:
            self._protocol.eof_received()
            self.close()

    def _resume_writing(self) -> None:
        if self._writing_paused and self.peer._size <= _LOW:
            self._writing_paused = False
            self._protocol.resume_writing()

    # Closing

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        """Close after the peer has read what was written; bytes from the peer are dropped."""
        if not self._closing:
            self._close()
            self.peer._peer_closed = True
            self.peer._resume_writing()
            self.peer._schedule()

    def abort(self) -> None:
        """Close both ends at once."""
        for end in (self, self.peer):
            if not end._closing:
                end._close()

    def _close(self) -> None:
        self._closing = True
        self._incoming.clear()
        self._size = 0
        self._loop.call_soon(self._end)

    def _end(self) -> None:
        if not self._lost:
            self._lost = True
            self._protocol.connection_lost(None)
