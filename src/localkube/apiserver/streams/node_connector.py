"""HTTP to pods: connections that the node agent makes.

Without root, this process is outside of the pods' network, and only the node agent reaches it.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import aiohttp

from kubekit.errors import CannotRun

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable
    from socket import socket

    from aiohttp import ClientRequest, ClientTimeout
    from aiohttp.client_proto import ResponseHandler

    Dial = Callable[[str, int], Awaitable[socket]]


class NodeConnector(aiohttp.TCPConnector):
    """Makes each connection with `dial`."""

    def __init__(self, dial: Dial) -> None:
        super().__init__()
        self._dial = dial

    # aiohttp has no public place for connected sockets. This method and the one that it calls are
    # where its own connector makes a socket and starts TLS on it.
    async def _wrap_create_connection(
        self,
        *args: Any,
        addr_infos: list[Any],
        req: ClientRequest,
        timeout: ClientTimeout,
        client_error: type[Exception] = aiohttp.ClientConnectorError,
        **options: Any,
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        host, port = addr_infos[0][4][:2]
        try:
            sock = await self._dial(host, port)
        except CannotRun as error:
            reason = OSError(errno.EHOSTUNREACH, str(error))
            raise client_error(req.connection_key, reason) from error
        except OSError as error:
            raise client_error(req.connection_key, error) from error
        return await self._wrap_existing_connection(
            *args, req=req, timeout=timeout, client_error=client_error, sock=sock, **options
        )
