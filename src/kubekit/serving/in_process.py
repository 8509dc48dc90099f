"""Connections inside the daemon: bytes go from one protocol to the other through memory.

The components of a local cluster have about ninety connections to the API server of their own
process, most of them watches. As TCP connections they take two descriptors each, which pods then
lack, and every byte is encrypted and decrypted. A component that has a connection here also keeps
it when no descriptor is left.

Each end is an ordinary asyncio transport. Bytes are delivered in a later turn of the event loop,
and a side whose bytes are not read is asked to stop writing, as with a socket.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    Data = bytes | bytearray | memoryview

_HIGH, _LOW = 256 * 1024, 64 * 1024
"""Bytes on the way at which the writer has to stop, and may go on."""


def connect(ours: asyncio.Protocol, theirs: asyncio.Protocol) -> None:
    """Connect two protocols of the running event loop."""
    one, other = _End(ours), _End(theirs)
    one.peer, other.peer = other, one
    theirs.connection_made(other)
    ours.connection_made(one)


class _End(asyncio.Transport):
    """One end of a connection; `_incoming` has the bytes that its protocol has not read yet."""

    peer: _End

    def __init__(self, protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._protocol: Any = protocol
        self._incoming: deque[bytes] = deque()
        self._size = 0
        self._reading = True
        self._scheduled = False
        self._closing = self._peer_closed = self._lost = False
        self._writing_paused = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    # Writing

    def write(self, data: Data) -> None:
        if data and not self._closing and not self.peer._closing:
            self.peer._receive(bytes(data))

    def writelines(self, list_of_data: Iterable[Data]) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return self.peer._size

    # Reading

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._schedule()

    def _receive(self, data: bytes) -> None:
        self._incoming.append(data)
        self._size += len(data)
        if self._size > _HIGH:
            self.peer._pause_writing()
        self._schedule()

    def _schedule(self) -> None:
        # The end of the connection is noticed also by a protocol that does not read now.
        if not self._scheduled and (self._peer_closed or (self._reading and self._incoming)):
            self._scheduled = True
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._scheduled = False
        if self._closing or not (self._reading or self._peer_closed):
            return
        if self._incoming:
            data = self._incoming[0] if len(self._incoming) == 1 else b"".join(self._incoming)
            self._incoming.clear()
            self._size = 0
            try:
                self._protocol.data_received(data)
            except Exception as error:  # noqa: BLE001 - as asyncio does: only this connection ends
                context = {"message": "a connection inside the daemon failed", "exception": error}
                self._loop.call_exception_handler(context)
                self.abort()
                return
            self.peer._resume_writing()
        if self._peer_closed and not self._closing:
            self._protocol.eof_received()
            self.close()

    def _pause_writing(self) -> None:
        if not self._writing_paused:
            self._writing_paused = True
            self._protocol.pause_writing()

    def _resume_writing(self) -> None:
        if self._writing_paused and self.peer._size <= _LOW:
            self._writing_paused = False
            self._protocol.resume_writing()

    # Closing

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        """Close after the peer has read what was written; bytes from the peer are dropped."""
        if not self._closing:
            self._close()
            self.peer._peer_closed = True
            self.peer._resume_writing()
            self.peer._schedule()

    def abort(self) -> None:
        """Close both ends at once."""
        for end in (self, self.peer):
            if not end._closing:
                end._close()

    def _close(self) -> None:
        self._closing = True
        self._incoming.clear()
        self._size = 0
        self._loop.call_soon(self._end)

    def _end(self) -> None:
        if not self._lost:
            self._lost = True
            self._protocol.connection_lost(None)
