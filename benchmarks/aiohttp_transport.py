"""The transport of `kubekit.client` over aiohttp, as a peer of the hand-written HTTP/1.1 client.

Credentials, TLS and websockets are those of `HttpTransport`; only requests and streams go through
aiohttp, without its features that cost time and that Kubernetes does not need.
`with_aiohttp` puts it in place.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from kubekit.client.error_response import error_from_response
from kubekit.client.request import Request, Response
from kubekit.client.transport import proxy
from kubekit.client.transport.connection_pool import CONNECT_TIMEOUT
from kubekit.client.transport.http_transport import TIMEOUT, HttpTransport
from kubekit.request_errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kubekit.client.auth.credentials import Credential
    from kubekit.client.auth.endpoint import Endpoint
    from kubekit.errors import MusterError

_ENDLESS = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT)


class AiohttpTransport(HttpTransport):
    """`HttpTransport` with the connections of aiohttp."""

    def __init__(self, endpoint: Endpoint, *, user_agent: str = "muster") -> None:
        super().__init__(endpoint, user_agent=user_agent)
        self._session: aiohttp.ClientSession | None = None
        self._headers: dict[tuple[str | None, str, str], CIMultiDict[str]] = {}
        self._options: dict[str, Any] = {
            "allow_redirects": False,
            "proxy": proxy.proxy_for(endpoint) or None,
            "server_hostname": endpoint.server_name or None,
        }

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        try:
            async with await self._open(request, await self._credential()) as response:
                if response.status >= 300:
                    body = await response.read()
                    error_response = Response(response.status, response.headers, body)
                    raise error_from_response(error_response, request)
                yield response.content.iter_any()
        except (aiohttp.ClientError, OSError) as error:
            raise self._unreachable(error) from error

    async def close(self) -> None:
        await super().close()
        if self._session is not None:
            await self._session.close()

    async def _send(self, request: Request, credential: Credential) -> Response:
        try:
            async with await self._open(request, credential) as response:
                return Response(response.status, response.headers, await response.read())
        except (aiohttp.ClientError, OSError) as error:
            raise self._unreachable(error) from error

    async def _open(self, request: Request, credential: Credential) -> aiohttp.ClientResponse:
        options = self._options
        if request.timeout is not None:
            timeout = aiohttp.ClientTimeout(request.timeout) if request.timeout else _ENDLESS
            options = {**options, "timeout": timeout}
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": self._user_agent, "Accept-Encoding": "identity"},
                timeout=aiohttp.ClientTimeout(total=TIMEOUT, sock_connect=CONNECT_TIMEOUT),
            )
        return await self._session.request(
            request.method,
            URL(self._endpoint.url + request.target, encoded=True),
            data=request.body,
            headers=self._headers_for(request, credential),
            ssl=self._pool._tls or True,
            **options,
        )

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

    def _unreachable(self, error: Exception) -> MusterError:
        return Unreachable(f"cannot reach {self._endpoint.url}: {error}")
