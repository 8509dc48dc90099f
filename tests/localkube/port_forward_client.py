"""The client's side of a port-forward: TCP connections to a pod through the API server.

All connections share one websocket, as SPDY streams. A slow connection does not lose the bytes of
another, and an error of the node (nothing listens on the port) is raised by the connection it
concerns.
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from kubekit.client import request
from kubekit.errors import single_error
from kubekit.request_errors import Unreachable
from localkube.apiserver.streams.spdy import (
    PROTOCOL,
    Data,
    Ended,
    Mux,
    Opened,
    Reply,
    Reset,
    SpdyEvent,
    control,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from kubekit.client.client import Client
    from kubekit.client.streams.websocket import WebSocket
    from kubekit.objects.meta import Key

OPEN_TIMEOUT = 30.0
_SYN_STREAM = 1


class ClientMux(Mux):
    """The client's end of a connection."""

    PEER_PINGS = 0

    def __init__(self) -> None:
        super().__init__()
        self._next = 1
        self._headers = zlib.compressobj()

    def open(self, headers: Mapping[str, str], *, last: bool = False) -> tuple[int, bytes]:
        """A new stream's number and the frame that opens it; `last` if the client sends nothing."""
        stream, self._next = self._next, self._next + 2  # the client's streams have odd numbers
        block = struct.pack(">I", len(headers))
        for name, value in headers.items():
            for text in (name.lower().encode(), value.encode()):
                block += struct.pack(">I", len(text)) + text
        packed = self._headers.compress(block) + self._headers.flush(zlib.Z_SYNC_FLUSH)
        body = struct.pack(">IIBB", stream, 0, 0, 0) + packed
        return stream, control(_SYN_STREAM, int(last), body)


@asynccontextmanager
async def forward_port(client: Client, pod: Key, port: int) -> AsyncIterator[PortForward]:
    """TCP connections to a pod's port: `connection = await forward.connect()`."""
    call = request.websocket_upgrade(pod, "portforward", (("ports", str(port)),))
    async with client.transport.websocket(call, (PROTOCOL,)) as socket:
        forward = PortForward(socket, port)
        try:
            async with asyncio.TaskGroup() as group:
                pump = group.create_task(forward.run())
                yield forward
                pump.cancel()
        except BaseExceptionGroup as group_error:
            # The pump raises nothing: the error in the group is the caller's own.
            raise single_error(group_error) from None


class ForwardedConnection:
    """One TCP connection to the pod."""

    def __init__(self, forward: PortForward) -> None:
        self._forward = forward
        self.stream = 0
        self._arrived: asyncio.Queue[bytes] = asyncio.Queue()
        self._error = ""

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""
        data = await self._arrived.get()
        if not data:
            self._arrived.put_nowait(b"")  # so that the next read returns at once too
            if self._error:
                raise Unreachable(self._error)
        return data

    async def write(self, data: bytes) -> None:
        await self._forward.send(self.stream, data)

    async def close_write(self) -> None:
        """Close the sending direction."""
        await self._forward.send(self.stream, b"", last=True)

    def arrived(self, data: bytes) -> None:
        self._arrived.put_nowait(data)

    def end(self, error: str = "") -> None:
        self._error = self._error or error
        self._arrived.put_nowait(b"")


class PortForward:
    """A websocket to one port of one pod, shared by any number of connections.

    `run` hands arriving data to the connections until the websocket ends; `forward_port`
    runs it.
    """

    def __init__(self, socket: WebSocket, port: int) -> None:
        self._socket, self._port = socket, port
        self._mux = ClientMux()
        self._requests = 0
        self._connections: dict[int, ForwardedConnection] = {}
        self._errors: dict[int, ForwardedConnection] = {}
        self._opening: dict[int, asyncio.Future[None]] = {}
        self._sending = asyncio.Lock()

    async def connect(self) -> ForwardedConnection:
        """Open a connection; whether the pod accepts it shows on the first read."""
        headers = {"port": str(self._port), "requestid": str(self._requests)}
        self._requests += 1
        connection = ForwardedConnection(self)
        # Two streams per connection, in the order in which kubectl opens them.
        await self._open({**headers, "streamtype": "error"}, connection, self._errors)
        connection.stream = await self._open(
            {**headers, "streamtype": "data"}, connection, self._connections
        )
        return connection

    async def _open(
        self,
        headers: dict[str, str],
        connection: ForwardedConnection,
        streams: dict[int, ForwardedConnection],
    ) -> int:
        """Open a stream, registered before its first bytes can arrive."""
        async with self._sending:  # the order of streams must be the order of their frames
            stream, frame = self._mux.open(headers, last=streams is self._errors)
            opened = self._opening[stream] = asyncio.get_running_loop().create_future()
            streams[stream] = connection
            await self._socket.send(frame)
        try:
            async with asyncio.timeout(OPEN_TIMEOUT):
                await opened
        except TimeoutError as error:
            raise Unreachable("the node does not respond") from error
        finally:
            del self._opening[stream]
        return stream

    async def send(self, stream: int, data: bytes, *, last: bool = False) -> None:
        async with self._sending:
            await self._socket.send(self._mux.data(stream, data, last=last))

    async def run(self) -> None:
        reason = "the connection to the cluster ended"
        try:
            while (message := await self._socket.receive()) is not None:
                for event in self._mux.feed(message):
                    if isinstance(event, Reply):
                        await self._socket.send(event.payload)
                    elif isinstance(event, Ended):
                        raise Unreachable("the server ended the port-forward")
                    else:
                        self._handle(event)
        except Unreachable as error:
            reason = str(error)
        finally:
            for connection in self._connections.values():
                connection.end(reason)
            for opening in self._opening.values():
                if not opening.done():
                    opening.set_exception(Unreachable(reason))

    def _handle(self, event: SpdyEvent) -> None:
        if not isinstance(event, Data | Opened | Reset):
            return
        opening = self._opening.get(event.stream)
        if opening is not None and not opening.done():
            if isinstance(event, Opened):
                opening.set_result(None)
            elif isinstance(event, Reset):
                opening.set_exception(Unreachable("the node rejected the connection"))
        if not isinstance(event, Opened):
            self._deliver(event)

    def _deliver(self, event: Data | Reset) -> None:
        if failing := self._errors.get(event.stream):
            if isinstance(event, Data) and event.payload:
                failing.end(event.payload.decode("utf-8", "replace"))
            if isinstance(event, Reset) or event.last:
                del self._errors[event.stream]
            return
        connection = self._connections.get(event.stream)
        if connection is None:
            return
        if isinstance(event, Data):
            if event.payload:
                connection.arrived(event.payload)
            if not event.last:
                return
        del self._connections[event.stream]
        connection.end("" if isinstance(event, Data) else "the pod closed the connection")
