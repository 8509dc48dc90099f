"""The blocking transport: one connection that stays open between calls, and one per stream.

A GET over a connection that turns out to be closed is sent once more over a new one; no other
request is. It parses HTTP itself, because every import would delay the start of `arena list`:
http.client alone loads the whole email package. `connection.py` is the same for an event loop.

A response is read to its end, or the connection is not used again. A connection that ends before
the response begins raises ConnectionResetError; every other failure is some OSError.
"""

from __future__ import annotations

import io
import socket
import ssl
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from kubekit.client.request import Response
from kubekit.client.transport import proxy as proxies, tls
from kubekit.client.transport.content_encoding import (
    BodyTooLarge,
    compresses,
    decode_body,
    decoder_for,
)
from kubekit.client.transport.proxy import proxy_for
from kubekit.request_errors import Aborted, Unauthorized, UntrustedCertificate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from _typeshed import WriteableBuffer

    from kubekit.client.auth.credentials import Credential
    from kubekit.client.auth.endpoint import Endpoint
    from kubekit.client.request import Request
    from kubekit.client.transport.proxy import Proxy
    from kubekit.errors import MusterError


T = TypeVar("T")
TIMEOUT = 30.0  # of silence, not of the whole response
CONNECT_TIMEOUT = 10.0
TUNNEL_TIMEOUT = 30.0
CHUNK = 64 * 1024
LONGEST_LINE = 64 * 1024
STALE_CONNECTION_ERRORS = (BrokenPipeError, ConnectionResetError)


class BlockingTransport:
    """Sends requests to one endpoint."""

    def __init__(self, endpoint: Endpoint, user_agent: str) -> None:
        self._endpoint, self._user_agent = endpoint, user_agent
        self._proxy = proxy_for(endpoint)
        self._compress = compresses(endpoint)
        self._connection: BlockingConnection | None = None
        self._tls = tls.ClientContext(endpoint)
        self._context: ssl.SSLContext | None = None
        self._aborted = False
        self._streams: set[BlockingConnection] = set()

    def send(self, request: Request) -> Response:
        return self._renewing(lambda credential: self._send(request, credential))

    def stream(self, request: Request) -> Iterator[bytes]:
        """The body as it arrives, over a new connection."""
        connection = self._renewing(lambda credential: self._open_stream(request, credential))
        try:
            with connection, self._counted(connection):
                # A followed log may be silent for hours.
                silence = TIMEOUT if request.timeout is None else request.timeout
                connection.set_timeout(silence or None)
                yield from connection.body()
        except OSError as error:
            raise self._explain(error) from error

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def abort(self) -> None:
        """End all streams, from another thread; every later request raises Aborted."""
        self._aborted = True
        for connection in tuple(self._streams):
            connection.abort()

    @contextmanager
    def _counted(self, connection: BlockingConnection) -> Iterator[None]:
        self._streams.add(connection)
        try:
            self._refuse_aborted()  # after the addition: `abort` may run at any moment
            yield
        finally:
            self._streams.discard(connection)

    def _refuse_aborted(self) -> None:
        if self._aborted:
            raise Aborted("the connection was ended")

    def _renewing(self, attempt: Callable[[Credential], T]) -> T:
        """Attempt a call, and once more with newer credentials if the first are rejected."""
        source = self._endpoint.credentials
        credential = source.get()
        try:
            return attempt(credential)
        except Unauthorized:
            if not source.reject(credential):
                raise
        except UntrustedCertificate:
            if not source.reread():
                raise
        return attempt(source.get())

    def _send(self, request: Request, credential: Credential) -> Response:
        while True:
            message = self._message(request, credential)
            may_resend = self._connection is not None and request.method == "GET"
            try:
                response = self._exchange(message, request)
            except BodyTooLarge as error:
                if not (request.large and self._compress):
                    raise self._explain(error) from error
                return self._send(request._replace(large=False), credential)
            except OSError as error:
                self.close()  # so that the second attempt is the last one
                if not (may_resend and isinstance(error, STALE_CONNECTION_ERRORS)):
                    raise self._explain(error) from error
                continue
            if response.status == 401:
                raise tls.response_error(self._endpoint, response, request)
            return response

    def _exchange(self, message: bytes, request: Request) -> Response:
        if self._connection is None:
            self._connection = self._open()
        self._connection.set_timeout(request.timeout or TIMEOUT)
        self._connection.send(message)
        response = self._connection.response()
        if not self._connection.reusable:
            self.close()
        return response

    def _open_stream(self, request: Request, credential: Credential) -> BlockingConnection:
        """Send a request and read the head of its response; an error response is raised."""
        message = self._message(request, credential)
        try:
            connection = self._open()
            try:
                with self._counted(connection):
                    connection.send(message)
                    if connection.status >= 300:
                        raise tls.response_error(self._endpoint, connection.response(), request)
            except BaseException:
                connection.close()
                raise
        except OSError as error:
            raise self._explain(error) from error
        return connection

    def _message(self, request: Request, credential: Credential) -> bytes:
        self._refuse_aborted()
        context = self._tls.update(credential)
        if context is not self._context:  # another certificate: the open connection shows the old
            self.close()
            self._context = context
        url, user_agent = self._endpoint.url, self._user_agent
        return request.message(url, user_agent, credential.authorization, compress=self._compress)

    def _open(self) -> BlockingConnection:
        connection = open_connection(
            self._endpoint.url, self._proxy, self._context, self._endpoint.server_name
        )
        connection.set_timeout(TIMEOUT)
        return connection

    def _explain(self, error: OSError) -> MusterError:
        stale = isinstance(error, STALE_CONNECTION_ERRORS)
        if stale and tls.expired_certificate(self._endpoint):
            return tls.closed_connection_error(self._endpoint)
        return tls.connect_error(self._endpoint, error)


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
        body = decode_body(encoding, body) if encoding else body
        return Response(self.status, self.headers, body)

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
    tls.enable_keepalive(sock)
    return sock


def _host_bytes(host: str) -> bytes:
    """A host name as bytes: for text, Python first loads its tables of international names."""
    return host.encode("ascii" if host.isascii() else "idna")


def _open_tunnel(proxy: Proxy, host: str, port: int) -> socket.socket:
    try:
        sock = _connect(proxy.host, proxy.port)
        if proxy.scheme == "https":
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
        raise BrokenResponse(f"not HTTP: {text[:40]!r} is not a number")
    return number


def secure_proxy(sock: socket.socket, host: str) -> ssl.SSLSocket:
    """TLS with the proxy itself, whose certificate the system's authorities must have issued."""
    return ssl.create_default_context().wrap_socket(sock, server_hostname=host)


class TlsInTls:
    """A TLS connection inside the TLS connection to a proxy, which Python's sockets lack.

    It has the part of a socket's interface that a BlockingConnection uses. The inner TLS works on
    two buffers in memory, whose content goes over the outer connection.
    """

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
