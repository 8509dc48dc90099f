"""A small node agent: one log, a few commands, one HTTP port, programs behind other ports."""

from __future__ import annotations

import asyncio
import errno
import socket
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kubekit.request_errors import StatusError
from localkube.node_interface import Usage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from kubekit.objects.core import PodLog
    from kubekit.objects.meta import Raw
    from localkube.node_interface import ExecOptions, LogOptions, Streams


class FakeNode:
    """Commands: `cat` repeats its input, `slow` does so once `awake` is set, `exit N` exits with N,
    `size` prints the size of the terminal."""

    ENDLESS = 777
    SILENT = 7
    """The port of a program that does not read."""

    def __init__(self) -> None:
        self.awake = asyncio.Event()
        self.calls: list[LogOptions | ExecOptions] = []
        self.streams = 0
        """How many endless logs are being read."""
        self.commands = 0
        """How many commands run."""
        self.web_address = ("127.0.0.1", 1)
        self.silent: list[socket.socket] = []
        """The connections of that program."""
        self._programs: list[asyncio.Task[None]] = []

    async def logs(self, pod: Raw, options: LogOptions) -> AsyncGenerator[bytes, None]:
        self.calls.append(options)
        if options.previous:
            raise StatusError("there was none before", status=400, reason="BadRequest")
        if options.tail == self.ENDLESS:
            self.streams += 1
            try:
                async for piece in self._endless(options):
                    yield piece
            finally:
                self.streams -= 1
        yield b"one\n"
        yield b"two\n"

    async def _endless(self, options: LogOptions) -> AsyncGenerator[bytes, None]:
        """A log that goes on for ever: without a pause, or quiet after its first
        piece, with timestamps."""
        while True:
            yield b"x" * (256 * 1024)
            if options.timestamps:
                await asyncio.Event().wait()

    async def exec(self, pod: Raw, options: ExecOptions, streams: Streams) -> int:
        self.calls.append(options)
        self.commands += 1
        try:
            return await self._run(options, streams)
        finally:
            self.commands -= 1

    async def _run(self, options: ExecOptions, streams: Streams) -> int:
        match options.command:
            case ["cat"]:
                async for data in streams.stdin():
                    await streams.stdout(data)
            case ["slow"]:
                await self.awake.wait()
                async for data in streams.stdin():
                    await streams.stdout(data)
            case ["exit", code]:
                await streams.stderr(b"bye\n")
                return int(code)
            case ["size"]:
                async for width, height in streams.resizes():
                    await streams.stdout(f"{width}x{height}".encode())
                    break
            case ():
                await streams.stdout(b"attached\n")
            case _:
                raise StatusError("no such command", status=400, reason="BadRequest")
        return 0

    async def connect(self, pod: Raw, port: int) -> socket.socket:
        """A program that repeats its input in capitals; nothing listens on port 1."""
        if port == 1:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        if port == self.SILENT:
            self.silent.append(theirs)
            return ours
        reader, writer = await asyncio.open_connection(sock=theirs)
        self._programs.append(asyncio.create_task(_repeat_in_capitals(reader, writer)))
        return ours

    async def address(self, pod: Raw, port: int) -> tuple[str, int]:
        return self.web_address

    async def dial(self, address: str, port: int) -> socket.socket:
        """A connection to an address of this machine; at all others there is the HTTP port."""
        place = (address, port) if address == "127.0.0.1" else self.web_address
        sock = socket.create_connection(place)
        sock.setblocking(False)
        return sock

    async def pod_logs(self) -> list[PodLog]:
        return []

    async def read_pod_log(
        self, pod_log: PodLog, options: LogOptions
    ) -> AsyncGenerator[bytes, None]:
        self.calls.append(options)
        yield f"log of {pod_log.pod_name}\n".encode()

    async def usage(self) -> Usage:
        return Usage(datetime.now(UTC), 1.0, {})

    def token_refused(self, uid: str) -> None:
        """Nothing to do: no program uses a token."""


async def _repeat_in_capitals(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):  # the client is gone
        while data := await reader.read(1 << 16):
            writer.write(data.upper())
            await writer.drain()
    writer.close()
