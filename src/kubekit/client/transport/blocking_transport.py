"""The blocking transport: one connection that stays open between calls, and one per stream.

A GET over a connection that turns out to be closed is sent once more over a new one; no other
request is. Imports no asyncio.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from kubekit.client.transport import tls
from kubekit.client.transport.blocking_connection import BlockingConnection, open_connection
from kubekit.client.transport.content_encoding import BodyTooLarge, compresses
from kubekit.client.transport.proxy import proxy_for
from kubekit.errors import Aborted, Unauthorized, UntrustedCertificate

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator

    from kubekit.client.auth.credentials import Credential
    from kubekit.client.auth.endpoint import Endpoint
    from kubekit.client.request import Request, Response
    from kubekit.errors import MusterError

T = TypeVar("T")
TIMEOUT = 30.0  # of silence, not of the whole response
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
        """The body as it arrives, over a connection of its own."""
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
        return request.message(
            self._endpoint.url,
            self._user_agent,
            credential.authorization,
            compress=self._compress,
        )

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
