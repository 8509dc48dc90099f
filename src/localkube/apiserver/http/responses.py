"""Answers as HTTP responses: bodies, errors, and warnings as headers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from localkube.apiserver import api_errors, codec
from localkube.apiserver.http import bodies
from localkube.apiserver.http.negotiation import JSON, YAML, media_of

if TYPE_CHECKING:
    from kubekit.errors import StatusError
    from localkube.apiserver.http.requests import Call

Headers = list[tuple[str, str]]
# kubectl prints warnings, but words a 404 itself: `autoscale` only says "empty input".
_NO_AUTOSCALER = (
    "this cluster has no HorizontalPodAutoscaler, because nothing here scales by load;"
    " set the number of replicas with `kubectl scale`"
)


def no_autoscaler() -> web.HTTPNotFound:
    """There are no autoscalers here; `kubectl autoscale` prints why."""
    # A Status: kubectl ignores the warnings of any other 404.
    return web.HTTPNotFound(
        body=codec.dump(api_errors.body(api_errors.path_not_found())),
        content_type="application/json",
        headers=_warning_headers([_NO_AUTOSCALER]),
    )


def warnings(call: Call) -> Headers:
    """The headers of the warnings of a call, and of a deprecated version."""
    deprecation = call.resource.deprecation
    return _warning_headers([*([deprecation] if deprecation else []), *call.warnings])


def _warning_headers(warnings: list[str]) -> Headers:
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in warnings)
    return [("Warning", f'299 - "{text}"') for text in quoted]


def failure(error: StatusError, warnings: Headers | None = None, accept: str = "") -> web.Response:
    """An error as a Status."""
    body = codec.dump(api_errors.body(error))
    media = media_of(accept)
    retry_after = (error.details or {}).get("retryAfterSeconds")
    again = [("Retry-After", str(retry_after))] if retry_after else []
    headers = [*(warnings or ()), *again]
    return response(body, error.status, media, headers)


def response(body: bytes, status: int, media: str, headers: Headers) -> web.Response:
    """A body that is sent at once, in the form that the client accepts."""
    body = bodies.as_yaml(body) if media == YAML else body
    return web.Response(body=body, status=status, content_type=media, headers=headers)


_INDENTED = frozenset({"/", "/version"})
"""Documents that are indented for every client."""
_FOR_PEOPLE = ("curl", "Wget", "Mozilla/5.0")
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})


def is_pretty(request: web.Request) -> bool:
    """Whether to indent an answer: the client says so, or is one that shows it to a person."""
    if request.path in _INDENTED:
        return True
    if request.path.startswith("/openapi"):
        return False
    if asked := request.query.get("pretty"):
        return asked in _TRUE
    return request.headers.get("User-Agent", "").startswith(_FOR_PEOPLE)


def indent(response: web.StreamResponse) -> None:
    """Indent the body of an answer, if it is JSON that was not sent yet."""
    if isinstance(response, web.Response) and response.content_type == JSON:
        body = response.body
        if isinstance(body, bytes) and body:
            response.body = msgspec.json.format(body, indent=2)
