"""All listening sockets of a process, with one set of limits.

The dashboard of a local cluster is one of them: its connections have a place among those of the
API, so whoever floods one of the two ports takes nothing from the other users of both.
"""

from __future__ import annotations

import asyncio
import resource
from typing import TYPE_CHECKING

from kubekit.serving import in_process, listener
from kubekit.serving.http_connection import ClientSocket, HttpConnection
from kubekit.serving.limits import Connections, Limits
from kubekit.serving.peer import Peer, PeerFinder

if TYPE_CHECKING:
    import socket
    import ssl

    from aiohttp import web


_UNBOUNDED = 1 << 30
_OWN = Peer("the local cluster itself", owner=True)


class Doors:
    """Use inside an event loop; `runner` is set up."""

    def __init__(self, runner: web.AppRunner, tls: ssl.SSLContext) -> None:
        assert runner.server is not None
        self._server, self._tls = runner.server, tls
        self.connections = _connections()
        # Connections inside the daemon need no descriptor, so nobody else's limits concern them.
        self._own_connections = Connections(Limits(waiting=_UNBOUNDED, authenticated=_UNBOUNDED))
        self._finder = PeerFinder()
        self._listeners: list[listener.Listener] = []

    def listen(self, address: str, port: int) -> int:
        """Listen at an address; returns the port, a free one for port 0."""
        sock = listener.open_socket(address, port)
        self._listeners.append(
            listener.Listener(sock, self._tls, self._server, self.connections, self._finder.find)
        )
        return self._listeners[-1].port

    def accept_from(self, sock: socket.socket) -> None:
        """Serve a listening socket that the caller has opened in the pods' network."""
        # The kernel would look for the client's socket in our own network.
        self._listeners.append(
            listener.Listener(sock, self._tls, self._server, self.connections, _by_address)
        )

    def serve(self, sock: socket.socket, server: web.Server) -> listener.Listener:
        """Serve another server of this process, without TLS, under the same limits."""
        return listener.Listener(sock, None, server, self.connections, self._finder.find)

    def connect(self, protocol: asyncio.Protocol) -> None:
        """Connect a client in this process; its requests need a token like all others."""
        client, loop = ClientSocket(None, _OWN), asyncio.get_running_loop()
        self._own_connections.enter(client)
        handler = HttpConnection(self._server, client, self._own_connections, loop)
        in_process.connect(protocol, handler)

    async def close(self) -> None:
        await asyncio.gather(*(each.close() for each in self._listeners))
        self._finder.close()


class PlainDoor:
    """A server without TLS in a process that has no API server."""

    def __init__(self, sock: socket.socket, server: web.Server) -> None:
        self._finder = PeerFinder()
        self._listener = listener.Listener(sock, None, server, _connections(), self._finder.find)

    async def close(self) -> None:
        await self._listener.close()
        self._finder.close()


def _connections() -> Connections:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Connections(Limits.for_descriptors(soft))


def _by_address(sock: socket.socket) -> Peer:
    try:
        return Peer(str(sock.getpeername()[0]))
    except OSError:  # it has disconnected already
        return Peer("")
