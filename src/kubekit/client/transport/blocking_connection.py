"""One blocking HTTP/1.1 connection: one request at a time, and its response.

It parses HTTP itself, because every import would delay the start of `arena list`: http.client alone
loads the whole email package. `connection.py` is the same for an event loop.

A response is read to its end, or the connection is not used again. A connection that ends before
the response begins raises ConnectionResetError; every other failure is some OSError.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kubekit.client.request import Response
from kubekit.client.transport import proxy as proxies
from kubekit.client.transport.content_encoding import decode_body, decoder_for
from kubekit.client.transport.keepalive import enable_keepalive

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator
    from typing import Self

    from kubekit.client.transport.proxy import Proxy
    from kubekit.client.transport.tls_in_tls import TlsInTls

CONNECT_TIMEOUT = 10.0
TUNNEL_TIMEOUT = 30.0
CHUNK = 64 * 1024
LONGEST_LINE = 64 * 1024


class BrokenResponse(ConnectionError):
    """The bytes are not an HTTP response, or not all of one."""


class BlockingConnection:
    """Use `send`, then `response` or `body`. Check `reusable` before the next request."""

    def __init__(self, sock: socket.socket | TlsInTls) -> None:
        self._socket, self._reader = sock, sock.makefile("rb")
        self.status, self.headers = 0, dict[str, str]()
        self.reusable = True
        self._keep_alive = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._reader.close()
        self._socket.close()

    def detach(self) -> None:
        """Leave the socket to another user."""
        self._reader.close()

    def abort(self) -> None:
        """End the connection from another thread: a read that waits returns."""
        with suppress(OSError):  # it may have ended by itself
            # Not the method of a TLS socket, which would take its state from the reading thread.
            sock = self._socket
            sock = sock if isinstance(sock, socket.socket) else sock.outer
            socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def set_timeout(self, seconds: float | None) -> None:
        """Limit how long the server may be silent."""
        self._socket.settimeout(seconds)

    def send(self, message: bytes) -> None:
        """Send a request and read the head of the response."""
        self.reusable = False
        unsent = memoryview(message)
        while unsent:  # not sendall, whose timeout is for the whole message
            unsent = unsent[self._socket.send(unsent) :]
        self.status = 0
        while self.status < 200:  # a lower status only announces the response
            self._read_head()

    def response(self) -> Response:
        """The response with its whole body."""
        encoding, body = self.headers.get("content-encoding", ""), b"".join(self._raw_body())
        return Response(
            self.status, self.headers, decode_body(encoding, body) if encoding else body
        )

    def body(self) -> Iterator[bytes]:
        """The body in chunks, as it arrives."""
        decoder = decoder_for(self.headers.get("content-encoding", ""))
        if decoder is None:
            yield from self._raw_body()
            return
        for chunk in self._raw_body():
            yield from decoder.feed(chunk)
        decoder.finish()

    def _raw_body(self) -> Iterator[bytes]:
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            while size := _number(self._line().partition(b";")[0], 16):
                yield from self._read_exactly(size)
                self._line()
            while self._line():
                pass  # trailers
        elif self.status in (204, 304):
            pass
        elif length := self.headers.get("content-length"):
            yield from self._read_exactly(_number(length.encode(), 10))
        else:
            self._keep_alive = False  # a response without a length ends with its connection
            while chunk := self._reader.read1(CHUNK):
                yield chunk
        self.reusable = self._keep_alive

    def _read_head(self) -> None:
        first = self._reader.readline(LONGEST_LINE)
        if not first:
            raise ConnectionResetError("it closed the connection without a response")
        version, _, rest = first.rstrip().partition(b" ")
        if not version.startswith(b"HTTP/1."):
            raise BrokenResponse(f"not HTTP: {first[:40]!r}")
        self.status, self.headers = _number(rest[:3], 10), {}
        while line := self._line():
            name, _, value = line.decode("latin-1").partition(":")
            self.headers[name.lower()] = value.strip()
        option = self.headers.get("connection", "").lower()
        persistent = version != b"HTTP/1.0" or "keep-alive" in option
        self._keep_alive = persistent and "close" not in option

    def _line(self) -> bytes:
        line = self._reader.readline(LONGEST_LINE)
        if not line.endswith(b"\n"):
            raise BrokenResponse(
                "the response was cut short" if len(line) < LONGEST_LINE else "not HTTP"
            )
        return line.rstrip(b"\r\n")

    def _read_exactly(self, size: int) -> Iterator[bytes]:
        while size:
            chunk = self._reader.read1(min(size, CHUNK))
            if not chunk:
                raise BrokenResponse("the response was cut short")
            size -= len(chunk)
            yield chunk


def open_connection(
    url: str, proxy: Proxy | None, tls: ssl.SSLContext | None, server_name: str
) -> BlockingConnection:
    """Connect to a server, directly or through a proxy; with TLS if there is a context."""
    server = urlsplit(url)
    host, port = server.hostname or "", server.port or (443 if server.scheme == "https" else 80)
    sock = _connect(host, port) if proxy is None else _open_tunnel(proxy, host, port)
    try:
        if tls is None:
            return BlockingConnection(sock)
        if proxy is not None and proxy.scheme == "https":
            from kubekit.client.transport.tls_in_tls import TlsInTls

            return BlockingConnection(TlsInTls(sock, tls, server_name or host))
        name = _host_bytes(server_name or host)
        return BlockingConnection(tls.wrap_socket(sock, server_hostname=name))
    except BaseException:
        sock.close()
        raise


def _connect(host: str, port: int) -> socket.socket:
    name: str = _host_bytes(host)  # type: ignore[assignment] # the system takes either
    sock = socket.create_connection((name, port), CONNECT_TIMEOUT)
    # A request is one write: waiting for more data would only delay it.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    enable_keepalive(sock)
    return sock


def _host_bytes(host: str) -> bytes:
    """A host name as bytes: for text, Python first loads its tables of international names."""
    return host.encode("ascii" if host.isascii() else "idna")


def _open_tunnel(proxy: Proxy, host: str, port: int) -> socket.socket:
    try:
        sock = _connect(proxy.host, proxy.port)
        if proxy.scheme == "https":
            from kubekit.client.transport.tls_in_tls import secure_proxy

            sock = secure_proxy(sock, proxy.host)
    except OSError as error:
        raise proxies.unreachable(proxy, _reason(error)) from error
    connection = BlockingConnection(sock)
    try:
        connection.set_timeout(TUNNEL_TIMEOUT)
        connection.send(proxies.connect_request(proxy, host, port))
    except OSError as error:
        connection.close()
        raise proxies.unreachable(proxy, _reason(error)) from error
    if not 200 <= connection.status < 300:
        connection.close()
        raise proxies.refusal(proxy, host, connection.status)
    connection.detach()
    return sock


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return error.strerror or str(error)


def _number(text: bytes, base: int) -> int:
    try:
        number = int(text, base)
    except ValueError:
        number = -1
    if number < 0:
        raise BrokenResponse(f"not HTTP: {text[:40]!r} is no number")
    return number
