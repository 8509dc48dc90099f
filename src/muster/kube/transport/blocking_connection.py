"""One blocking HTTP/1.1 connection: a request out, its answer in, one at a time.

Made and kept by `wire.py`; `connection.py` is the same for an event loop. It is as narrow as that
one, and reads by itself because whatever it imported a quick verb would pay for at its start.

Promises: an answer is read to its end or the connection is not used again; a connection that ends
before an answer begins is a ConnectionResetError, and whatever else breaks is some OSError.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from muster.kube.request import Response
from muster.kube.transport import proxy

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator
    from typing import Self

CONNECT_TIMEOUT = 10.0
CHUNK = 64 * 1024
LONGEST_LINE = 64 * 1024


class BrokenResponse(ConnectionError):
    """What came is not an answer, or not all of one."""


class ServerAddress(NamedTuple):
    """How to get to a server: its address, the proxy's if there is one, and what TLS shows."""

    host: str
    port: int
    proxy: str = ""
    tls: ssl.SSLContext | None = None
    server_name: str = ""


class BlockingConnection:
    """Send with `ask`, then read `pieces`; look at `reusable` before asking again."""

    def __init__(self, made: socket.socket) -> None:
        self._socket, self._reader = made, made.makefile("rb")
        self.status, self.headers = 0, dict[str, str]()
        self.reusable = True
        self._lasting = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._reader.close()
        self._socket.close()

    def wait_at_most(self, seconds: float | None) -> None:
        """How long the other side may be silent from now on."""
        self._socket.settimeout(seconds)

    def ask(self, message: bytes) -> None:
        """Send a request and read the head of the answer."""
        self.reusable = False
        self._socket.sendall(message)
        self.status = 0
        while self.status < 200:  # lower ones only announce the answer
            self._read_head()

    def whole(self) -> Response:
        """The answer with all of its body."""
        return Response(self.status, self.headers, b"".join(self.pieces()))

    def pieces(self) -> Iterator[bytes]:
        """The body, as it comes."""
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            while size := _number(self._line().partition(b";")[0], 16):
                yield from self._measured(size)
                self._line()
            while self._line():
                pass  # headers that come after the body; nobody sends any that matter
        elif self.status in (204, 304):
            pass
        elif length := self.headers.get("content-length"):
            yield from self._measured(_number(length.encode(), 10))
        else:
            self._lasting = False  # such an answer ends with its connection
            while piece := self._reader.read1(CHUNK):
                yield piece
        self.reusable = self._lasting

    def _read_head(self) -> None:
        first = self._reader.readline(LONGEST_LINE)
        if not first:
            raise ConnectionResetError("it closed the connection without an answer")
        version, _, rest = first.rstrip().partition(b" ")
        if not version.startswith(b"HTTP/1."):
            raise BrokenResponse(f"not HTTP: {first[:40]!r}")
        self.status, self.headers = _number(rest[:3], 10), {}
        while line := self._line():
            name, _, value = line.decode("latin-1").partition(":")
            self.headers[name.lower()] = value.strip()
        said = self.headers.get("connection", "").lower()
        self._lasting = "close" not in said and (version != b"HTTP/1.0" or "keep-alive" in said)

    def _line(self) -> bytes:
        line = self._reader.readline(LONGEST_LINE)
        if not line.endswith(b"\n"):
            raise BrokenResponse(
                "the answer was cut short" if len(line) < LONGEST_LINE else "not HTTP"
            )
        return line.rstrip(b"\r\n")

    def _measured(self, size: int) -> Iterator[bytes]:
        while size:
            piece = self._reader.read1(min(size, CHUNK))
            if not piece:
                raise BrokenResponse("the answer was cut short")
            size -= len(piece)
            yield piece


def open_connection(way: ServerAddress) -> BlockingConnection:
    """Connect: directly or through the proxy's tunnel, and shake hands if the way is by TLS."""
    via = urlsplit(way.proxy)
    address = (via.hostname or "", via.port or 80) if way.proxy else (way.host, way.port)
    made = _connected(*address)
    try:
        if way.proxy:
            _open_tunnel(made, way)
        if way.tls is not None:
            made = way.tls.wrap_socket(made, server_hostname=_plain(way.server_name or way.host))
    except BaseException:
        made.close()
        raise
    return BlockingConnection(made)


def _connected(host: str, port: int) -> socket.socket:
    name: str = _plain(host)  # type: ignore[assignment] # the system takes either
    made = socket.create_connection((name, port), CONNECT_TIMEOUT)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def _plain(host: str) -> bytes:
    """A name as bytes: given text, Python first loads its tables of international names."""
    return host.encode("ascii" if host.isascii() else "idna")


def _open_tunnel(made: socket.socket, way: ServerAddress) -> None:
    link = BlockingConnection(made)
    link.ask(proxy.connect_request(way.proxy, way.host, way.port))
    if link.status != 200:
        name = urlsplit(way.proxy).hostname
        raise ConnectionRefusedError(f"the proxy {name} answers {link.status}")


def _number(text: bytes, base: int) -> int:
    try:
        number = int(text, base)
    except ValueError:
        number = -1
    if number < 0:
        raise BrokenResponse(f"not HTTP: {text[:40]!r} is no number")
    return number
