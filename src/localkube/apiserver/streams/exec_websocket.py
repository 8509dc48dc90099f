"""exec and attach over a websocket: `v5.channel.k8s.io`, and `v4` for older clients.

The first byte of a message is its channel. Input ends with the client's close message (v5) or with
the connection. When the client disconnects, the call to the node agent is cancelled.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import msgspec
from aiohttp import WSMsgType, web

from kubekit.client.streams.exec_session import V4, V5, Channel
from kubekit.errors import MusterError
from kubekit.request_errors import StatusError
from localkube.apiserver import api_errors, codec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp.web_ws import WebSocketReady

    from kubekit.objects.meta import Raw
    from localkube.node_interface import ExecOptions, NodeBackend

_KEY = "Sec-WebSocket-Key"
_PING = 15.0  # proxies commonly close connections that are idle for 30 or 60 seconds


_Cells = Annotated[int, msgspec.Meta(ge=0, le=65_535)]  # the kernel's unsigned short


class _Size(msgspec.Struct, rename={"width": "Width", "height": "Height"}):
    width: _Cells = 0
    height: _Cells = 0


class ExecChannels:
    """A client's side of an exec: the `Streams` that the node agent sees."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket
        # Bounded: a command that does not read its input slows the client down.
        self._input: asyncio.Queue[bytes | None] = asyncio.Queue(64)
        self._sizes: asyncio.Queue[tuple[int, int] | None] = asyncio.Queue()

    async def stdin(self) -> AsyncIterator[bytes]:
        while (data := await self._input.get()) is not None:
            yield data

    async def resizes(self) -> AsyncIterator[tuple[int, int]]:
        while (size := await self._sizes.get()) is not None:
            yield size

    async def stdout(self, data: bytes) -> None:
        await self._socket.send_bytes(bytes([Channel.STDOUT]) + data)

    async def stderr(self, data: bytes) -> None:
        await self._socket.send_bytes(bytes([Channel.STDERR]) + data)

    async def finish(self, outcome: Raw) -> None:
        """Send the result, as the last message."""
        await self._socket.send_bytes(bytes([Channel.ERROR]) + codec.dump(outcome))

    async def pump(self) -> None:
        """Dispatch the client's messages until it disconnects."""
        async for message in self._socket:
            data = message.data
            if message.type == WSMsgType.BINARY and data:
                await self._take(data[0], data[1:])
            elif message.type == WSMsgType.TEXT and data:
                await self._take(ord(data[0]), data[1:].encode())
        await self._input.put(None)
        await self._sizes.put(None)

    async def _take(self, channel: int, data: bytes) -> None:
        if channel == Channel.STDIN and data:
            await self._input.put(data)
        elif channel == Channel.CLOSE and data[:1] == bytes([Channel.STDIN]):
            await self._input.put(None)
        elif channel == Channel.RESIZE:
            try:
                size = msgspec.json.decode(data, type=_Size)
            except (msgspec.DecodeError, RecursionError):
                return  # the terminal keeps its size
            await self._sizes.put((size.width, size.height))


async def run(
    request: web.Request, backend: NodeBackend, pod: Raw, options: ExecOptions
) -> web.StreamResponse:
    """Serve one exec or attach from upgrade to end."""
    # As with a real server, v5 wins wherever a client names it: only v5 has an end of the input.
    offered = request.headers.get("Sec-WebSocket-Protocol", "")
    socket = web.WebSocketResponse(protocols=(V5,) if V5 in offered else (V4,))
    check_upgrade(request, socket)
    await socket.prepare(request)
    channels = ExecChannels(socket)
    # The first to end decides: the command with its outcome, or the client by disconnecting. While
    # the command does not read its input, only a ping notices that.
    async with asyncio.TaskGroup() as group:
        running = group.create_task(_outcome(backend, pod, options, channels))
        pump = group.create_task(channels.pump())
        pings = group.create_task(keep_open(socket))
        await asyncio.wait((running, pump, pings), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            with suppress(ConnectionResetError):  # the client need not wait for the outcome
                await channels.finish(running.result())
                await socket.close()
        for task in (running, pump, pings):
            task.cancel()
    return socket


def check_upgrade(request: web.Request, socket: web.WebSocketResponse) -> WebSocketReady:
    """How a request becomes a websocket; 400 for a request that cannot."""
    ready = socket.can_prepare(request) if request.headers.get(_KEY, "").isascii() else None
    if not ready:
        raise api_errors.bad_request("Upgrade request required")
    return ready


async def keep_open(socket: web.WebSocketResponse) -> None:
    """Keep proxies from closing an idle connection.

    Pongs are not awaited: the server does not read them while a program does not read its input.
    """
    with suppress(ConnectionError):
        while True:
            await asyncio.sleep(_PING)
            await socket.ping()


async def _outcome(
    backend: NodeBackend, pod: Raw, options: ExecOptions, channels: ExecChannels
) -> Raw:
    """Run the command and return the Status of its end."""
    try:
        return exit_status(await backend.exec(pod, options, channels))
    except StatusError as error:
        return api_errors.body(error)
    except MusterError as error:
        return api_errors.body(api_errors.error("InternalError", str(error)))


def exit_status(code: int) -> Raw:
    """The exit code of a command as clients expect it."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }
