"""Compressed bodies: what this client accepts, and decoding what arrives. No I/O.

A request without Accept-Encoding allows every encoding, so each request names what it can read:
gzip for lists from another machine, else identity. An intermediary may compress all the same, so
gzip is decoded wherever it appears; in a stream, piece by piece.

A small body can expand a thousandfold. A stream is decoded in pieces of at most `PIECE` bytes, when
its reader wants them. A whole body may expand to `MAX_BYTES`. A larger list is asked for again
without compression: then the server has to send every byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kubekit.client.auth.endpoint import is_loopback

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.client.auth.endpoint import Endpoint

PIECE = 256 * 1024
# No limit of the ratio: one tenant's pods with annotations of zeros must not stop the lists of all.
MAX_BYTES = 256 << 20
_GZIP = frozenset(("gzip", "x-gzip"))
_NONE = frozenset(("", "identity"))


class UndecodableBody(ConnectionError):
    """The body is compressed in a way that cannot be read."""


class BodyTooLarge(UndecodableBody):
    """The body expands beyond its limit."""


class GzipDecoder:
    """Decodes a body as it arrives: `feed` every chunk, then `finish`."""

    def __init__(self) -> None:
        self._begin()
        self._pristine = True

    def _begin(self) -> None:
        import zlib  # few responses are compressed

        self._member = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The decoded bytes, in pieces of bounded size."""
        import zlib

        while chunk:
            self._pristine = False
            if self._member.eof:  # a gzip file may have several members
                self._begin()
            try:
                piece = self._member.decompress(chunk, PIECE)
            except zlib.error as error:
                raise UndecodableBody(f"the response is not valid gzip: {error}") from error
            chunk = self._member.unconsumed_tail or self._member.unused_data
            if piece:
                yield piece
        # The end of the input may leave decoded bytes inside zlib.
        while not self._member.eof and (piece := self._member.decompress(b"", PIECE)):
            yield piece

    def finish(self) -> None:
        """Check that the body was complete."""
        if not self._pristine and not self._member.eof:
            raise UndecodableBody("the response was cut short")


def compresses(endpoint: Endpoint) -> bool:
    """Whether large responses are asked for compressed.

    Lists of 500 and of 3,000 pods from a real kube-apiserver cost it the same processor time with
    and without, within the noise, and this client a quarter to a half less: it decrypts and joins
    fewer bytes. On loopback there is no link to relieve, and Muster's own server does not compress.
    """
    return endpoint.compression and not is_loopback(urlsplit(endpoint.url).hostname or "")


def decoder_for(encoding: str) -> GzipDecoder | None:
    """The decoder for a Content-Encoding; None if the body is as it should be."""
    name = encoding.strip().lower()
    if name in _NONE:
        return None
    if name in _GZIP:
        return GzipDecoder()
    raise UndecodableBody(
        f"the response is encoded as {name[:40]!r}, which was not asked for; "
        "a proxy or load balancer on the way changes responses"
    )


def decode_body(encoding: str, body: bytes) -> bytes:
    """A whole body, decoded, if it does not expand beyond the limit."""
    decoder = decoder_for(encoding)
    if decoder is None:
        return body
    pieces: list[bytes] = []
    size = 0
    for piece in decoder.feed(body):
        size += len(piece)
        if size > MAX_BYTES:
            raise BodyTooLarge(f"the response expands from {len(body)} to over {MAX_BYTES} bytes")
        pieces.append(piece)
    decoder.finish()
    return b"".join(pieces)
