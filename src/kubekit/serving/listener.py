"""Accepts connections, and knows the peer of each from its first moment.

The servers of uvloop and asyncio show a connection only when its TLS handshake is complete.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING

from kubekit.serving.acceptor import Acceptor
from kubekit.serving.http_connection import ClientSocket, HttpConnection
from kubekit.telemetry.log_bounds import RepeatedLine

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from aiohttp import web

    from kubekit.serving.limits import Connections
    from kubekit.serving.peer import Peer

HANDSHAKE_SECONDS = 10.0
_SHUTDOWN_SECONDS = 5.0
_BACKLOG = 1024
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
    ) -> None:
        self._tls, self._server = tls, server
        self._connections, self._peer_of = connections, peer_of
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
