"""The middleware that lets a request in: its host, its page, its session, its CSRF token.

There are two kinds of identity. On loopback, a browser has a session cookie that it got for a
one-time token, and the dashboard uses the credentials it was started with. Behind a proxy, each
request carries the user's own bearer token, which is used towards the API: the dashboard has no
rights of its own there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import msgspec
from aiohttp import web

from muster.errors import Forbidden, Unauthorized, UsageError
from muster.kube.auth.credentials import Credential, StaticCredential
from muster.web.access.keys import SESSION_SECONDS, Keys, Sessions, Tokens
from muster.web.access.request_checks import (
    LOOPBACK_NAMES,
    SAFE_METHODS,
    foreign_page,
    malformed,
    wrong_host,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp.typedefs import Handler

    from muster.kube.auth.endpoint import Endpoint

PUBLIC = ("/healthz", "/static/")
_BEARER = "Bearer "
_OWNER = ""
"""The user on loopback."""


@dataclass(frozen=True)
class Policy:
    """Who may do what."""

    keys: Keys = field(default_factory=Keys.random)
    read_only: bool = False
    login_hint: str = "`arena open` opens the dashboard with a fresh address."
    directory: str = ""
    """The directory of submitted jobs that name none; empty if the cluster's nodes are not this
    machine, or if its users are not its owner."""
    proxy_hosts: tuple[str, ...] = ()
    """The names under which a proxy serves the dashboard. If there are any, every request must
    carry its user's bearer token."""


@dataclass(frozen=True)
class Identity:
    """The user of one request."""

    user: str
    """Different for every user behind a proxy; empty for the owner on loopback."""
    endpoint: Endpoint
    """The cluster, with the credentials to use for this user."""
    secret: str
    """The session or the bearer token; never shown."""
    csrf: str


IDENTITY: web.RequestKey[Identity] = web.RequestKey("identity", Identity)


class Gate:
    """The checks of one server, as a middleware."""

    def __init__(
        self, policy: Policy, endpoint: Endpoint, on_login: Callable[[str, Endpoint], None]
    ) -> None:
        """`on_login` is called with the user and the credentials of a browser that logs in."""
        self._policy, self._endpoint, self._on_login = policy, endpoint, on_login
        self._tokens, self._sessions = Tokens(policy.keys), Sessions(policy.keys)
        self._hosts = frozenset(policy.proxy_hosts) or LOOPBACK_NAMES

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if problem := malformed(request.headers):
            raise UsageError(problem)
        refusal = wrong_host(request.headers.get("Host", ""), self._hosts)
        refusal = refusal or foreign_page(request.method, request.headers)
        if refusal:
            raise Forbidden(refusal, status=403)
        if request.path.startswith(PUBLIC):
            return await handler(request)
        if token := request.query.get("token"):
            return self._login(request, token)
        request[IDENTITY] = identity = self._identity(request)
        _keep_connection(request)
        if request.method not in SAFE_METHODS:
            await self._check_change(request, identity)
        return await handler(request)

    def _cookie(self, request: web.Request) -> str:
        # Browsers send cookies to every port of a host: each dashboard has a name of its own.
        return f"muster_{request.url.port}"

    def _identity(self, request: web.Request) -> Identity:
        if self._policy.proxy_hosts:
            secret = request.headers.get("Authorization", "")
            if not secret.startswith(_BEARER):
                hint = "The proxy in front of the dashboard must pass the user's token on."
                raise Unauthorized("The request has no bearer token.", status=401, hint=hint)
            user = sha256(secret.encode()).hexdigest()
            source = StaticCredential(Credential(secret))
            endpoint = msgspec.structs.replace(self._endpoint, credentials=source)
        else:
            user = _OWNER
            secret, endpoint = request.cookies.get(self._cookie(request), ""), self._endpoint
            if not self._sessions.is_valid(secret):
                raise self._unauthorized("This browser is not logged in to the dashboard.")
        return Identity(user, endpoint, secret, self._sessions.csrf(secret))

    def _login(self, request: web.Request, token: str) -> web.Response:
        """Exchange the token for a session, and go to the same page without the token."""
        name = self._cookie(request)
        # Browsers read `//name` and `/\name` as the address of another site.
        page = str(request.rel_url.without_query_params("token")).lstrip("/\\")
        logged_in = self._sessions.is_valid(request.cookies.get(name, ""))
        if not (logged_in or self._tokens.redeem(token)):
            raise self._unauthorized("The address was used before, or is older than ten minutes.")
        self._on_login(_OWNER, self._endpoint)
        # No redirect: after a click on another site, a browser sends a strict cookie only with
        # a request that a page of ours has started.
        answer = web.Response(text=_NEXT_PAGE, content_type="text/html")
        answer.headers["Refresh"] = f"0; url=/{page}"
        answer.headers["Cache-Control"] = "no-store"
        if not logged_in:
            answer.set_cookie(
                name,
                self._sessions.new(),
                max_age=int(SESSION_SECONDS),
                path="/",
                httponly=True,
                samesite="Strict",
            )
        return answer

    async def _check_change(self, request: web.Request, identity: Identity) -> None:
        if self._policy.read_only and not request.path.startswith("/stream/"):
            raise Forbidden("This dashboard is read-only.", status=403)
        token = request.headers.get("X-CSRF-Token") or str((await request.post()).get("csrf", ""))
        if not self._sessions.is_csrf(identity.secret, token):
            hint = "Load the page again, then repeat the change."
            raise Forbidden("The request has no valid CSRF token.", status=403, hint=hint)

    def _unauthorized(self, message: str) -> Unauthorized:
        return Unauthorized(message, status=401, hint=self._policy.login_hint)


@runtime_checkable
class _Connection(Protocol):
    """A connection of `run.Door`."""

    def authenticate(self) -> bool:
        """Do not close it for connections of others; False if there are too many."""


def _keep_connection(request: web.Request) -> None:
    # Without room for one more, the page is answered all the same: browsers connect again.
    if isinstance(request.protocol, _Connection):
        request.protocol.authenticate()


_NEXT_PAGE = (
    "<!doctype html><html lang=en><title>Muster</title>"
    '<link rel="icon" href="/static/icon.svg"><p>Logged in.</p></html>'
)
