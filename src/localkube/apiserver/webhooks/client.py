"""A call of a webhook: JSON over HTTPS to a URL, or to an endpoint of a service.

Failures are worded as Go's HTTP client words them, because people look for these messages.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp
import msgspec

from kubekit.errors import StatusError
from localkube.apiserver import codec
from localkube.apiserver.streams.node_connector import NodeConnector

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from localkube.apiserver.webhooks.service_endpoints import ServiceEndpoints

_MAX_ANSWER = 16 * 1024 * 1024
_UNTRUSTED = "tls: failed to verify certificate: x509: "
_EXPIRED, _WRONG_NAME, _WRONG_ADDRESS = 10, 62, 64
_CODES = {
    400: "the server rejected our request for an unknown reason",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    503: "the server is currently unable to handle the request",
}


class CallError(Exception):
    """The webhook could not be called, or did not answer as a webhook does."""


class _Target(NamedTuple):
    """Where a call goes: the URL in messages, the URL of the connection, the certificate's name."""

    url: str
    connect_url: str
    host: str = ""


class WebhookClient:
    """Calls webhooks; connections are kept for the next call."""

    def __init__(self, endpoints: ServiceEndpoints) -> None:
        self._endpoints = endpoints
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def post(self, config: Raw, body: Raw, seconds: int) -> Any:
        """The decoded answer of the webhook at the address in a `clientConfig`."""
        query = f"?timeout={seconds}s"
        shown = _shown_url(config) + query
        try:
            async with asyncio.timeout(seconds):
                target = await self._target(config, shown, query)
                return await self._send(config, target, codec.dump(body))
        except TimeoutError as error:
            raise CallError(f'Post "{shown}": context deadline exceeded') from error
        except (aiohttp.ClientError, OSError) as error:
            raise CallError(f'Post "{shown}": {_words(error)}') from error

    async def _target(self, config: Raw, shown: str, query: str) -> _Target:
        service = config.get("service")
        if not service:
            return _Target(shown, shown)
        try:
            address = await self._endpoints.find(
                service["namespace"], service["name"], service.get("port", 443)
            )
        except (LookupError, StatusError) as error:
            raise CallError(f'Post "{shown}": {error.args[0]}') from error
        host = f"{service['name']}.{service['namespace']}.svc"
        return _Target(shown, f"https://{address}{_path(service)}{query}", host)

    async def _send(self, config: Raw, target: _Target, body: bytes) -> Any:
        if self._session is None:
            # Webhooks see no cookies of others, and no proxy of the shell that started the daemon.
            self._session = aiohttp.ClientSession(
                connector=NodeConnector(self._endpoints.dial), cookie_jar=aiohttp.DummyCookieJar()
            )
        headers = {"Content-Type": "application/json", "Accept": "application/json, */*"}
        if target.host:
            headers["Host"] = target.url.split("/")[2]
        async with self._session.post(
            target.connect_url,
            data=body,
            headers=headers,
            ssl=_trust(config.get("caBundle") or ""),
            server_hostname=target.host or None,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None),
        ) as response:
            data = await _read(response)
        return _decoded(response.status, data)


async def _read(response: aiohttp.ClientResponse) -> bytes:
    data = bytearray()
    async for piece in response.content.iter_any():
        data += piece
        if len(data) > _MAX_ANSWER:
            raise CallError(f"the answer of the webhook has more than {_MAX_ANSWER} bytes")
    return bytes(data)


def _shown_url(config: Raw) -> str:
    service = config.get("service")
    if not service:
        url: str = config["url"]
        return url if "/" in url.partition("://")[2] else f"{url}/"
    port = service.get("port", 443)
    return f"https://{service['name']}.{service['namespace']}.svc:{port}{_path(service)}"


def _path(service: Raw) -> str:
    return service.get("path") or "/"


@lru_cache(maxsize=64)
def _trust(bundle: str) -> ssl.SSLContext:
    """The certificates that a webhook's own must be signed by: the bundle, or the system's."""
    try:
        pem = base64.b64decode(bundle).decode() if bundle.strip() else None
        context = ssl.create_default_context(cadata=pem)
    except (ValueError, ssl.SSLError) as error:
        raise CallError(f"unable to load root certificates: {error}") from error
    # As Go has it: a certificate in the bundle is trusted itself, and may lack extensions.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _decoded(status: int, data: bytes) -> Any:
    try:
        answer = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        answer = None
        if status < 300:
            text = f"couldn't get version/kind; json parse error: {error}"
            raise CallError(text) from error
    if 200 <= status < 300:
        return answer
    if isinstance(answer, dict) and answer.get("kind") == "Status" and answer.get("message"):
        raise CallError(str(answer["message"]))
    raise CallError(_unexpected(status, data))


def _unexpected(status: int, data: bytes) -> str:
    """What a Go client says of an answer that is no Status."""
    text = data.decode(errors="replace").strip()
    if status == 500:
        return (
            f"an error on the server ({json.dumps(text, ensure_ascii=False)}) has prevented the"
            " request from succeeding"
        )
    if status == 403:
        return text
    unknown = f"the server responded with the status code {status} but did not return more details"
    return _CODES.get(status, unknown)


def _words(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return _certificate_words(error.certificate_error, error.host)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {error.host}: no such host"
    if isinstance(error, aiohttp.ClientConnectorError):
        if isinstance(error.os_error, ConnectionRefusedError):
            return f"dial tcp {error.host}:{error.port}: connect: connection refused"
        return f"dial tcp {error.host}:{error.port}: {error.os_error.strerror or error.os_error}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    return str(error) or type(error).__name__


def _certificate_words(error: Exception, host: str) -> str:
    code = getattr(error, "verify_code", 0)
    if code == _EXPIRED:
        return f"{_UNTRUSTED}certificate has expired or is not yet valid"
    if code in (_WRONG_NAME, _WRONG_ADDRESS):
        return f"{_UNTRUSTED}certificate is not valid for {host}"
    return f"{_UNTRUSTED}certificate signed by unknown authority"
