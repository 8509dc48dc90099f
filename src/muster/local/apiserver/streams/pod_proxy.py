"""`pods/NAME:PORT/proxy/PATH`: a request handed on to a port of a pod, and its answer back.

Called by `streams.py`. The pod's own headers and body pass through unread; what belongs to one
connection only does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp
from aiohttp import web

from muster.errors import StatusError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster.api.meta import Raw
    from muster.local.apiserver.http.requests import Call
    from muster.local.apiserver.streams.node_backend import NodeBackend

_HOP = frozenset(
    {
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailers",
        "transfer-encoding", "upgrade", "host", "authorization", "content-length",
        "content-encoding",
    }
)  # fmt: skip


def port_of(pod: Raw, asked: str) -> int:
    """The port meant by `NAME:PORT`; by name, or the first one declared if none is named."""
    declared = [port for c in pod["spec"].get("containers") or () for port in c.get("ports") or ()]
    if asked.isdigit():
        return int(asked)
    for port in declared:
        if not asked or port.get("name") == asked:
            return int(port["containerPort"])
    return 80


async def run(
    request: web.Request, backend: NodeBackend, pod: Raw, call: Call, port: int
) -> web.StreamResponse:
    """Hand a request on and stream the answer."""
    host, reached = await backend.address(pod, port)
    query = f"?{request.rel_url.raw_query_string}" if request.rel_url.raw_query_string else ""
    url = f"http://{host}:{reached}/{call.route.rest}{query}"
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        try:
            answer = await session.request(
                request.method,
                url,
                headers=_passed(request.headers),
                data=call.body or None,
                allow_redirects=False,
            )
        except aiohttp.ClientError as error:
            told = f"error trying to reach service: {error}"
            raise StatusError(told, status=503, reason="ServiceUnavailable") from error
        async with answer:
            response = web.StreamResponse(status=answer.status, headers=_passed(answer.headers))
            await response.prepare(request)
            async for piece in answer.content.iter_any():
                await response.write(piece)
            await response.write_eof()
            return response


def _passed(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(k, v) for k, v in headers.items() if k.lower() not in _HOP]
