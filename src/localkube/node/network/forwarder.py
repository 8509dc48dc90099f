"""Forwards connections in this process: bytes of a client to a server, and back."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from kubekit.serving.acceptor import Acceptor
from kubekit.telemetry.unexpected_errors import RepeatedLine
from localkube.node_interface import CannotRun

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

    from localkube.node.descriptors import Descriptors

    Connect = Callable[[], Awaitable[socket.socket]]

_BLOCK = 64 * 1024
_CONNECT_TIMEOUT = 5.0
_refused = RepeatedLine(logging.getLogger(__name__), logging.WARNING)


class Forwarder:
    """The connections that are forwarded now."""

    def __init__(self, descriptors: Descriptors) -> None:
        self._descriptors = descriptors
        self._tasks: set[asyncio.Task[None]] = set()

    def listen(self, sock: socket.socket, name: str, connect: Connect) -> Acceptor:
        """Forward each connection of a listening socket to the server that `connect` reaches."""

        def serve(client: socket.socket) -> None:
            self._serve(client, name, connect)

        def refuse(error: OSError) -> bool:
            """No connection is closed for a new one."""
            _refused.log("%s cannot accept connections: %s", name, error.strerror)
            return False

        return Acceptor(sock, serve, refuse)

    async def close(self) -> None:
        """End all connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _serve(self, client: socket.socket, name: str, connect: Connect) -> None:
        """Forward a connection, or close it if there are no descriptors for it."""
        if not self._descriptors.has_room(2):
            _refused.log("%s refuses connections: the daemon has no descriptors", name)
            client.close()
            return
        forward = _forward(client, connect)
        task = asyncio.get_running_loop().create_task(forward)  # owner: this, until it is closed
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _forward(client: socket.socket, connect: Connect) -> None:
    """Forward one connection until both sides are closed."""
    try:
        reader, writer = await asyncio.open_connection(sock=client)
    except OSError:  # the client has disconnected
        client.close()
        return
    with contextlib.closing(writer), contextlib.suppress(OSError, CannotRun, TimeoutError):
        async with asyncio.timeout(_CONNECT_TIMEOUT):
            server_reader, server_writer = await asyncio.open_connection(sock=await connect())
        with contextlib.closing(server_writer):
            async with asyncio.TaskGroup() as group:
                group.create_task(_copy(reader, server_writer))
                group.create_task(_copy(server_reader, writer))


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Copy bytes until the source ends; an error closes the connection."""
    try:
        while data := await source.read(_BLOCK):
            sink.write(data)
            await sink.drain()
        sink.write_eof()  # only this direction ends: the other side may still send
    except OSError:
        sink.close()
