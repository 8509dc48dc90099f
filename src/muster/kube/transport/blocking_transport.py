"""Bytes to one endpoint: connections, streams, and failures in our own words.

Used by `blocking.py` alone. Promises: imports no asyncio; one connection stays open between calls;
a GET that finds it gone stale is sent once more over a new one, anything else is not.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from muster.errors import ConfigError, MusterError, Unreachable, UntrustedCertificate
from muster.kube.error_response import error_from_response
from muster.kube.transport import blocking_connection, proxy, tls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.kube.auth.endpoint import Endpoint
    from muster.kube.request import Request, Response

TIMEOUT = 30.0
STALE_CONNECTION_ERRORS = (BrokenPipeError, ConnectionResetError)


class BlockingTransport:
    """Bytes to and from one endpoint."""

    def __init__(self, endpoint: Endpoint, user_agent: str) -> None:
        self._endpoint, self._user_agent = endpoint, user_agent
        self._proxy = proxy.proxy_for(endpoint)
        self._link: blocking_connection.BlockingConnection | None = None
        self._tls: ssl.SSLContext | None = None
        self._tls_of: tuple[Any, ...] | None = None

    def send(self, ask: Request) -> Response:
        response = self._once(ask)
        if response.status == 401 and self._endpoint.credentials.reject():
            response = self._once(ask)
        return response

    def stream(self, ask: Request) -> Iterator[bytes]:
        """The body as it comes, over a connection of its own."""
        message = self._message(ask)
        try:
            with self._dial() as own:
                own.ask(message)
                if own.status >= 300:
                    found = own.whole()
                    raise error_from_response(found, ask, expired=self.expired(found.status))
                # No answer for a while is the nature of a stream.
                own.wait_at_most(None if ask.timeout == 0 else TIMEOUT)
                yield from own.pieces()
        except OSError as error:
            raise self._explain(error) from error

    def expired(self, status: int) -> str:
        return tls.expired_certificate(self._endpoint) if status == 401 else ""

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def _once(self, ask: Request) -> Response:
        while True:
            may_resend = self._link is not None and ask.method == "GET"
            try:
                return self._exchange(ask)
            except OSError as error:
                self.close()  # so that the next turn is the last
                if not (may_resend and isinstance(error, STALE_CONNECTION_ERRORS)):
                    raise self._explain(error) from error

    def _exchange(self, ask: Request) -> Response:
        message = self._message(ask)
        if self._link is None:
            self._link = self._dial()
        self._link.ask(message)
        found = self._link.whole()
        if not self._link.reusable:
            self.close()
        return found

    def _message(self, ask: Request) -> bytes:
        credential = self._endpoint.credentials.get()
        if self._tls_of != credential[1:]:
            self.close()
            self._tls, self._tls_of = tls.client_context(self._endpoint, credential), credential[1:]
        return ask.message(self._endpoint.url, self._user_agent, credential.authorization)

    def _dial(self) -> blocking_connection.BlockingConnection:
        if urlsplit(self._proxy).scheme == "https":
            raise ConfigError(f"{self._proxy}: only an http proxy will do here")
        base = urlsplit(self._endpoint.url)
        port = base.port or (443 if base.scheme == "https" else 80)
        name = self._endpoint.server_name
        made = blocking_connection.open_connection(
            blocking_connection.ServerAddress(
                base.hostname or "", port, self._proxy, self._tls, name
            )
        )
        made.wait_at_most(TIMEOUT)
        return made

    def _explain(self, error: OSError) -> MusterError:
        url = self._endpoint.url
        if isinstance(error, ssl.SSLError):
            return UntrustedCertificate(tls.explain_untrusted(self._endpoint, error))
        if isinstance(error, TimeoutError):
            return Unreachable(f"no answer from {url} in time")
        if isinstance(error, STALE_CONNECTION_ERRORS) and (
            expired := tls.expired_certificate(self._endpoint)
        ):
            return UntrustedCertificate(f"{url} hung up: {expired}")
        return Unreachable(f"cannot reach {url}: {tls.explain_connect_error(error)}")
