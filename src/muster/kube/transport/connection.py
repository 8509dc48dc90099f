"""One HTTP/1.1 connection of an event loop: one request at a time, and its response.

Written by hand because it is narrow: no redirects, cookies, compression or forms. With aiohttp in
its place the scheduler and the operator use a third to a half more processor time
(`benchmarks/results/http_client.md`), because requests are most of their work.

A response is read to its end, or the connection is not used again. A stream that nobody reads stops
the server instead of filling memory. Whatever breaks a connection is raised as ConnectionClosed.
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
"""Bytes of a stream that may wait to be read; after that, the server has to wait."""


class ConnectionClosed(ConnectionError):
    """The connection ended before the response did. `answered`: a part of it had arrived."""

    def __init__(self, reason: str, *, answered: bool) -> None:
        super().__init__(reason)
        self.answered = answered


class _Stage(IntEnum):
    """How much of a response has arrived; each stage includes the stages before it."""

    HEAD = 1
    CHUNK = 2
    END = 3


class Connection(asyncio.Protocol):
    """Use `exchange`, or `send` and then `body`. Check `reusable` before the next request."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._loop = loop
        self.closed: asyncio.Future[None] = loop.create_future()
        self._parser = HttpResponseParser(self)
        self._waiter: asyncio.Future[None] | None = None
        self._wanted = _Stage.HEAD
        self._busy = self._paused = False
        self._failure = ""
        self._reset()

    def _reset(self) -> None:
        self.status, self.headers = 0, dict[str, str]()
        self._chunks: list[bytes] = []
        self._answered = self._ended = False

    # Requests

    @property
    def reusable(self) -> bool:
        """Whether another request may be sent."""
        return not (self._busy or self._failure or self._transport.is_closing())

    async def exchange(self, message: bytes) -> Response:
        """Send a request and read the whole response."""
        self._write(message)
        await self._wait_for(_Stage.END)
        return Response(self.status, self.headers, self._take_chunks())

    async def send(self, message: bytes) -> int:
        """Send a request and read the head of the response; returns its status."""
        self._write(message)
        await self._wait_for(_Stage.HEAD)
        return self.status

    async def body(self) -> AsyncIterator[bytes]:
        """The body of the response, as it arrives."""
        while True:
            if self._chunks:
                yield self._take_chunks()
            elif self._ended:
                return
            else:
                await self._wait_for(_Stage.CHUNK)

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def _write(self, message: bytes) -> None:
        self._reset()
        self._busy = True
        self._transport.write(message)

    async def _wait_for(self, stage: _Stage) -> None:
        current = _Stage.END if self._ended else _Stage.HEAD if self.status else 0
        if current >= stage or (stage is _Stage.CHUNK and self._chunks):
            return
        if self._failure:
            raise ConnectionClosed(self._failure, answered=self._answered)
        self._wanted, self._waiter = stage, self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _take_chunks(self) -> bytes:
        chunks, self._chunks = self._chunks, []
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _wake(self, stage: _Stage) -> None:
        if self._waiter is not None and not self._waiter.done() and stage >= self._wanted:
            self._waiter.set_result(None)

    # Callbacks of the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's has other ancestors

    def data_received(self, data: bytes) -> None:
        self._answered = True
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            self._fail(f"not HTTP: {error}")
        # exchange() takes the chunks only at the end: pausing for it would wait for ever.
        if self._wanted is not _Stage.END and sum(map(len, self._chunks)) > MAX_BUFFERED_BYTES:
            self._paused = True
            self._transport.pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        if self._busy and self.status and not self._has_length():
            self.on_message_complete()  # a response without a length ends with its connection
        self._fail(str(error or "closed"))
        if not self.closed.done():
            self.closed.set_result(None)

    def _fail(self, reason: str) -> None:
        self._failure = self._failure or reason
        self._transport.abort()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(ConnectionClosed(reason, answered=self._answered))

    def _has_length(self) -> bool:
        names = {name.lower() for name in self.headers}
        return not names.isdisjoint(("content-length", "transfer-encoding"))

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        if not self._busy:
            self._fail("a response without a request")

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1")] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200:  # a lower status only announces the response
            self.status = status
            self._wake(_Stage.HEAD)

    def on_body(self, body: bytes) -> None:
        self._chunks.append(body)
        self._wake(_Stage.CHUNK)

    def on_message_complete(self) -> None:
        if not self.status:
            self.headers.clear()
            return
        self._ended, self._busy = True, False
        if not self._parser.should_keep_alive():
            self._transport.close()
        self._wake(_Stage.END)
