"""Errors as pages: one sentence, the next step, and the HTTP status that fits."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from aiohttp import web

from kubekit.errors import MusterError
from kubekit.telemetry.unexpected_errors import RepeatedLine
from muster.web.access.gate import SIGN_IN
from muster.web.access.request_facts import IDENTITY, sends_in_the_clear
from muster.web.context import POLICY, page, status_of

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler


log = logging.getLogger(__name__)
_strangers_log = RepeatedLine(log, logging.ERROR)
_MAX_PATH = 200

_TITLES = {
    400: "Wrong request",
    401: "Not logged in",
    403: "Not allowed",
    404: "Not found",
    405: "Wrong request",
    409: "It has changed",
    413: "Too large",
    422: "Invalid",
    429: "Too many requests",
    502: "The cluster does not answer",
}


BEGUN: web.RequestKey[web.StreamResponse] = web.RequestKey("begun", web.StreamResponse)
"""The response of which a part is sent already."""


@web.middleware
async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn every error into a page, or into plain text for a script."""
    try:
        return await handler(request)
    except web.HTTPNotFound:
        return await _answer(request, 404, f"There is no page {request.path}.")
    except web.HTTPMethodNotAllowed:
        return await _answer(request, 405, f"{request.path} has no {request.method}.")
    except web.HTTPRequestEntityTooLarge:
        return await _answer(request, 413, "The text is larger than 1 MiB, so it was not read.")
    except MusterError as error:
        return await _answer(request, status_of(error), str(error), error.hint)
    except web.HTTPException:
        raise
    except Exception as error:  # noqa: BLE001 - a bug: it becomes a page and a line of log
        _log(request, error)
        hint = "This is a bug in Muster; the log of the dashboard shows where."
        return await _answer(request, 500, "The page could not be made.", hint)


def _log(request: web.Request, error: Exception) -> None:
    line = "dashboard: %s %s"
    if IDENTITY in request:
        log.exception(line, request.method, request.path)
    else:  # every user of the machine can send such a request as often as they like
        path = request.path[:_MAX_PATH]
        _strangers_log.log(f"{line}: %s", request.method, path, repr(error)[:_MAX_PATH])


async def _answer(
    request: web.Request, status: int, message: str, hint: str = ""
) -> web.StreamResponse:
    if BEGUN in request:
        return _cut_off(request, message)
    if "text/html" not in request.headers.get("Accept", "") or request.headers.get("HX-Request"):
        return web.Response(text=f"{message} {hint}".strip() + "\n", status=status)
    view = {"title": _TITLES.get(status, "Something went wrong"), "message": message, "hint": hint}
    template = "error.html"
    is_form = status == 401 or (status == 400 and request.path == SIGN_IN)
    if is_form and request.app[POLICY].sign_in:
        # The form for the token of a user leads to the page that the user wanted.
        page_after = "" if request.path == SIGN_IN else str(request.rel_url)
        clear_text = sends_in_the_clear(request.headers)
        view |= {"title": "Sign in", "clear_text": clear_text, "page": page_after}
        template = "sign_in.html"
    return await page(request, template, lambda: view, status=status)


def _cut_off(request: web.Request, message: str) -> web.StreamResponse:
    """End an answer that was sent in part, so that no browser takes a part for the whole file."""
    log.warning("dashboard: %s was not sent whole: %s", request.path, message)
    if request.transport is not None:
        request.transport.close()
    return request[BEGUN]
