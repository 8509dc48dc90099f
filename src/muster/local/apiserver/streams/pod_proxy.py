"""`pods/NAME:PORT/proxy/PATH`: forwards a request to a port of a pod, and the answer back.

Headers and bodies pass unchanged, except for headers that are about one connection and for the
token of the caller, which is not the pod's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp
from aiohttp import web

from muster.errors import StatusError
from muster.local.apiserver.connections.http_connection import while_connected

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster.api.meta import Raw
    from muster.local.apiserver.http.requests import Call
    from muster.local.apiserver.streams.node_interface import NodeBackend

_NOT_FORWARDED = frozenset(
    {
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailers",
        "transfer-encoding", "upgrade", "host", "authorization", "content-length",
    }
)  # fmt: skip


def port_of(pod: Raw, requested: str) -> int:
    """The port in `NAME:PORT`, by number or name; without one, the first declared port."""
    declared = [port for c in pod["spec"].get("containers") or () for port in c.get("ports") or ()]
    if requested.isdigit():
        return int(requested)
    for port in declared:
        if not requested or port.get("name") == requested:
            return int(port["containerPort"])
    return 80


async def run(
    request: web.Request, backend: NodeBackend, pod: Raw, call: Call, port: int
) -> web.StreamResponse:
    """Forward a request and stream the answer."""
    host, host_port = await backend.address(pod, port)
    query = f"?{request.rel_url.raw_query_string}" if request.rel_url.raw_query_string else ""
    url = f"http://{host}:{host_port}/{call.route.rest}{query}"
    # The body is forwarded as it comes, so it must not be decompressed on the way.
    async with while_connected(request), aiohttp.ClientSession(auto_decompress=False) as session:
        try:
            answer = await session.request(
                request.method,
                url,
                headers=_forwarded(request.headers, "content-encoding"),  # the body is plain by now
                data=call.body or None,
                allow_redirects=False,  # the client follows them, or not
                skip_auto_headers=("Accept-Encoding",),  # only the client knows what it accepts
            )
        except aiohttp.ClientError as error:
            message = f"error trying to reach service: {error}"
            raise StatusError(message, status=503, reason="ServiceUnavailable") from error
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
