"""Running a command in a container, or attaching to it, over a websocket.

The first byte of every message names its channel. `v5.channel.k8s.io` adds a message that closes a
channel; with `v4`, a command that reads its input to the end never ends. When the loop over a
session ends, the command has ended and `exit_code` is known; otherwise an error is raised.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import msgspec

from kubekit.client.error_response import Status
from kubekit.objects.annotation_values import read_integer
from kubekit.objects.kinds import decoder_of
from kubekit.request_errors import Unreachable, Unsupported, api_error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from kubekit.client.streams.websocket import WebSocket

V5 = "v5.channel.k8s.io"
V4 = "v4.channel.k8s.io"
PROTOCOLS = (V5, V4)
CHUNK = 32 * 1024


class Channel(IntEnum):
    """The first byte of each message."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    ERROR = 3
    RESIZE = 4
    CLOSE = 255


class _Outcome(Status):
    status: str = ""


def exec_query(
    command: Sequence[str], *, container: str, stdin: bool, tty: bool
) -> list[tuple[str, str]]:
    """The parameters of `exec`; of `attach` when there is no command."""
    flags = {"stdin": stdin, "stdout": True, "stderr": not tty, "tty": tty}
    query = [("command", part) for part in command]
    query += [(name, "true") for name, on in flags.items() if on]
    return [*query, ("container", container)] if container else query


class ExecSession:
    """The input, output and exit code of a command."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self.exit_code: int | None = None

    async def write(self, data: bytes) -> None:
        """Send input."""
        for start in range(0, len(data), CHUNK):
            await self._socket.send(bytes([Channel.STDIN]) + data[start : start + CHUNK])

    async def close_stdin(self) -> None:
        """End the input of the command."""
        if self._socket.protocol != V5:
            raise Unsupported("this server cannot close a command's input", status=406)
        await self._socket.send(bytes([Channel.CLOSE, Channel.STDIN]))

    async def resize(self, columns: int, rows: int) -> None:
        size = msgspec.json.encode({"Width": columns, "Height": rows})
        await self._socket.send(bytes([Channel.RESIZE]) + size)

    async def __aiter__(self) -> AsyncIterator[tuple[Channel, bytes]]:
        """Output as it arrives, until the command ends."""
        while (message := await self._socket.receive()) is not None:
            if len(message) < 2:
                continue  # servers open each channel with an empty message
            if message[0] in (Channel.STDOUT, Channel.STDERR):
                yield Channel(message[0]), message[1:]
            elif message[0] == Channel.ERROR:
                self.exit_code = exit_code(message[1:])
        if self.exit_code is None:
            raise Unreachable("the connection ended before the command did")


def exit_code(body: bytes) -> int:
    """The exit code in the Status that ends a session; raises if the command never ran."""
    outcome = decoder_of(_Outcome).decode(body)
    if outcome.status == "Success":
        return 0
    causes = outcome.details.causes if outcome.details is not None else ()
    for cause in causes or ():
        code = read_integer(cause.message) if cause.reason == "ExitCode" else None
        if code is not None:
            return code
    raise api_error(
        outcome.message or "the command could not be run",
        status=outcome.code or 500,
        reason=outcome.reason,
    )
