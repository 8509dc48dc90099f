"""The part of SPDY/3.1 that `kubectl port-forward` needs: streams in one byte stream. No I/O.

Kubernetes tunnels it through a websocket (`SPDY/3.1+portforward.k8s.io`). Headers are written
without the protocol's compression dictionary: a deflate stream that does not use it is just as
valid. Neither side does flow control.

Written by hand: no maintained Python library speaks SPDY. Kept apart because the client of the
tests speaks it too.
"""

from __future__ import annotations

import struct
import zlib
from io import BytesIO
from typing import NamedTuple

PROTOCOL = "SPDY/3.1+portforward.k8s.io"
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
    """The server's end of a connection."""

    PEER_PINGS = 1
    """The client's pings have odd numbers. The peer's are answered; the rest are answers."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj()
        self._buffer = bytearray()

    def accept(self, stream: int) -> bytes:
        """The frame that accepts a stream of the client, without headers."""
        packed = self._deflate.compress(bytes(4)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return control(_SYN_REPLY, 0, struct.pack(">I", stream) + packed)

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
        if kind == _PING and number % 2 == self.PEER_PINGS:
            return Reply(control(_PING, 0, body))
        return None  # settings and window updates do not matter here


def control(kind: int, flags: int, body: bytes) -> bytes:
    return _HEAD.pack(_CONTROL | _VERSION | kind, flags << 24 | len(body)) + body


# -- headers --------------------------------------------------------------------------------------

_WORDS = """
    options head post put delete trace accept accept-charset accept-encoding accept-language
    accept-ranges age allow authorization cache-control connection content-base content-encoding
    content-language content-length content-location content-md5 content-range content-type date
    etag expect expires from host if-match if-modified-since if-none-match if-range
    if-unmodified-since last-modified location max-forwards pragma proxy-authenticate
    proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade
    user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url
    public set-cookie keep-alive origin
"""
_END = (
    "10010120120220520630030230330430530630740240540640740840941041141241341441541641750250450520"
    "3 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 "
    "Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service "
    "UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, "
    "Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,"
    "application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,"
    "sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
MAX_BLOCK = 64 * 1024


def dictionary() -> bytes:
    words = [word.replace("_", " ").encode() for word in _WORDS.split()]
    return b"".join(struct.pack(">I", len(word)) + word for word in words) + _END.encode()


class HeaderReader:
    """Reads the header blocks of one connection, in their order.

    All header blocks of a connection are one deflate stream that starts with a dictionary of common
    words. The dictionary is part of the protocol, so its words, their order and the digits at its
    end are fixed.
    """

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(zdict=dictionary())

    def read(self, packed: bytes) -> dict[str, str]:
        """The headers of one stream; a ValueError if the block is malformed or too large."""
        try:
            block = self._inflate.decompress(packed, MAX_BLOCK)
        except zlib.error as error:
            raise ValueError(f"the headers are not compressed as SPDY demands: {error}") from error
        if self._inflate.unconsumed_tail:
            raise ValueError(f"the headers have more than {MAX_BLOCK} bytes")
        rest = BytesIO(block)

        def take(size: int) -> bytes:
            taken = rest.read(size)
            if len(taken) < size:
                raise ValueError("the headers end too early")
            return taken

        def number() -> int:
            return int.from_bytes(take(4), "big")

        def text() -> str:
            return take(number()).decode()

        return {text().lower(): text() for _ in range(number())}
