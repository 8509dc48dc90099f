"""A tunnel through a proxy, for any protocol of the event loop: HTTP requests and websockets."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from kubekit.client.transport import proxy as proxies
from kubekit.client.transport.connection import Connection, ConnectionClosed
from kubekit.client.transport.tls import enable_keepalive, explain_connect_error

if TYPE_CHECKING:
    import ssl

    from kubekit.client.transport.proxy import Proxy

PROXY_TIMEOUT = 10.0
TUNNEL_TIMEOUT = 30.0  # the proxy connects to the server in this time


class Destination(NamedTuple):
    """The server at the end of a tunnel; with TLS if there is a context."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    server_name: str


async def open_tunnel(
    proxy: Proxy, destination: Destination, protocol: asyncio.Protocol
) -> asyncio.Transport:
    """Connect `protocol` to the destination. Raises a ProxyError if the proxy is at fault."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(PROXY_TIMEOUT):
            transport, connection = await loop.create_connection(
                Connection, proxy.host, proxy.port, ssl=(proxy.scheme == "https") or None
            )
    except OSError as error:
        raise proxies.unreachable(proxy, explain_connect_error(error)) from error
    try:
        enable_keepalive(transport.get_extra_info("socket"))
        async with asyncio.timeout(TUNNEL_TIMEOUT):
            await _ask(proxy, connection, destination)
            return await _enter(transport, destination, protocol)
    except BaseException:
        transport.abort()
        raise


async def _ask(proxy: Proxy, connection: Connection, destination: Destination) -> None:
    request = proxies.connect_request(proxy, destination.host, destination.port)
    try:
        status = await connection.send(request)
    except ConnectionClosed as error:
        raise proxies.unreachable(proxy, "it closed the connection") from error
    if not 200 <= status < 300:
        raise proxies.refusal(proxy, destination.host, status)


async def _enter(
    transport: asyncio.Transport, destination: Destination, protocol: asyncio.Protocol
) -> asyncio.Transport:
    inner: asyncio.Transport | None = transport
    if destination.tls is None:
        transport.set_protocol(protocol)
    else:
        inner = await asyncio.get_running_loop().start_tls(
            transport, protocol, destination.tls, server_hostname=destination.server_name
        )
    if inner is None:  # asyncio's way to say that the peer left during the handshake
        raise ConnectionResetError("closed during the handshake")
    protocol.connection_made(inner)
    return inner
