"""One HTTP/1.1 connection of an event loop: one request at a time, and its response.

Written by hand because it is narrow: no redirects, cookies or forms. With aiohttp in
its place the scheduler and the operator use a third to a half more processor time
(`benchmarks/results/http_client.md`), because requests are most of their work.

A response is read to its end, or the connection is not used again. A stream that nobody reads stops
the server instead of filling memory. Whatever breaks a connection is raised as ConnectionClosed;
silence for longer than the caller allows is a TimeoutError, however long a response takes in all.
"""

from __future__ import annotations

import asyncio
from enum import IntEnum
from typing import TYPE_CHECKING, cast

from httptools import HttpParserError, HttpResponseParser

from kubekit.client.request import Response
from kubekit.client.transport.content_encoding import decode_body, decoder_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MAX_BUFFERED_BYTES = 1 << 20
"""Bytes of a stream that may wait to be read; after that, the server has to wait."""
_ENCODING = b"content-encoding"
_ENCODING_LENGTH = len(_ENCODING)


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
        self._timer: asyncio.TimerHandle | None = None
        self._heard_at, self._unsent = 0.0, 0
        self._wanted = _Stage.HEAD
        self._busy = self._paused = self.was_made = False
        self._failure = ""
        self._reset()

    def _reset(self) -> None:
        self.status, self.headers, self._encoding = 0, dict[str, str](), ""
        self._chunks: list[bytes] = []
        self._answered = self._ended = False

    # Requests

    @property
    def reusable(self) -> bool:
        """Whether another request may be sent."""
        return not (self._busy or self._failure or self._transport.is_closing())

    async def exchange(self, message: bytes, silence: float | None = None) -> Response:
        """Send a request and read the whole response; the server may pause for `silence`."""
        self._write(message)
        await self._wait_for(_Stage.END, silence)
        body = self._take_chunks()
        if self._encoding:
            body = decode_body(self._encoding, body)
        return Response(self.status, self.headers, body)

    async def send(self, message: bytes, silence: float | None = None) -> int:
        """Send a request and read the head of the response; returns its status."""
        self._write(message)
        await self._wait_for(_Stage.HEAD, silence)
        return self.status

    async def body(self, silence: float | None = None) -> AsyncIterator[bytes]:
        """The body of the response, as it arrives."""
        decoder = decoder_for(self._encoding)
        while True:
            if self._chunks:
                chunk = self._take_chunks()
                if decoder is None:
                    yield chunk
                    continue
                for piece in decoder.feed(chunk):
                    yield piece
            elif self._ended:
                if decoder is not None:
                    decoder.finish()
                return
            else:
                await self._wait_for(_Stage.CHUNK, silence)

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def _write(self, message: bytes) -> None:
        self._reset()
        self._busy = True
        self._transport.write(message)

    async def _wait_for(self, stage: _Stage, silence: float | None) -> None:
        current = _Stage.END if self._ended else _Stage.HEAD if self.status else 0
        if current >= stage or (stage is _Stage.CHUNK and self._chunks):
            return
        if self._failure:
            raise ConnectionClosed(self._failure, answered=self._answered)
        self._wanted, self._waiter = stage, self._loop.create_future()
        if silence is not None:
            self._heard_at = self._loop.time()
            self._timer = self._loop.call_later(silence, self._check_silence, silence)
        try:
            await self._waiter
        finally:
            self._waiter = None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _check_silence(self, silence: float) -> None:
        """Time out if no byte came or went lately, else look again when that could be so."""
        unsent = self._transport.get_write_buffer_size()
        if unsent != self._unsent:  # a large request takes its time on a slow link
            self._unsent, self._heard_at = unsent, self._loop.time()
        left = self._heard_at + silence - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._check_silence, silence)
        elif self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(TimeoutError())

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
        self.was_made = True

    def data_received(self, data: bytes) -> None:
        self._answered = True
        self._heard_at = self._loop.time()
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            self._fail(f"not HTTP: {error}")
        # exchange() takes the chunks only at the end: pausing for it would wait forever.
        if self._wanted is not _Stage.END and sum(map(len, self._chunks)) > MAX_BUFFERED_BYTES:
            self._paused = True
            self._transport.pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        names = {name.lower() for name in self.headers}
        has_length = not names.isdisjoint(("content-length", "transfer-encoding"))
        if self._busy and self.status and not has_length:
            self.on_message_complete()  # a response without a length ends with its connection
        self._fail(str(error or "closed"))
        if not self.closed.done():
            self.closed.set_result(None)

    def _fail(self, reason: str) -> None:
        self._failure = self._failure or reason
        self._transport.abort()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(ConnectionClosed(reason, answered=self._answered))

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        if not self._busy:
            self._fail("a response without a request")

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1")] = value.decode("latin-1")
        if len(name) == _ENCODING_LENGTH and name.lower() == _ENCODING:
            self._encoding = value.decode("latin-1")

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
            self._encoding = ""
            return
        self._ended, self._busy = True, False
        if not self._parser.should_keep_alive():
            self._transport.close()
        self._wake(_Stage.END)
