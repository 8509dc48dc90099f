"""Accepts connections, and goes on after there was no descriptor for one.

The event loop's own server is not used: uvloop closes a listening socket for good when `accept`
fails.
"""

from __future__ import annotations

import asyncio
import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from io import FileIO

_AT_ONCE = 32
"""Connections accepted before other work gets its turn."""
_PAUSE = 0.1
"""Seconds without `accept` while there is no descriptor."""

_LACKING = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


def is_lack(error: BaseException) -> bool:
    """Whether the system refused a descriptor, or the memory for one."""
    return isinstance(error, OSError) and error.errno in _LACKING


class Acceptor:
    """Calls `serve` with each connection of a listening socket.

    Without a descriptor, `make_room` may close another connection; if it returns False, the new one
    is closed, so that its client does not wait.
    """

    def __init__(
        self,
        sock: socket.socket,
        serve: Callable[[socket.socket], None],
        make_room: Callable[[OSError], bool],
    ) -> None:
        sock.setblocking(False)
        self._socket, self._serve, self._make_room = sock, serve, make_room
        self._loop = asyncio.get_running_loop()
        self._resume: asyncio.TimerHandle | None = None
        self._spare = _open_spare()
        self._loop.add_reader(sock, self._accept)

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    def close(self) -> None:
        if self._resume is not None:
            self._resume.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._spare.close()

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                sock, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if is_lack(error):
                    self._pause(error)
                    return
                continue  # the client disconnected before it was accepted
            sock.setblocking(False)
            self._serve(sock)

    def _pause(self, error: OSError) -> None:
        if not self._make_room(error):
            self._spare.close()
            with suppress(OSError):  # the client disconnected, or a thread took the descriptor
                self._socket.accept()[0].close()
            with suppress(OSError):
                self._spare = _open_spare()
        self._loop.remove_reader(self._socket)
        self._resume = self._loop.call_later(_PAUSE, self._accept_again)

    def _accept_again(self) -> None:
        self._loop.add_reader(self._socket, self._accept)


def _open_spare() -> FileIO:
    """A descriptor that is given up for a moment to close a connection when there is no other."""
    return open(os.devnull, "rb", buffering=0)
