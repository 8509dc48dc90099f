"""The blocking transport: one connection that stays open between calls, and one per stream.

A GET over a connection that turns out to be closed is sent once more over a new one; no other
request is. Imports no asyncio.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from muster.errors import Aborted, ConfigError
from muster.kube.auth.credentials import ANONYMOUS
from muster.kube.transport import blocking_connection, proxy, tls

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

    from muster.errors import MusterError
    from muster.kube.auth.endpoint import Endpoint
    from muster.kube.request import Request, Response

TIMEOUT = 30.0  # of silence, not of the whole response
STALE_CONNECTION_ERRORS = (BrokenPipeError, ConnectionResetError)


class BlockingTransport:
    """Sends requests to one endpoint."""

    def __init__(self, endpoint: Endpoint, user_agent: str) -> None:
        self._endpoint, self._user_agent = endpoint, user_agent
        self._proxy = proxy.proxy_for(endpoint)
        self._connection: blocking_connection.BlockingConnection | None = None
        self._tls: ssl.SSLContext | None = None
        self._tls_of: tuple[Any, ...] | None = None
        self._credential = ANONYMOUS
        """The credential of the last request."""
        self._aborted = False
        self._streams: set[blocking_connection.BlockingConnection] = set()

    def send(self, request: Request) -> Response:
        response = self._send(request)
        if response.status == 401 and self._endpoint.credentials.reject(self._credential):
            response = self._send(request)
        if response.status == 401:
            raise tls.response_error(self._endpoint, response, request)
        return response

    def stream(self, request: Request) -> Iterator[bytes]:
        """The body as it arrives, over a connection of its own."""
        message = self._message(request)
        try:
            with self._open() as connection, self._counted(connection):
                connection.send(message)
                if connection.status >= 300:
                    raise tls.response_error(self._endpoint, connection.response(), request)
                # A followed log may be silent for hours.
                connection.set_timeout(None if request.timeout == 0 else TIMEOUT)
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
    def _counted(self, connection: blocking_connection.BlockingConnection) -> Iterator[None]:
        self._streams.add(connection)
        try:
            self._refuse_aborted()  # after the addition: `abort` may run at any moment
            yield
        finally:
            self._streams.discard(connection)

    def _refuse_aborted(self) -> None:
        if self._aborted:
            raise Aborted("the connection was ended")

    def _send(self, request: Request) -> Response:
        while True:
            may_resend = self._connection is not None and request.method == "GET"
            try:
                return self._exchange(request)
            except OSError as error:
                self.close()  # so that the second attempt is the last one
                if not (may_resend and isinstance(error, STALE_CONNECTION_ERRORS)):
                    raise self._explain(error) from error

    def _exchange(self, request: Request) -> Response:
        message = self._message(request)
        if self._connection is None:
            self._connection = self._open()
        self._connection.send(message)
        response = self._connection.response()
        if not self._connection.reusable:
            self.close()
        return response

    def _message(self, request: Request) -> bytes:
        self._refuse_aborted()
        credential = self._credential = self._endpoint.credentials.get()
        if self._tls_of != credential[1:]:  # another certificate: the open connection shows the old
            self.close()
            self._tls, self._tls_of = tls.client_context(self._endpoint, credential), credential[1:]
        return request.message(self._endpoint.url, self._user_agent, credential.authorization)

    def _open(self) -> blocking_connection.BlockingConnection:
        if urlsplit(self._proxy).scheme == "https":
            raise ConfigError(f"{self._proxy}: only an http proxy is supported here")
        connection = blocking_connection.open_connection(
            self._endpoint.url, self._proxy, self._tls, self._endpoint.server_name
        )
        connection.set_timeout(TIMEOUT)
        return connection

    def _explain(self, error: OSError) -> MusterError:
        stale = isinstance(error, STALE_CONNECTION_ERRORS)
        if stale and tls.expired_certificate(self._endpoint):
            return tls.closed_connection_error(self._endpoint)
        return tls.connect_error(self._endpoint, error)
