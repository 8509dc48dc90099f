"""Frames on a shim's socket: one byte for the channel, four for the length, then the bytes.

Spoken by `shim` and `session` on one side and the daemon's `shims` on the other. A connection
opens with one ASK frame holding JSON `{"op": …}`. The other channels have the numbers that
Kubernetes gives them in exec and attach.

One client of a shim's socket, never waited for: what it does not read in time is its loss.

Used by `shim` alone. A client that says more than can be taken is made to wait, with `listen`.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


STDIN, STDOUT, STDERR, STATUS, RESIZE = 0, 1, 2, 3, 4
ASK = 254
CLOSE_STDIN = 255

_HEADER = struct.Struct(">BI")
LIMIT = 1 << 20


def frame(channel: int, data: bytes) -> bytes:
    return _HEADER.pack(channel, len(data)) + data


def message(channel: int, body: dict[str, Any]) -> bytes:
    return frame(channel, json.dumps(body).encode())


class FrameReader:
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


_MOST = 4 << 20


class ShimClient:
    def __init__(
        self,
        client: socket.socket,
        select: selectors.BaseSelector,
        hear: Callable[[ShimClient, int, bytes], None],
        gone: Callable[[ShimClient], None],
    ) -> None:
        self.watching = False
        self.attached = False
        self.typing = False
        self._client = client
        self._select = select
        self._hear = hear
        self._gone = gone
        self._frames = FrameReader()
        self._unsent = bytearray()
        self._listening = True
        client.setblocking(False)
        self._register()

    def listen(self, wanted: bool) -> None:
        """Go on hearing the client, or let it wait with what else it has to say."""
        self._listening = wanted
        self._register()

    def send(self, data: bytes) -> None:
        self._unsent += data
        if len(self._unsent) > _MOST:
            self.close()
        else:
            self._push()

    def flush(self, seconds: float) -> None:
        """Send the rest and end the connection, waiting at most so long."""
        client = self.release()
        with contextlib.suppress(OSError):
            client.settimeout(seconds)
            client.sendall(self._unsent)
        hang_up(client, seconds)

    def release(self) -> socket.socket:
        """Give the connection away."""
        self._listening = False
        self._select_for(0)
        self._gone(self)
        return self._client

    def close(self) -> None:
        if self._client.fileno() >= 0:
            self.release().close()

    def _ready(self, _: Any, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._push()
        if events & selectors.EVENT_READ and self._client.fileno() >= 0:
            self._receive()

    def _receive(self) -> None:
        try:
            data = self._client.recv(64 * 1024)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        try:
            frames = self._frames.feed(data)
        except ValueError:
            data, frames = b"", []
        for channel, payload in frames:
            self._hear(self, channel, payload)
        if not data:
            self.close()

    def _push(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._client.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        self._register()

    def _register(self) -> None:
        wanted = selectors.EVENT_READ if self._listening else 0
        self._select_for(wanted | (selectors.EVENT_WRITE if self._unsent else 0))

    def _select_for(self, wanted: int) -> None:
        """Be woken for these events; a selector does not bear none."""
        known = self._client in self._select.get_map()
        if known and wanted:
            self._select.modify(self._client, wanted, self._ready)
        elif known:
            self._select.unregister(self._client)
        elif wanted:
            self._select.register(self._client, wanted, self._ready)
