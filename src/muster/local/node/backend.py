"""What the API server asks of this node: logs, exec, attach, and connections into pods.

Implements `apiserver.backend.NodeBackend`; made by the agent, handed to the server by
`local/up.py`. It needs no API client, only the runtime, so the server can start first.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING

from muster import errors
from muster.errors import CannotRun, StatusError
from muster.local.node import container_logs
from muster.local.node.machine.usage import UsageMeter
from muster.local.node.runtime.pod_records import read_attempt
from muster.local.node.standalone import shim_socket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from muster.api.meta import Raw
    from muster.local.apiserver.streams.node_backend import (
        ExecOptions,
        LogOptions,
        Pipe,
        Streams,
        Usage,
    )
    from muster.local.node.runtime.interface import Runtime
    from muster.local.node.runtime.shims import ShimConnection

_KILLED = 137
"""What an end without a word means."""


class Backend:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._meter = UsageMeter(runtime)

    async def logs(self, pod: Raw, options: LogOptions) -> AsyncIterator[bytes]:
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        numbers = self._runtime.attempts(uid, options.container)
        if options.previous:
            numbers = numbers[:-1]
        if not numbers:
            what = f'container "{options.container}" in pod "{name}"'
            raise _bad_request(
                f"previous terminated {what} not found"
                if options.previous
                else f"{what} is waiting to start"
            )
        number = numbers[-1]
        path = self._runtime.folder(uid, options.container, number) / "log"

        def alive() -> bool:
            return read_attempt(path.parents[1], number).alive

        wanted = container_logs.LogRange(
            options.follow, options.timestamps, options.tail, options.since, options.limit_bytes
        )
        async for data in container_logs.read(path, wanted, alive):
            yield data

    async def exec(self, pod: Raw, options: ExecOptions, streams: Streams) -> int:
        uid = pod["metadata"]["uid"]
        op = "exec" if options.command else "attach"
        asked = {
            "op": op,
            "argv": list(options.command),
            "tty": options.tty,
            "stdin": options.stdin,
        }
        try:
            async with self._runtime.ask(uid, options.container, **asked) as shim:
                said = await _relay(shim, options, streams)
        except ConnectionError as error:
            name = pod["metadata"]["name"]
            raise _bad_request(
                f'container "{options.container}" in pod "{name}" is not running'
            ) from error
        if op == "attach":
            return 0  # it worked; how the container ended is told by the pod
        code = int(said.get("exitCode", _KILLED))
        if said.get("message") and code:
            with contextlib.suppress(ConnectionError):
                await streams.stderr(f"{said['message']}\n".encode())
        return code

    async def forward(self, pod: Raw, port: int, pipe: Pipe) -> None:
        try:
            sock = await self._runtime.connect(pod["metadata"]["uid"], port)
            reader, writer = await asyncio.open_connection(sock=sock)
        except (OSError, CannotRun) as error:
            raise _bad_request(
                f"cannot reach port {port} of the pod: {errors.describe(error)}"
            ) from error

        async def inwards() -> None:
            while data := await pipe.receive():
                writer.write(data)
                await writer.drain()
            writer.write_eof()

        try:
            async with asyncio.TaskGroup() as group:
                sending = group.create_task(inwards())
                while data := await reader.read(64 * 1024):
                    await pipe.send(data)
                sending.cancel()
        finally:
            writer.close()

    async def address(self, pod: Raw, port: int) -> tuple[str, int]:
        record = self._runtime.read(pod["metadata"]["uid"])
        if not record.open:
            raise _bad_request(f'pod "{pod["metadata"]["name"]}" is not running')
        return record.address, port

    async def usage(self) -> Usage:
        return await self._meter.usage()


async def _relay(shim: ShimConnection, options: ExecOptions, streams: Streams) -> Raw:
    """Carry the streams until the program ends, or the client is gone; what is said of its end."""
    end: Raw = {}
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [] if options.command else _senders(group, shim, options, streams)
            async for channel, data in shim.frames():
                said = json.loads(data) if channel == shim_socket.STATUS else {}
                if said.get("state") == "running":
                    tasks = tasks or _senders(group, shim, options, streams)
                elif said:
                    end = said
                    break
                else:
                    await _show(channel, data, options, streams)
            for task in tasks:
                task.cancel()
    except* ConnectionError:  # the client hung up: nobody is left to be told
        pass
    return end


async def _show(channel: int, data: bytes, options: ExecOptions, streams: Streams) -> None:
    if channel == shim_socket.STDOUT and options.stdout:
        await streams.stdout(data)
    elif channel == shim_socket.STDERR and options.stderr:
        await streams.stderr(data)


def _senders(
    group: asyncio.TaskGroup, shim: ShimConnection, options: ExecOptions, streams: Streams
) -> list[asyncio.Task[None]]:
    tasks = []
    if options.stdin:
        tasks.append(group.create_task(_send_input(shim, streams)))
    if options.tty:
        tasks.append(group.create_task(_send_sizes(shim, streams)))
    return tasks


async def _send_input(shim: ShimConnection, streams: Streams) -> None:
    with contextlib.suppress(ConnectionError):
        async for data in streams.stdin():
            await shim.send(shim_socket.STDIN, data)
        await shim.send(shim_socket.CLOSE_STDIN, b"")


async def _send_sizes(shim: ShimConnection, streams: Streams) -> None:
    with contextlib.suppress(ConnectionError):
        async for width, height in streams.resizes():
            size = {"Width": width, "Height": height}
            await shim.send(shim_socket.RESIZE, json.dumps(size).encode())


def _bad_request(message: str) -> StatusError:
    return StatusError(message, status=400, reason="BadRequest")
