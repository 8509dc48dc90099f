"""Headers of SPDY/3.1 streams, as a server reads them.

All header blocks of a connection are one deflate stream that starts with a dictionary of common
words. The dictionary is part of the protocol, so its words, their order and the digits at its end
are fixed.
"""

from __future__ import annotations

import struct
import zlib

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
    """Reads the header blocks of one connection, in their order."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(zdict=dictionary())

    def read(self, packed: bytes) -> dict[str, str]:
        """The headers of one stream; a ValueError if the block is malformed or too large."""
        try:
            block = self._inflate.decompress(packed, MAX_BLOCK)
        except zlib.error as error:
            raise ValueError(f"headers are not compressed as SPDY demands: {error}") from error
        if self._inflate.unconsumed_tail:
            raise ValueError(f"headers of more than {MAX_BLOCK} bytes")
        parts = _Parts(block)
        return {parts.text().lower(): parts.text() for _ in range(parts.number())}


class _Parts:
    """The numbers and texts in a header block."""

    def __init__(self, block: bytes) -> None:
        self._rest = block

    def number(self) -> int:
        return int.from_bytes(self._take(4), "big")

    def text(self) -> str:
        return self._take(self.number()).decode()

    def _take(self, size: int) -> bytes:
        if size > len(self._rest):
            raise ValueError("headers that end too early")
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken
