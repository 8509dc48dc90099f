"""The transport of `muster.kube` over aiohttp, to measure the hand-written HTTP/1.1 client by.

It gives the same errors and renews credentials in the same way; `with_aiohttp` puts it in place.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from muster.errors import MusterError, Unreachable, UntrustedCertificate
from muster.kube.error_response import error_from_response
from muster.kube.request import Request, Response
from muster.kube.streams.websocket import WebSocketConnector
from muster.kube.transport import proxy, tls
from muster.kube.transport.http_transport import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from muster.kube.auth.credentials import Credential
    from muster.kube.auth.endpoint import Endpoint
    from muster.kube.transport.http_transport import WebSocket

CONNECT_TIMEOUT = 10.0
_ENDLESS = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT)


class AiohttpTransport:
    """aiohttp with everything switched off that costs time and that Kubernetes does not need."""

    def __init__(self, endpoint: Endpoint, *, user_agent: str = "muster") -> None:
        self._endpoint = endpoint
        self._user_agent = user_agent
        self._base = endpoint.url
        self._session: aiohttp.ClientSession | None = None
        self._websockets: WebSocketConnector | None = None
        self._headers: dict[tuple[str | None, str, str], CIMultiDict[str]] = {}
        self._tls: ssl.SSLContext | bool = True
        self._tls_of: tuple[bytes, bytes] | None = None
        self._options: dict[str, Any] = {
            "allow_redirects": False,
            "proxy": proxy.proxy_for(endpoint) or None,
            "server_hostname": endpoint.server_name or None,
        }

    async def send(self, request: Request) -> Response:
        response = await self._send(request)
        if response.status != 401:
            return response
        if self._endpoint.credentials.reject():
            response = await self._send(request)
        if expired := self._expired(response.status):
            raise error_from_response(response, request, expired=expired)
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        error_response = None
        try:
            response = await self._open(request, await self._credential())
            if response.status >= 300:
                error_response = Response(response.status, response.headers, await response.read())
        except (aiohttp.ClientError, OSError) as error:
            raise self._explain(error) from error
        async with response:
            if error_response is not None:
                status = error_response.status
                if status == 401:
                    self._endpoint.credentials.reject()
                raise error_from_response(error_response, request, expired=self._expired(status))
            yield self._chunks(response)

    @asynccontextmanager
    async def websocket(
        self, request: Request, protocols: Sequence[str]
    ) -> AsyncIterator[WebSocket]:
        if self._websockets is None:
            self._websockets = WebSocketConnector(self._endpoint, self._user_agent)
        credential = await self._credential()
        async with self._websockets.connect(request, protocols, credential) as socket:
            yield socket

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
        if self._websockets is not None:
            await self._websockets.close()

    async def _send(self, request: Request) -> Response:
        try:
            async with await self._open(request, await self._credential()) as response:
                return Response(response.status, response.headers, await response.read())
        except (aiohttp.ClientError, OSError) as error:
            raise self._explain(error) from error

    async def _credential(self) -> Credential:
        source = self._endpoint.credentials
        credential = source.get() if source.is_ready() else await asyncio.to_thread(source.get)
        if self._tls_of != credential[1:]:
            self._tls = tls.client_context(self._endpoint, credential) or True
            self._tls_of = credential[1:]
        return credential

    async def _open(self, request: Request, credential: Credential) -> aiohttp.ClientResponse:
        options = self._options
        if request.timeout is not None:
            timeout = aiohttp.ClientTimeout(request.timeout) if request.timeout else _ENDLESS
            options = {**options, "timeout": timeout}
        return await self._opened().request(
            request.method,
            URL(self._base + request.target, encoded=True),
            data=request.body,
            headers=self._headers_for(request, credential),
            ssl=self._tls,
            **options,
        )

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": self._user_agent, "Accept-Encoding": "identity"},
                timeout=aiohttp.ClientTimeout(total=TIMEOUT, sock_connect=CONNECT_TIMEOUT),
            )
        return self._session

    def _headers_for(self, request: Request, credential: Credential) -> CIMultiDict[str]:
        content_type = None if request.body is None else request.content_type
        key = (content_type, request.accept, credential.authorization)
        headers = self._headers.get(key)
        if headers is None:
            headers = self._headers[key] = CIMultiDict(Accept=request.accept)
            if content_type is not None:
                headers["Content-Type"] = content_type
            if credential.authorization:
                headers["Authorization"] = credential.authorization
        return headers

    async def _chunks(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        try:
            async for chunk in response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, OSError) as error:
            raise self._explain(error) from error

    def _expired(self, status: int) -> str:
        return tls.expired_certificate(self._endpoint) if status == 401 else ""

    def _explain(self, error: Exception) -> MusterError:
        if isinstance(error, ssl.SSLError | aiohttp.ClientSSLError):
            return UntrustedCertificate(tls.explain_untrusted(self._endpoint, error))
        if isinstance(error, TimeoutError):
            return Unreachable(f"no answer from {self._base} in time")
        return Unreachable(f"cannot reach {self._base}: {tls.explain_connect_error(error)}")
