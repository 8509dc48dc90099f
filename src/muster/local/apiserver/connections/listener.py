"""Accepts connections: knows the peer of each from its first moment, and survives a lack of
descriptors.

The event loop's own server is not used: uvloop closes a listening socket for ever when `accept`
fails, and neither it nor asyncio shows a connection before its TLS handshake is complete.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from muster.local.apiserver.connections.http_connection import ClientSocket, HttpConnection
from muster.telemetry.log_bounds import RepeatedLine

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from io import FileIO

    from aiohttp import web

    from muster.local.apiserver.connections.limits import Connections
    from muster.local.apiserver.connections.peer import Peer

HANDSHAKE_SECONDS = 10.0
_SHUTDOWN_SECONDS = 5.0
_BACKLOG = 1024
_AT_ONCE = 32
"""Connections accepted before other work gets its turn."""
_PAUSE = 0.1
"""Seconds without `accept` while there is no descriptor."""
_LACKING = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
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
        tls: ssl.SSLContext,
        server: web.Server,
        connections: Connections,
        peer_of: Callable[[socket.socket], Peer],
    ) -> None:
        sock.setblocking(False)
        self._socket, self._tls, self._server = sock, tls, server
        self._connections, self._peer_of = connections, peer_of
        self._loop = asyncio.get_running_loop()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._resume: asyncio.TimerHandle | None = None
        self._spare = _open_spare()
        self._loop.add_reader(sock, self._accept)

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    async def close(self) -> None:
        """Stop to accept, and end the handshakes under way."""
        if self._resume is not None:
            self._resume.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._spare.close()
        for task in self._handshakes:
            task.cancel()
        await asyncio.gather(*self._handshakes, return_exceptions=True)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                sock, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _LACKING:
                    self._make_room(error)
                    return
                continue  # the client disconnected before it was accepted
            self._serve(sock)

    def _serve(self, sock: socket.socket) -> None:
        sock.setblocking(False)
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
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
            )
        except BaseException as error:
            self._connections.leave(client)
            sock.close()
            if not isinstance(error, OSError):  # not a client's fault
                raise

    def _make_room(self, error: OSError) -> None:
        """Close a waiting connection or, without one, the new one; then accept again."""
        _no_descriptors.log("the API cannot accept connections: %s", error.strerror)
        if not self._connections.drop_oldest():
            self._spare.close()
            with suppress(OSError):  # the client disconnected, or a thread took the descriptor
                self._socket.accept()[0].close()
            with suppress(OSError):
                self._spare = _open_spare()
        self._loop.remove_reader(self._socket)
        self._resume = self._loop.call_later(_PAUSE, self._accept_again)

    def _accept_again(self) -> None:
        self._loop.add_reader(self._socket, self._accept)


def _open_spare() -> FileIO:
    """A descriptor that is given up for a moment to close a connection when there is no other."""
    return open(os.devnull, "rb", buffering=0)
