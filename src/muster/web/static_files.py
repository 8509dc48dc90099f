"""The files of `static/`: read once, compressed once, cached by browsers forever.

Addresses carry a hash of the content, so a new version has new addresses.
"""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

from aiohttp import web

from kubekit.request_errors import NotFound

FOLDER = Path(__file__).parent / "static"
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FOREVER = "public, max-age=31536000, immutable"


class StaticFile(NamedTuple):
    body: bytes
    compressed: bytes
    tag: str
    content_type: str


@cache
def files() -> dict[str, StaticFile]:
    """All files by their path below `static/`."""
    found = {}
    for path in sorted(FOLDER.rglob("*")):
        if path.suffix in _TYPES:
            body, name = path.read_bytes(), path.relative_to(FOLDER).as_posix()
            tag = hashlib.sha256(body).hexdigest()[:16]
            compressed = gzip.compress(body, 9, mtime=0)
            found[name] = StaticFile(body, compressed, tag, _TYPES[path.suffix])
    return found


def url(name: str) -> str:
    """The address of a file, for templates."""
    return f"/static/{name}?v={files()[name].tag}"


async def serve(request: web.Request) -> web.Response:
    """GET /static/NAME."""
    file = files().get(request.match_info["name"])
    if file is None:
        raise NotFound("There is no such file.")
    headers = {
        "Cache-Control": _FOREVER if request.query.get("v") == file.tag else "no-cache",
        "ETag": f'"{file.tag}"',
        "Vary": "Accept-Encoding",
    }
    if f'"{file.tag}"' in request.headers.get("If-None-Match", ""):
        return web.Response(status=304, headers=headers)
    body = file.body
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        body = file.compressed
        headers["Content-Encoding"] = "gzip"
    return web.Response(body=body, headers=headers, content_type=file.content_type)
