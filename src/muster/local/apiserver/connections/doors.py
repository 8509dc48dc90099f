"""All listening sockets of an API server, with one set of limits."""

from __future__ import annotations

import asyncio
import resource
from typing import TYPE_CHECKING

from muster.local.apiserver.connections import listener
from muster.local.apiserver.connections.limits import Connections, Limits
from muster.local.apiserver.connections.peer import Peer, PeerFinder

if TYPE_CHECKING:
    import socket
    import ssl

    from aiohttp import web


class Doors:
    """Use inside an event loop; `runner` is set up."""

    def __init__(self, runner: web.AppRunner, tls: ssl.SSLContext) -> None:
        assert runner.server is not None
        self._server, self._tls = runner.server, tls
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.connections = Connections(Limits.for_descriptors(soft))
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

    async def close(self) -> None:
        await asyncio.gather(*(each.close() for each in self._listeners))
        self._finder.close()


def _by_address(sock: socket.socket) -> Peer:
    try:
        return Peer(str(sock.getpeername()[0]))
    except OSError:  # it has disconnected already
        return Peer("")
