"""Bytes over http.client: connections, streams, and failures in our own words.

Used by `blocking.py` alone. Promises: imports no asyncio; one connection stays open between calls;
a GET that finds it gone stale is sent once more over a new one, anything else is not.
"""

from __future__ import annotations

import base64
import http.client
import ssl
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from muster.errors import ConfigError, MusterError, Unreachable, Untrusted
from muster.kube import proxy, tls
from muster.kube.refusal import decode_error
from muster.kube.request import Request, Response

if TYPE_CHECKING:
    from collections.abc import Iterator
    from urllib.parse import SplitResult

    from muster.kube.config import Endpoint

TIMEOUT = 30.0
CONNECT_TIMEOUT = 10.0
CHUNK = 64 * 1024
STALE = (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError)


class _Connection(http.client.HTTPConnection):
    """Plain or TLS, direct or through a proxy's tunnel, with a server name of our choice."""

    tls: ssl.SSLContext | None = None
    server_name = ""

    def open(self) -> None:
        """Connect within the short timeout, then give answers the long one."""
        self.connect()
        self.sock.settimeout(TIMEOUT)

    def connect(self) -> None:
        super().connect()
        if self.tls is not None:
            self.sock = self.tls.wrap_socket(self.sock, server_hostname=self.server_name)


class Wire:
    """Bytes to and from one endpoint."""

    def __init__(self, endpoint: Endpoint, user_agent: str) -> None:
        self._endpoint, self._user_agent = endpoint, user_agent
        self._base = urlsplit(endpoint.url)
        self._proxy = proxy.choose(endpoint)
        self._connection: _Connection | None = None
        self._tls: ssl.SSLContext | None = None
        self._tls_of: tuple[Any, ...] | None = None

    def send(self, ask: Request) -> Response:
        response = self._once(ask)
        if response.status == 401 and self._endpoint.credentials.refused():
            response = self._once(ask)
        return response

    def stream(self, ask: Request) -> Iterator[bytes]:
        """The body as it comes, over a connection of its own."""
        headers = self._headers(ask)
        connection = self._connect()
        try:
            response = self._ask(connection, ask, headers)
            if response.status >= 300:
                found = Response(response.status, dict(response.headers), response.read())
                raise decode_error(found, ask, expired=self.expired(found.status))
            # No answer for a while is the nature of a stream.
            if connection.sock is not None:
                connection.sock.settimeout(None if ask.timeout == 0 else TIMEOUT)
            while chunk := response.read1(CHUNK):
                yield chunk
        except (OSError, http.client.HTTPException) as error:
            raise self._explain(error) from error
        finally:
            connection.close()

    def expired(self, status: int) -> str:
        return tls.expired(self._endpoint) if status == 401 else ""

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _once(self, ask: Request) -> Response:
        while True:
            may_resend = self._connection is not None and ask.method == "GET"
            try:
                return self._exchange(ask)
            except (OSError, http.client.HTTPException) as error:
                self.close()  # so that the next turn is the last
                if not (may_resend and isinstance(error, STALE)):
                    raise self._explain(error) from error

    def _exchange(self, ask: Request) -> Response:
        headers = self._headers(ask)
        if self._connection is None:
            self._connection = self._connect()
        response = self._ask(self._connection, ask, headers)
        found = Response(response.status, dict(response.headers), response.read())
        if response.will_close:
            self.close()
        return found

    def _ask(
        self, connection: _Connection, ask: Request, headers: dict[str, str]
    ) -> http.client.HTTPResponse:
        if connection.sock is None:
            connection.open()
        connection.request(ask.method, self._base.path + ask.target, ask.body, headers)
        return connection.getresponse()

    def _headers(self, ask: Request) -> dict[str, str]:
        credential = self._endpoint.credentials.current()
        if self._tls_of != credential[1:]:
            self.close()
            self._tls, self._tls_of = tls.context(self._endpoint, credential), credential[1:]
        headers = {"Accept": ask.accept, "User-Agent": self._user_agent}
        if ask.body is not None:
            headers["Content-Type"] = ask.content_type
        if credential.authorization:
            headers["Authorization"] = credential.authorization
        return headers

    def _connect(self) -> _Connection:
        secure = self._base.scheme == "https"
        host, port = self._base.hostname or "", self._base.port or (443 if secure else 80)
        if not self._proxy:
            connection = _Connection(host, port, timeout=CONNECT_TIMEOUT)
        else:
            via = urlsplit(self._proxy)
            if via.scheme != "http":
                raise ConfigError(f"{self._proxy}: only an http proxy will do here")
            connection = _Connection(via.hostname or "", via.port or 80, timeout=CONNECT_TIMEOUT)
            connection.set_tunnel(host, port, _proxy_headers(via))
        connection.tls = self._tls
        connection.server_name = self._endpoint.server_name or host
        return connection

    def _explain(self, error: Exception) -> MusterError:
        url = self._endpoint.url
        if isinstance(error, ssl.SSLError):
            return Untrusted(tls.untrusted(self._endpoint, error))
        if isinstance(error, TimeoutError):
            return Unreachable(f"no answer from {url} in time")
        if isinstance(error, STALE) and (expired := tls.expired(self._endpoint)):
            return Untrusted(f"{url} hung up: {expired}")
        return Unreachable(f"cannot reach {url}: {tls.reason(error)}")


def _proxy_headers(via: SplitResult) -> dict[str, str]:
    if not via.username:
        return {}
    pair = f"{unquote(via.username)}:{unquote(via.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
