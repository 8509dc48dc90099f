"""A blocking TLS connection inside the TLS connection to a proxy, which Python's sockets lack.

Loaded only for a proxy with an https URL. The inner TLS works on two buffers in memory; this class
moves their content over the outer connection.
"""

from __future__ import annotations

import io
import ssl
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from _typeshed import WriteableBuffer

T = TypeVar("T")
CHUNK = 64 * 1024


def secure_proxy(sock: socket.socket, host: str) -> ssl.SSLSocket:
    """TLS with the proxy itself, whose certificate the system's authorities must have issued."""
    return ssl.create_default_context().wrap_socket(sock, server_hostname=host)


class TlsInTls:
    """The part of a socket's interface that a BlockingConnection uses."""

    def __init__(self, outer: socket.socket, context: ssl.SSLContext, server_name: str) -> None:
        self.outer = outer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)
        self._step(self._tls.do_handshake)

    def send(self, data: memoryview) -> int:
        return self._step(lambda: self._tls.write(data))

    def receive_into(self, buffer: WriteableBuffer) -> int:
        """Fill a buffer; 0 at the end."""
        view = memoryview(buffer)
        try:
            data = self._step(lambda: self._tls.read(len(view)))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return 0
        view[: len(data)] = data
        return len(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self), CHUNK)

    def settimeout(self, seconds: float | None) -> None:
        self.outer.settimeout(seconds)

    def close(self) -> None:
        self.outer.close()

    def _step(self, step: Callable[[], T]) -> T:
        """One operation of the inner TLS, with as much sending and receiving as it needs."""
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                self._flush()
                if data := self.outer.recv(CHUNK):
                    self._incoming.write(data)
                else:
                    self._incoming.write_eof()
            else:
                self._flush()
                return result

    def _flush(self) -> None:
        while data := self._outgoing.read():
            self.outer.sendall(data)


class _Reader(io.RawIOBase):
    """The incoming bytes as a file."""

    def __init__(self, connection: TlsInTls) -> None:
        self._connection = connection

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        return self._connection.receive_into(buffer)
