"""What a request says of its sender: who it is, from which page, and the fields of its form.

A page on another site must neither read nor change anything through the user's browser. `Host`
defeats DNS rebinding: a name of the attacker that points to 127.0.0.1 is not one of ours. `Origin`
and `Sec-Fetch-Site` tell which page sent a request. Cookies do not separate ports, so a page on
another port of this machine counts as foreign too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from aiohttp import web

from kubekit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kubekit.client.auth.endpoint import Endpoint


LOOPBACK_NAMES = frozenset(("127.0.0.1", "localhost", "::1"))
SAFE_METHODS = frozenset(("GET", "HEAD"))

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; worker-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Not `no-referrer`, with which browsers send forms with `Origin: null`.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


_HOST = re.compile(r"(?:[\w.-]+|\[[\da-f:.]+\])(?::(\d{1,5}))?", re.ASCII | re.IGNORECASE)
_MAX_PORT = 65_535


def malformed(headers: Mapping[str, str]) -> str:
    """Which header has no valid form; empty if all do."""
    host = _HOST.fullmatch(headers.get("Host", ""))
    if host is None or int(host[1] or 0) > _MAX_PORT:
        return "The header Host is not a host name with an optional port."
    try:
        urlsplit(headers.get("Origin", ""))
    except ValueError:
        return "The header Origin is not an address."
    # Bytes that are not ASCII are surrogates here, which cannot be written into an answer.
    for name in ("Origin", "X-CSRF-Token"):
        if not headers.get(name, "").isascii():
            return f"The header {name} has characters that are not allowed."
    return ""


def wrong_host(host: str, names: Collection[str]) -> str:
    """Why the header `Host` is refused; empty if it is one of these names, with any port."""
    if (urlsplit(f"//{host}").hostname or "") in names:
        return ""
    return f"This dashboard is not served as {host!r}, but as {', '.join(sorted(names))}."


def sends_in_the_clear(headers: Mapping[str, str]) -> str:
    """Why no token is taken from this request; empty if it comes over TLS or loopback.

    The dashboard does not serve TLS, so only the proxy in front of it can tell. Of several
    proxies, the first is the one to which the browser is connected. Other pages cannot set the
    header, and whoever sets it by hand gives away nothing but their own token.
    """
    host = urlsplit(f"//{headers.get('Host', '')}").hostname or ""
    proto = headers.get("X-Forwarded-Proto", "").partition(",")[0].strip().lower()
    origin = urlsplit(headers.get("Origin", "")).scheme
    if host in LOOPBACK_NAMES or (proto == "https" and origin != "http"):
        return ""
    return (
        "The dashboard was reached without TLS, so it takes no token. "
        f"Open https://{host}, through an Ingress or proxy that sends `X-Forwarded-Proto: https`; "
        "or use `kubectl port-forward`."
    )


def foreign_page(method: str, headers: Mapping[str, str]) -> str:
    """Why a request that another page sent is refused; empty if it is ours or a plain link."""
    origin = headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != headers.get("Host"):
        return f"The request comes from another page: {origin}."
    is_link = method == "GET" and headers.get("Sec-Fetch-Mode") == "navigate"
    if headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin") and not is_link:
        return "The request comes from another page."
    if method not in SAFE_METHODS and origin is None and "Sec-Fetch-Site" not in headers:
        return "A change must say which page it comes from: the header Origin is missing."
    return ""


@dataclass(frozen=True)
class Identity:
    """The user of one request."""

    user: str
    """Different for every token and choice of namespaces; empty for the owner on loopback."""
    endpoint: Endpoint
    """The cluster, with the credentials to use for this user."""
    secret: str
    """The session or the bearer token; never shown."""
    csrf: str
    name: str = ""
    """As the cluster calls the user; empty for the owner on loopback."""
    namespaces: tuple[str, ...] = ()
    """Namespaces that the user has named at the sign-in."""
    owner: str = ""
    """The same for all tokens of one user; empty for the owner on loopback."""


IDENTITY: web.RequestKey[Identity] = web.RequestKey("identity", Identity)


_CONTENT_TYPE = "application/x-www-form-urlencoded"


async def fields_of(request: web.Request) -> dict[str, str]:
    """The fields by name; none if the body is not a form.

    No page of the dashboard sends files, so `multipart/form-data`, for which aiohttp writes
    temporary files, is never read.
    """
    if request.content_type != _CONTENT_TYPE:
        return {}
    try:
        fields = await request.post()
    except (UnicodeDecodeError, LookupError) as error:
        raise UsageError(f"The form cannot be read: {error}.") from None
    return {name: value for name, value in fields.items() if isinstance(value, str)}
