"""A program's standard input: buffers input in order and writes it as the program reads.

Neither attach nor exec may wait for a program. The caller bounds the buffer: while input is
`pending`, the caller reads no more from its clients; `drained` is called when the buffer is empty
again. Closing waits until the input before it is written.
"""

from __future__ import annotations

import os
import selectors
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_CHUNK = 64 * 1024


class StdinWriter:
    """Takes ownership of `fd` if it is a pipe. A terminal has other readers too, so it stays open
    when a client closes its input."""

    def __init__(
        self,
        fd: int,
        select: selectors.BaseSelector,
        drained: Callable[[], None],
        *,
        terminal: bool = False,
    ) -> None:
        self.fd = os.dup(fd) if terminal else fd
        os.set_blocking(self.fd, False)
        self._select = select
        self._drained = drained
        self._terminal = terminal
        self._buffer = bytearray()
        self._closing = False

    @property
    def pending(self) -> bool:
        """Whether the buffer has input that the program has not read."""
        return bool(self._buffer)

    def write(self, data: bytes) -> None:
        """Write or buffer the data; dropped if the program has closed its input."""
        if self.fd >= 0 and not self._closing:
            waiting = self.pending
            self._buffer += data
            if not waiting:  # else the selector calls `_push` when the program reads
                self._push()

    def close_when_written(self) -> None:
        """Close the program's input after the buffered data."""
        self._closing = not self._terminal
        if self._closing and not self._buffer:
            self._close()

    def _push(self, *_: Any) -> None:
        waited = self.fd in self._select.get_map()
        try:
            while self._buffer:
                del self._buffer[: os.write(self.fd, self._buffer[:_CHUNK])]
        except BlockingIOError:
            if not waited:
                self._select.register(self.fd, selectors.EVENT_WRITE, self._push)
            return
        except OSError:  # the program closed its standard input
            self._buffer.clear()
            self._closing = True
        if waited:
            self._select.unregister(self.fd)
        if self._closing:
            self._close()
        if waited:
            self._drained()

    def _close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
