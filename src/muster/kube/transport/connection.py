"""One HTTP/1.1 connection to a server: a request out, its answer in, one at a time.

Made and kept by `pool.py`. It is this short because it is this narrow: no redirects, no cookies,
no compression, no proxies, no forms. A request costs a tenth of a millisecond here, a fifth of
what a general client takes, and on a busy scheduler the requests are most of the work.

Promises: an answer is read to its end or the connection is not used again; a stream nobody reads
stops the server instead of filling memory; a broken connection is a `HungUp`, whatever broke it.
"""

from __future__ import annotations

import asyncio
from enum import IntEnum
from typing import TYPE_CHECKING, cast

from httptools import HttpParserError, HttpResponseParser

from muster.kube.request import Response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MAX_BUFFERED_BYTES = 1 << 20
"""Bytes of a stream that may wait to be read before the server has to."""


class ConnectionClosed(ConnectionError):
    """The connection ended before the answer did. `answered`: some of it had come."""

    def __init__(self, why: str, *, answered: bool) -> None:
        super().__init__(why)
        self.answered = answered


class _Stage(IntEnum):
    """How far an answer has come; who waits for a point is woken by any later one too."""

    HEAD = 1
    PIECE = 2
    END = 3


class Connection(asyncio.Protocol):
    """Ask with `whole` or `head` and `pieces`; look at `reusable` before asking again."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._loop = loop
        self.lost: asyncio.Future[None] = loop.create_future()
        self._parser = HttpResponseParser(self)
        self._waiter: asyncio.Future[None] | None = None
        self._wanted = _Stage.HEAD
        self._busy = self._paused = False
        self._broken = ""
        self._reset()

    def _reset(self) -> None:
        self.status, self.headers = 0, dict[str, str]()
        self._pieces: list[bytes] = []
        self._answered = self._ended = False

    # Asking

    @property
    def reusable(self) -> bool:
        """Whether another request may be sent."""
        return not (self._busy or self._broken or self._transport.is_closing())

    async def whole(self, message: bytes) -> Response:
        """Send a request and read the answer to its end."""
        self._send(message)
        await self._until(_Stage.END)
        return Response(self.status, self.headers, self._take())

    async def head(self, message: bytes) -> int:
        """Send a request and read only the head of the answer; `pieces` are to follow."""
        self._send(message)
        await self._until(_Stage.HEAD)
        return self.status

    async def pieces(self) -> AsyncIterator[bytes]:
        """The rest of the answer, as it comes."""
        while True:
            if self._pieces:
                yield self._take()
            elif self._ended:
                return
            else:
                await self._until(_Stage.PIECE)

    def abort(self) -> None:
        """End it now, without a goodbye."""
        self._transport.abort()

    def _send(self, message: bytes) -> None:
        self._reset()
        self._busy = True
        self._transport.write(message)

    async def _until(self, point: _Stage) -> None:
        reached = _Stage.END if self._ended else _Stage.HEAD if self.status else 0
        if reached >= point or (point is _Stage.PIECE and self._pieces):
            return
        if self._broken:
            raise ConnectionClosed(self._broken, answered=self._answered)
        self._wanted, self._waiter = point, self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _take(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _reached(self, point: _Stage) -> None:
        if self._waiter is not None and not self._waiter.done() and point >= self._wanted:
            self._waiter.set_result(None)

    # What the event loop tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's has other ancestors

    def data_received(self, data: bytes) -> None:
        self._answered = True
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            self._break(f"not HTTP: {error}")
        if self._wanted is not _Stage.END and sum(map(len, self._pieces)) > MAX_BUFFERED_BYTES:
            self._paused = True
            self._transport.pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        if self._busy and self.status and not self._measured():
            self.on_message_complete()  # such an answer ends with its connection
        self._break(str(error or "closed"))
        if not self.lost.done():
            self.lost.set_result(None)

    def _break(self, why: str) -> None:
        self._broken = self._broken or why
        self._transport.abort()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(ConnectionClosed(why, answered=self._answered))

    def _measured(self) -> bool:
        names = {name.lower() for name in self.headers}
        return not names.isdisjoint(("content-length", "transfer-encoding"))

    # What the parser tells

    def on_message_begin(self) -> None:
        if not self._busy:
            self._break("an answer to no question")

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1")] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200:  # lower ones only announce the answer
            self.status = status
            self._reached(_Stage.HEAD)

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)
        self._reached(_Stage.PIECE)

    def on_message_complete(self) -> None:
        if not self.status:
            self.headers.clear()
            return
        self._ended, self._busy = True, False
        if not self._parser.should_keep_alive():
            self._transport.close()
        self._reached(_Stage.END)
