"""The part of SPDY/3.1 that port-forwarding needs: streams in one byte stream. No I/O.

Kubernetes tunnels it through a websocket (`SPDY/3.1+portforward.k8s.io`). Headers are written
without the protocol's compression dictionary: a deflate stream that does not use it is just as
valid. Only the server reads headers, and the client does not need the dictionary. Neither side does
flow control.

Written by hand: no maintained Python library speaks SPDY.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

_HEAD = struct.Struct(">II")
_CONTROL = 0x8000_0000
_VERSION = 3 << 16
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 1, 2, 3, 6, 7
_SYN_STREAM_HEAD = struct.Struct(">IIBB")
_FIN = 1
_LENGTH = 0x00FF_FFFF
MAX_DATA = 64 * 1024


class Data(NamedTuple):
    """Bytes on a stream; `last` if the peer sends no more."""

    stream: int
    payload: bytes
    last: bool


class Opening(NamedTuple):
    """The client opens a stream; `block` is its compressed headers."""

    stream: int
    block: bytes
    last: bool


class Opened(NamedTuple):
    """The server accepted a stream. Data sent earlier may be dropped."""

    stream: int


class Reset(NamedTuple):
    """The peer aborted a stream."""

    stream: int


class Reply(NamedTuple):
    """Bytes that must be sent back."""

    payload: bytes


class Ended(NamedTuple):
    """The peer ends the connection."""


SpdyEvent = Data | Opening | Opened | Reset | Reply | Ended


class Mux:
    """One end of a connection."""

    def __init__(self, *, server: bool = False) -> None:
        self._next = 1
        self._server = server
        self._deflate = zlib.compressobj()
        self._buffer = bytearray()

    def open(self, headers: Mapping[str, str], *, last: bool = False) -> tuple[int, bytes]:
        """A new stream's number and the frame that opens it; `last` if the client sends nothing."""
        stream, self._next = self._next, self._next + 2  # the client's streams have odd numbers
        block = struct.pack(">I", len(headers))
        for name, value in headers.items():
            for text in (name.lower().encode(), value.encode()):
                block += struct.pack(">I", len(text)) + text
        packed = self._deflate.compress(block) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        body = _SYN_STREAM_HEAD.pack(stream, 0, 0, 0) + packed
        return stream, _control(_SYN_STREAM, _FIN if last else 0, body)

    def accept(self, stream: int) -> bytes:
        """The frame that accepts a stream of the client, without headers."""
        packed = self._deflate.compress(bytes(4)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return _control(_SYN_REPLY, 0, struct.pack(">I", stream) + packed)

    def data(self, stream: int, payload: bytes, *, last: bool = False) -> bytes:
        """Frames that carry the payload."""
        frames = bytearray()
        for start in range(0, len(payload) or 1, MAX_DATA):
            part = payload[start : start + MAX_DATA]
            flags = _FIN if last and start + MAX_DATA >= len(payload) else 0
            frames += _HEAD.pack(stream, flags << 24 | len(part)) + part
        return bytes(frames)

    def feed(self, chunk: bytes) -> list[SpdyEvent]:
        """The events in the bytes received so far; a frame may arrive in parts."""
        self._buffer += chunk
        events: list[SpdyEvent] = []
        while len(self._buffer) >= _HEAD.size:
            first, second = _HEAD.unpack_from(self._buffer)
            end = _HEAD.size + (second & _LENGTH)
            if len(self._buffer) < end:
                break
            body = bytes(self._buffer[_HEAD.size : end])
            del self._buffer[:end]
            event = self._event(first, second >> 24, body)
            if event is not None:
                events.append(event)
        return events

    def _event(self, first: int, flags: int, body: bytes) -> SpdyEvent | None:
        last = bool(flags & _FIN)
        if not first & _CONTROL:
            return Data(first, body, last)
        kind, number = first & 0xFFFF, int.from_bytes(body[:4], "big")
        if kind == _SYN_STREAM:
            return Opening(number, body[_SYN_STREAM_HEAD.size :], last)
        if kind == _SYN_REPLY:
            return Opened(number)
        if kind == _RST_STREAM:
            return Reset(number)
        if kind == _GOAWAY:
            return Ended()
        # The client's pings have odd numbers. The peer's are answered; the rest are answers.
        if kind == _PING and bool(number % 2) == self._server:
            return Reply(_control(_PING, 0, body))
        return None  # settings and window updates do not matter here


def _control(kind: int, flags: int, body: bytes) -> bytes:
    return _HEAD.pack(_CONTROL | _VERSION | kind, flags << 24 | len(body)) + body
