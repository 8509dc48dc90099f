"""`kubectl port-forward`: TCP connections from a client to ports of a pod, in one websocket.

Clients speak one of two protocols. kubectl opens two SPDY streams per connection, for data and for
an error. The Python client (`v4.channel.k8s.io`) has one connection per port, with two channels.

Kept apart because most of it is the two protocols, which no other stream speaks.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiohttp import WSCloseCode, WSMsgType, web

from kubekit.client.streams.exec_session import V4
from kubekit.errors import MusterError
from kubekit.objects.annotation_values import read_integer
from localkube.apiserver import api_errors
from localkube.apiserver.streams.exec_websocket import check_upgrade, keep_open
from localkube.apiserver.streams.http_proxy import LAST_PORT
from localkube.apiserver.streams.spdy import (
    PROTOCOL as SPDY,
    Data,
    Ended,
    HeaderReader,
    Mux,
    Opening,
    Reply,
    Reset,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from socket import socket

    from kubekit.objects.meta import Raw
    from localkube.apiserver.streams.spdy import SpdyEvent
    from localkube.node_interface import NodeBackend

    Send = Callable[[bytes], Awaitable[None]]


_BLOCK = 64 * 1024
_WAITING = 64
"""Messages of a client that wait for a slow program; then the whole websocket waits."""


async def run(
    request: web.Request, backend: NodeBackend, pod: Raw, ports: Sequence[int]
) -> web.StreamResponse:
    """Serve one port-forward from upgrade to end."""
    websocket = web.WebSocketResponse(protocols=(SPDY, V4), max_msg_size=0)
    upgrade = check_upgrade(request, websocket)
    if upgrade.protocol != SPDY and not ports:
        raise api_errors.bad_request('query parameter "ports" is required')
    await websocket.prepare(request)

    async def connect(port: int) -> socket:
        return await backend.connect(pod, port)

    meta = pod["metadata"]
    who = f"pod {meta['name']}, uid {meta['uid']}"
    forward = _SpdyForward if websocket.ws_protocol == SPDY else _ChannelForward
    await forward(websocket, connect, who, ports).serve()
    return websocket


def requested_ports(values: Sequence[str]) -> list[int]:
    """The ports of a query, each a number or several with commas."""
    ports = []
    for word in (word for value in values for word in value.split(",")):
        port = read_integer(word, LAST_PORT)
        if not port:
            raise api_errors.bad_request(f"unable to parse {word[:40]!r} as a port")
        ports.append(port)
    return ports


@dataclass(eq=False)
class _Forward(ABC):
    """The connections of one websocket."""

    websocket: web.WebSocketResponse
    connect: Callable[[int], Awaitable[socket]]
    who: str
    ports: Sequence[int]
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def serve(self) -> None:
        """Until the client disconnects, or sends something that is not the protocol."""
        async with asyncio.TaskGroup() as group:
            # Nothing is read while a program does not read its input: then only a ping notices that
            # the client has disconnected.
            pings = group.create_task(keep_open(self.websocket))
            reading = group.create_task(self._read(group))
            await asyncio.wait((pings, reading), return_when=asyncio.FIRST_COMPLETED)
            for task in (pings, reading, *self._tasks):
                task.cancel()

    async def _read(self, group: asyncio.TaskGroup) -> None:
        try:
            await self.begin(group)
            async for message in self.websocket:
                if message.type is WSMsgType.BINARY and message.data:
                    await self.take(message.data, group)
        except ValueError as error:
            reason = str(error).encode()[:120]
            await self.websocket.close(code=WSCloseCode.PROTOCOL_ERROR, message=reason)
        except ConnectionError:  # the client has disconnected
            pass

    @abstractmethod
    async def begin(self, group: asyncio.TaskGroup) -> None:
        """Send what the client expects first."""

    @abstractmethod
    async def take(self, message: bytes, group: asyncio.TaskGroup) -> None:
        """Handle a message; a ValueError if it is malformed."""

    def start(self, group: asyncio.TaskGroup, port: int, data: _Stream, error: _Stream) -> None:
        task = group.create_task(self._forward(port, data, error))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _forward(self, port: int, data: _Stream, error: _Stream) -> None:
        """One connection to the pod, from its start to its end."""
        with suppress(ConnectionError):  # the client has disconnected
            try:
                await self._relay(await self.connect(port), data)
            except (MusterError, OSError) as failure:
                reason = failure.strerror if isinstance(failure, OSError) else str(failure)
                message = f"error forwarding port {port} to {self.who}: {reason or failure}"
                await error.send(message.encode())
            finally:
                data.stop()
            await data.close()
            await error.close()

    async def _relay(self, pod_socket: socket, data: _Stream) -> None:
        reader, writer = await asyncio.open_connection(sock=pod_socket, limit=_BLOCK)
        with closing(writer):
            try:
                async with asyncio.TaskGroup() as group:
                    taking = group.create_task(data.copy_to(writer))
                    with suppress(OSError):  # the program has ended, or the client has left
                        while piece := await reader.read(_BLOCK):
                            await data.send(piece)
                    taking.cancel()
            except asyncio.CancelledError:
                writer.transport.abort()  # closing would wait until the program has read
                raise


class _Stream:
    """One direction to the client (`send`, `close`), and the bytes that arrive from it."""

    def __init__(self, send: Send, close: Callable[[], Awaitable[None]]) -> None:
        self.send, self.close = send, close
        self._arrived: asyncio.Queue[bytes] = asyncio.Queue(_WAITING)
        self._stopped = False

    async def arrive(self, piece: bytes) -> None:
        """Bytes of the client; none if it sends no more."""
        if not self._stopped:
            await self._arrived.put(piece)

    def stop(self) -> None:
        """Nobody reads the client's bytes any more."""
        self._stopped = True
        while not self._arrived.empty():  # the websocket may wait for room
            self._arrived.get_nowait()

    async def copy_to(self, writer: asyncio.StreamWriter) -> None:
        try:
            while piece := await self._arrived.get():
                writer.write(piece)
                await writer.drain()
            if not writer.is_closing():
                writer.write_eof()
        except OSError:  # the program has ended
            self.stop()


# -- connections over SPDY -------------------------------------------------------------------------


@dataclass(eq=False)
class _SpdyForward(_Forward):
    """Any number of connections; two streams with the same request id are one of them."""

    _mux: Mux = field(default_factory=Mux)
    _headers: HeaderReader = field(default_factory=HeaderReader)
    _streams: dict[int, _Stream] = field(default_factory=dict)
    _pairs: dict[str, dict[str, _Stream]] = field(default_factory=dict)

    async def begin(self, group: asyncio.TaskGroup) -> None:
        """The client opens streams."""

    async def take(self, message: bytes, group: asyncio.TaskGroup) -> None:
        for event in self._mux.feed(message):
            await self._handle(event, group)

    async def _handle(self, event: SpdyEvent, group: asyncio.TaskGroup) -> None:
        match event:
            case Opening():
                await self._open(event, group)
            case Data(stream, payload, last):
                await self._deliver(stream, payload, last=last)
            case Reset(stream):
                await self._deliver(stream, b"", last=True)
            case Reply(payload):
                await self.websocket.send_bytes(payload)
            case Ended():
                await self.websocket.close()
            case _:
                pass

    async def _open(self, opening: Opening, group: asyncio.TaskGroup) -> None:
        headers = self._headers.read(opening.block)
        kind, request = headers.get("streamtype", ""), headers.get("requestid", "")
        port = read_integer(headers.get("port", ""), LAST_PORT)
        if kind not in ("data", "error") or not port:
            raise ValueError('a stream needs the headers "streamType" and "port"')
        stream = self._streams[opening.stream] = self._stream(opening.stream)
        await self.websocket.send_bytes(self._mux.accept(opening.stream))
        pair = self._pairs.setdefault(request, {})
        pair[kind] = stream
        if len(pair) == 2:
            del self._pairs[request]
            self.start(group, port, pair["data"], pair["error"])

    def _stream(self, number: int) -> _Stream:
        async def send(data: bytes) -> None:
            await self.websocket.send_bytes(self._mux.data(number, data))

        async def close() -> None:
            self._streams.pop(number, None)
            await self.websocket.send_bytes(self._mux.data(number, b"", last=True))

        return _Stream(send, close)

    async def _deliver(self, number: int, payload: bytes, *, last: bool) -> None:
        stream = self._streams.get(number)
        if stream is None:  # the connection has ended
            return
        if payload:
            await stream.arrive(payload)
        if last:
            await stream.arrive(b"")


# -- connections over channels ---------------------------------------------------------------------


class _ChannelForward(_Forward):
    """One connection per port. The first byte of a message is its channel."""

    _open: int
    _channels: Sequence[_Stream]

    async def begin(self, group: asyncio.TaskGroup) -> None:
        self._open = len(self.ports)
        self._channels = [self._channel(number) for number in range(2 * len(self.ports))]
        for number, channel in enumerate(self._channels):
            await channel.send(self.ports[number // 2].to_bytes(2, "little"))
        for index, port in enumerate(self.ports):
            self.start(group, port, self._channels[2 * index], self._channels[2 * index + 1])

    async def take(self, message: bytes, group: asyncio.TaskGroup) -> None:
        if message[0] >= len(self._channels):
            raise ValueError(f"there is no channel {message[0]}")
        if len(message) > 1:
            await self._channels[message[0]].arrive(message[1:])

    def _channel(self, number: int) -> _Stream:
        async def send(data: bytes) -> None:
            await self.websocket.send_bytes(bytes([number]) + data)

        async def close() -> None:
            if number % 2:  # the error channel, which is closed last
                self._open -= 1
            if not self._open:
                await self.websocket.close()

        return _Stream(send, close)
