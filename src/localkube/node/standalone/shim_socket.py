"""Frames on a shim's socket, and one client of it.

A frame is one byte for the channel, four for the length, then the data. A connection begins with
one REQUEST frame, JSON `{"op": …}`. The other channels have Kubernetes' numbers for exec and
attach. The shim never waits for a client: it disconnects a client that does not read, and stops
reading for a while from a client that sends too much (`listen`).
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
REQUEST = 254
CLOSE_STDIN = 255

_HEADER = struct.Struct(">BI")
LIMIT = 1 << 20
"""Bytes per frame. A larger length is not a frame: the peer speaks another protocol."""


def frame(channel: int, data: bytes) -> bytes:
    return _HEADER.pack(channel, len(data)) + data


def status(body: dict[str, Any]) -> bytes:
    """A frame that tells the state of the program."""
    return frame(STATUS, json.dumps(body).encode())


class FrameReader:
    """Splits received bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        self._buffer += data
        frames = []
        while len(self._buffer) >= _HEADER.size:
            channel, length = _HEADER.unpack_from(self._buffer)
            if length > LIMIT:
                raise ValueError(f"a frame of {length} bytes")
            end = _HEADER.size + length
            if len(self._buffer) < end:
                break
            frames.append((channel, bytes(self._buffer[_HEADER.size : end])))
            del self._buffer[:end]
        return frames


def close_gracefully(connection: socket.socket, seconds: float) -> None:
    """Close a connection so that all sent data arrives.

    Closing with unread data would reset the connection, and the other side would lose the data that
    it has not read yet. So first shut down our side, and read until the other side closes.
    """
    with contextlib.suppress(OSError):
        connection.settimeout(seconds)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(64 * 1024):
            pass
    connection.close()


_MAX_UNSENT = 4 << 20
"""Bytes that wait for one client; more means that it does not read."""


class ShimClient:
    def __init__(
        self,
        client: socket.socket,
        select: selectors.BaseSelector,
        on_frame: Callable[[ShimClient, int, bytes], None],
        on_close: Callable[[ShimClient], None],
    ) -> None:
        self.watching = False
        self.attached = False
        self.typing = False
        self._client = client
        self._select = select
        self._on_frame = on_frame
        self._on_close = on_close
        self._frames = FrameReader()
        self._unsent = bytearray()
        self._listening = True
        client.setblocking(False)
        self._register()

    def listen(self, enabled: bool) -> None:
        """Read from the client, or stop reading so that it has to wait."""
        self._listening = enabled
        self._register()

    def send(self, data: bytes) -> None:
        self._unsent += data
        if len(self._unsent) > _MAX_UNSENT:
            self.close()
        else:
            self._push()

    def flush(self, seconds: float) -> None:
        """Send the rest and close the connection; give up after `seconds`."""
        client = self.release()
        with contextlib.suppress(OSError):
            client.settimeout(seconds)
            client.sendall(self._unsent)
        close_gracefully(client, seconds)

    def release(self) -> socket.socket:
        """Stop serving the connection and return it."""
        self._listening = False
        self._select_for(0)
        self._on_close(self)
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
        except OSError:  # the client is gone, as at end of file
            data = b""
        try:
            frames = self._frames.feed(data)
        except ValueError:
            data, frames = b"", []
        for channel, payload in frames:
            self._on_frame(self, channel, payload)
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
        events = selectors.EVENT_READ if self._listening else 0
        self._select_for(events | (selectors.EVENT_WRITE if self._unsent else 0))

    def _select_for(self, events: int) -> None:
        """Wait for these events; for none, unregister, since a selector needs at least one."""
        known = self._client in self._select.get_map()
        if known and events:
            self._select.modify(self._client, events, self._ready)
        elif known:
            self._select.unregister(self._client)
        elif events:
            self._select.register(self._client, events, self._ready)
