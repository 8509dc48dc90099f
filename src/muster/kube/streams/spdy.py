"""As much of SPDY/3.1 as port-forwarding needs: streams in one byte stream. No I/O.

Kubernetes tunnels it through a websocket (`SPDY/3.1+portforward.k8s.io`); `forward.py` moves the
bytes. We only open streams and never read a peer's headers, so the protocol's compression
dictionary is not needed: a deflate stream that does not use it is as valid. Neither side does flow
control.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, NamedTuple

from muster.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import Mapping

_HEAD = struct.Struct(">II")
_CONTROL = 0x8000_0000
_VERSION = 3 << 16
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 1, 2, 3, 6, 7
_FIN = 1
_LENGTH = 0x00FF_FFFF
MAX_DATA = 64 * 1024


class Data(NamedTuple):
    """Bytes on a stream; `last` when the other side will send no more."""

    stream: int
    payload: bytes
    last: bool


class Opened(NamedTuple):
    """The other side accepted a stream. Data sent before that may be dropped."""

    stream: int


class Reset(NamedTuple):
    """The other side gave a stream up."""

    stream: int


class Reply(NamedTuple):
    """Bytes that must be sent back."""

    payload: bytes


SpdyEvent = Data | Opened | Reset | Reply


class Mux:
    """The client's end of one connection."""

    def __init__(self) -> None:
        self._next = 1
        self._deflate = zlib.compressobj()
        self._buffer = bytearray()

    def open(self, headers: Mapping[str, str], *, last: bool = False) -> tuple[int, bytes]:
        """A new stream's number and the frame that opens it; `last` if we will send nothing."""
        stream, self._next = self._next, self._next + 2
        block = struct.pack(">I", len(headers))
        for name, value in headers.items():
            for text in (name.lower().encode(), value.encode()):
                block += struct.pack(">I", len(text)) + text
        packed = self._deflate.compress(block) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        body = struct.pack(">IIBB", stream, 0, 0, 0) + packed
        return stream, _control(_SYN_STREAM, _FIN if last else 0, body)

    def data(self, stream: int, payload: bytes, *, last: bool = False) -> bytes:
        """Frames that carry the payload."""
        frames = bytearray()
        for start in range(0, len(payload) or 1, MAX_DATA):
            part = payload[start : start + MAX_DATA]
            flags = _FIN if last and start + MAX_DATA >= len(payload) else 0
            frames += _HEAD.pack(stream, flags << 24 | len(part)) + part
        return bytes(frames)

    def feed(self, chunk: bytes) -> list[SpdyEvent]:
        """What the bytes received so far mean; frames may be cut anywhere."""
        self._buffer += chunk
        events: list[SpdyEvent] = []
        while len(self._buffer) >= _HEAD.size:
            first, second = _HEAD.unpack_from(self._buffer)
            end = _HEAD.size + (second & _LENGTH)
            if len(self._buffer) < end:
                break
            body = bytes(self._buffer[_HEAD.size : end])
            del self._buffer[:end]
            event = _understand(first, second >> 24, body)
            if event is not None:
                events.append(event)
        return events


def _control(kind: int, flags: int, body: bytes) -> bytes:
    return _HEAD.pack(_CONTROL | _VERSION | kind, flags << 24 | len(body)) + body


def _understand(first: int, flags: int, body: bytes) -> SpdyEvent | None:
    if not first & _CONTROL:
        return Data(first, body, bool(flags & _FIN))
    kind = first & 0xFFFF
    if kind == _SYN_REPLY:
        return Opened(struct.unpack_from(">I", body)[0])
    if kind == _RST_STREAM:
        return Reset(struct.unpack_from(">I", body)[0])
    if kind == _PING and struct.unpack_from(">I", body)[0] % 2 == 0:  # even: the server asks
        return Reply(_control(_PING, 0, body))
    if kind == _GOAWAY:
        raise Unreachable("the server ended the port-forward")
    return None  # settings and windows tell us nothing we need
