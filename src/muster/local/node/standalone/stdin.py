"""A program's standard input: what was typed is kept in order and written as the program reads.

Used by `shim` for attach and by `session` for exec, neither of which may wait for a program. What
is kept is bounded by whoever fills it: while it is `full` nobody should be listened to for more;
`room` is called when it no longer is. An end waits for what was typed before it.
"""

from __future__ import annotations

import os
import selectors
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_CHUNK = 64 * 1024


class StdinWriter:
    """`fd` is taken over if it is a pipe. A terminal is also read from, by others, and never ends
    because somebody stops typing."""

    def __init__(
        self,
        fd: int,
        select: selectors.BaseSelector,
        room: Callable[[], None],
        *,
        terminal: bool = False,
    ) -> None:
        self.fd = os.dup(fd) if terminal else fd
        os.set_blocking(self.fd, False)
        self._select = select
        self._room = room
        self._terminal = terminal
        self._unread = bytearray()
        self._ending = False

    @property
    def full(self) -> bool:
        return bool(self._unread)

    def take(self, data: bytes) -> None:
        """Write it, or keep it until the program reads; lost if that has closed its input."""
        if self.fd >= 0 and not self._ending:
            waiting = self.full
            self._unread += data
            if not waiting:
                self._push()

    def end(self) -> None:
        """Nobody will type any more."""
        self._ending = not self._terminal
        if self._ending and not self._unread:
            self._close()

    def _push(self, *_: Any) -> None:
        waited = self.fd in self._select.get_map()
        try:
            while self._unread:
                del self._unread[: os.write(self.fd, self._unread[:_CHUNK])]
        except BlockingIOError:
            if not waited:
                self._select.register(self.fd, selectors.EVENT_WRITE, self._push)
            return
        except OSError:  # the program closed its standard input
            self._unread.clear()
            self._ending = True
        if waited:
            self._select.unregister(self.fd)
        if self._ending:
            self._close()
        if waited:
            self._room()

    def _close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
