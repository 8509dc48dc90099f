"""Several streams read at once, each by its own thread."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

T = TypeVar("T")

_STARTED, _ENDED = object(), object()


class Interleaved(Generic[T]):
    """The items of all streams as they come, until all have ended.

    The iterable of streams is read by a thread too: a stream may be added while others are read.
    """

    def __init__(self) -> None:
        self.closed = threading.Event()
        """Set when the reader has left."""
        # Bounded, so that a slow reader slows the streams.
        self._messages: queue.Queue[Any] = queue.Queue(maxsize=256)

    def read(self, streams: Iterable[Iterator[T]]) -> Iterator[T]:
        threading.Thread(target=self._start_all, args=(streams,), daemon=True).start()
        running = 1  # the thread that starts the others
        try:
            while running:
                message = self._messages.get()
                if message is _STARTED:
                    running += 1
                elif message is _ENDED:
                    running -= 1
                else:
                    yield message
        finally:
            self.closed.set()

    def _start_all(self, streams: Iterable[Iterator[T]]) -> None:
        try:
            for stream in streams:
                if self.closed.is_set():
                    break
                self.send(_STARTED)
                threading.Thread(target=self._forward, args=(stream,), daemon=True).start()
        finally:
            self.send(_ENDED)

    def _forward(self, stream: Iterator[T]) -> None:
        try:
            for item in stream:
                self.send(item)
                if self.closed.is_set():
                    break
        finally:
            self.send(_ENDED)

    def send(self, message: T | object) -> None:
        """Add an item to those that are read; a stream may do so between its own."""
        while not self.closed.is_set():
            try:
                self._messages.put(message, timeout=0.2)
            except queue.Full:
                continue
            break
