"""Frames on a shim's socket: one byte for the channel, four for the length, then the bytes.

Spoken by `shim` and `session` on one side and the daemon's `shims` on the other. A connection
opens with one ASK frame holding JSON `{"op": …}`. The other channels have the numbers that
Kubernetes gives them in exec and attach.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
from typing import Any

STDIN, STDOUT, STDERR, STATUS, RESIZE = 0, 1, 2, 3, 4
ASK = 254
CLOSE_STDIN = 255

_HEADER = struct.Struct(">BI")
LIMIT = 1 << 20


def frame(channel: int, data: bytes) -> bytes:
    return _HEADER.pack(channel, len(data)) + data


def message(channel: int, body: dict[str, Any]) -> bytes:
    return frame(channel, json.dumps(body).encode())


class Frames:
    """Bytes in, whole frames out."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        self._held += data
        whole = []
        while len(self._held) >= _HEADER.size:
            channel, length = _HEADER.unpack_from(self._held)
            if length > LIMIT:
                raise ValueError(f"a frame of {length} bytes")
            end = _HEADER.size + length
            if len(self._held) < end:
                break
            whole.append((channel, bytes(self._held[_HEADER.size : end])))
            del self._held[:end]
        return whole


def hang_up(link: socket.socket, seconds: float) -> None:
    """End a connection so that what was sent arrives.

    Closing with something unread would reset the connection, and the other side would lose even
    what it had not read yet. So first say that we are done, and read what still comes.
    """
    with contextlib.suppress(OSError):
        link.settimeout(seconds)
        link.shutdown(socket.SHUT_WR)
        while link.recv(64 * 1024):
            pass
    link.close()
