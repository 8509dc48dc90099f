"""`pods|services|nodes/NAME:PORT/proxy/PATH`: forwards a request, and the answer back.

Headers and bodies pass unchanged, except for headers that are about one connection and for the
token of the caller, which is not the business of the program behind the port. Behind
`nodes/NAME/proxy` without a port there is no kubelet: only `healthz` is answered.
"""

from __future__ import annotations

import errno
import random
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp
from aiohttp import web

from kubekit.objects.annotation_values import read_integer
from kubekit.serving.http_connection import while_connected
from localkube.apiserver import api_errors
from localkube.node_interface import CannotRun

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Mapping
    from socket import socket

    from aiohttp import ClientRequest, ClientTimeout
    from aiohttp.client_proto import ResponseHandler

    from kubekit.objects.meta import Raw
    from localkube.node_interface import NodeBackend

    Dial = Callable[[str, int], Awaitable[socket]]
    from localkube.apiserver.http.requests import Call


LAST_PORT = 65_535
_NOT_FORWARDED = frozenset(
    {
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailers",
        "transfer-encoding", "upgrade", "host", "authorization", "content-length",
    }
)  # fmt: skip
_SCHEMES = ("http", "https")


class Requested(NamedTuple):
    """The name in the path of a request, `[SCHEME:]NAME[:PORT]`."""

    scheme: str
    name: str
    port: str


def requested(text: str, kind: str) -> Requested:
    """The parts of the name; `kind` is for the message about a name with other parts."""
    parts = text.split(":")
    scheme, name, port = {1: ["", *parts, ""], 2: ["", *parts]}.get(len(parts), parts[:3])
    if len(parts) > 3 or not name or scheme not in ("", *_SCHEMES):
        raise api_errors.bad_request(f'invalid {kind} request "{text}"')
    return Requested(scheme or "http", name, port)


def port_number(port: str) -> int:
    """The number of a port; 0 for a name, and for no port."""
    if re.fullmatch("|[0-9-]*[a-z-][a-z0-9-]*", port):
        return 0
    number = read_integer(port, LAST_PORT)
    if not number:
        raise api_errors.bad_request(f"{port[:40]!r} is not a port")
    return number


async def forward(
    request: web.Request, backend: NodeBackend, call: Call, server: str
) -> web.StreamResponse:
    """Forward a request to `SCHEME://HOST:PORT` and stream the answer."""
    query = f"?{request.rel_url.raw_query_string}" if request.rel_url.raw_query_string else ""
    slash = "/" if request.path.endswith("/") else ""
    if not (call.route.rest or slash) and request.method in ("GET", "HEAD"):
        # A redirect to the root, without which the relative links of the server lead nowhere.
        return web.Response(status=301, headers={"Location": f"{request.rel_url.raw_path}/{query}"})
    slash = slash if call.route.rest else ""
    url = f"{server}/{call.route.rest}{slash}{query}"
    # The body is forwarded as it comes, so it must not be decompressed on the way.
    session = aiohttp.ClientSession(connector=NodeConnector(backend.dial), auto_decompress=False)
    async with while_connected(request), session:
        try:
            answer = await session.request(
                request.method,
                url,
                headers=_forwarded(request.headers, "content-encoding"),  # the body is plain by now
                data=call.body or None,
                allow_redirects=False,  # the client follows them, or not
                skip_auto_headers=("Accept-Encoding",),  # only the client knows what it accepts
                ssl=False,  # as with a real server: nobody knows which certificate a pod has
            )
        except aiohttp.ClientError as error:
            message = f"error trying to reach service: {error}"
            raise api_errors.error("ServiceUnavailable", message) from error
        async with answer:
            response = web.StreamResponse(status=answer.status, headers=_forwarded(answer.headers))
            await response.prepare(request)
            async for piece in answer.content.iter_any():
                await response.write(piece)
            await response.write_eof()
            return response


def _forwarded(headers: Mapping[str, str], *others: str) -> list[tuple[str, str]]:
    """The headers that pass, without those and the `others`."""
    dropped = _NOT_FORWARDED.union(others)
    return [(k, v) for k, v in headers.items() if k.lower() not in dropped]


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


# -- pods and services -----------------------------------------------------------------------------


def pod_port(pod: Raw, port: str) -> int:
    """The port in `NAME:PORT`, by number or name; without one, the first declared port."""
    declared = [row for c in pod["spec"].get("containers") or () for row in c.get("ports") or ()]
    if number := port_number(port):
        return number
    for row in declared:
        if not port or row.get("name") == port:
            return int(row["containerPort"])
    return 80


def port_name(service: Raw, port: str) -> str:
    """The name of the port that a request gives by its name or by its number."""
    number = read_integer(port)
    if number is None:
        return port
    for row in service["spec"].get("ports") or ():
        if row["port"] == number:
            return str(row.get("name") or "")
    name = service["metadata"]["name"]
    message = f'no service port {port} found for service "{name}"'
    raise api_errors.error("ServiceUnavailable", message)


def endpoint(endpoints: Raw, name: str, requested: str) -> tuple[str, int]:
    """The address and port of one ready endpoint for the port of this name.

    `requested` is the name in the path, for the message.
    """
    subsets = endpoints.get("subsets") or []
    if not subsets:
        requested = endpoints["metadata"]["name"]
    found = [
        (address["ip"], port["port"])
        for subset in subsets
        for port in subset.get("ports") or ()
        if (port.get("name") or "") == name
        for address in subset.get("addresses") or ()
    ]
    if not found:
        message = f'no endpoints available for service "{requested}"'
        raise api_errors.error("ServiceUnavailable", message)
    return random.choice(found)


# -- nodes -----------------------------------------------------------------------------------------


def address_of(node: Raw) -> str:
    """The address of the machine; a node that nothing runs has none."""
    addresses = (node.get("status") or {}).get("addresses") or []
    for row in addresses:
        if row.get("type") == "InternalIP":
            return str(row["address"])
    message = f"no preferred addresses found; known addresses: {addresses}"
    raise api_errors.error("", message)
