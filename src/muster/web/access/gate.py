"""The middleware that lets a request in: its host, its page, its session, its CSRF token.

There are two kinds of identity. On the owner's machine, a browser has a session cookie that it got
for a one-time token, and the dashboard uses the credentials it was started with. Elsewhere, each
user has a bearer token of the cluster, which is used towards the API: the dashboard itself has no
rights there. The token comes with every request, from a proxy that knows the users, or once,
when the user signs in (`sign_in`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from aiohttp import web

from kubekit.errors import UsageError
from kubekit.objects.annotation_values import read_integer
from kubekit.request_errors import Forbidden, Unauthorized
from kubekit.serving.http_connection import HttpConnection
from muster.web.access import sign_in
from muster.web.access.keys import SESSION_SECONDS, Keys, Sessions, Tokens
from muster.web.access.request_facts import (
    IDENTITY,
    LOOPBACK_NAMES,
    SAFE_METHODS,
    Identity,
    fields_of,
    foreign_page,
    malformed,
    sends_in_the_clear,
    wrong_host,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp.typedefs import Handler

    from kubekit.client.auth.endpoint import Endpoint

HEALTH, STATIC = "/healthz", "/static/"
"""Everybody may load these."""
SIGN_IN, SIGN_OUT = "/sign-in", "/sign-out"
_MAX_FORM = 64 << 10
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
    reader_image: str = ""
    """The image of the pods that read models in volumes; empty: that of the installation."""
    sign_in: bool = False
    """Whether users sign in with their own bearer tokens; a request may also carry one."""
    users: frozenset[int] = frozenset()
    """The users of this machine whose requests are answered; empty: all of them."""
    hosts: tuple[str, ...] = ()
    """The names besides those of loopback under which users who sign in reach the dashboard."""


def own_users() -> frozenset[int]:
    """Root and the user who starts the server, also by `sudo`; all users for root without sudo,
    whose browser may run as any of them."""
    user = os.getuid() or read_integer(os.environ.get("SUDO_UID", ""), most=2**32 - 2)
    return frozenset((0, user)) if user else frozenset()


class Gate:
    """The checks of one server, as a middleware."""

    def __init__(
        self,
        policy: Policy,
        endpoint: Endpoint,
        on_login: Callable[[Identity], None],
        on_end: Callable[[str], None],
    ) -> None:
        """`on_login` is called with the identity of a browser that logs in, `on_end` with a user
        whose session or token has ended."""
        self._policy, self._endpoint = policy, endpoint
        self._on_login, self._on_end = on_login, on_end
        self._tokens, self._sessions = Tokens(policy.keys), Sessions(policy.keys)
        self._users = sign_in.Users(endpoint)
        self.sign_ins = sign_in.SignIns(self._users, on_end)
        proxies, hosts = (
            [n.lower() for n in names] for names in (policy.proxy_hosts, policy.hosts)
        )
        self._hosts = frozenset(proxies) or LOOPBACK_NAMES.union(hosts)

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if problem := malformed(request.headers):
            raise UsageError(problem)
        refusal = wrong_host(request.headers.get("Host", ""), self._hosts)
        refusal = refusal or foreign_page(request.method, request.headers)
        if refusal:
            raise Forbidden(refusal, status=403)
        if request.path == HEALTH or request.path.startswith(STATIC):
            return await handler(request)
        self._refuse_other_users(request)
        if self._policy.sign_in and (request.method, request.path) == ("POST", SIGN_IN):
            return await self._sign_in(request)
        token = request.query.get("token") if request.method == "GET" else None
        if token and not self._has_users:
            return self._login(request, token)
        request[IDENTITY] = identity = await self._identity(request)
        # Without room for one more, the page is answered all the same: browsers connect again.
        if isinstance(request.protocol, HttpConnection):
            request.protocol.authenticate()
        if request.method not in SAFE_METHODS:
            await self._check_change(request, identity)
        if (request.method, request.path) == ("POST", SIGN_OUT):
            return self._sign_out(request, identity)
        return await handler(request)

    async def verify(self, request: web.Request) -> None:
        """Ask again whose a request is that was let in; Unauthorized if nobody's any more."""
        await self._identity(request)

    @property
    def _has_users(self) -> bool:
        """Whether every user has a token of the cluster."""
        return self._policy.sign_in or bool(self._policy.proxy_hosts)

    def _cookie(self, request: web.Request) -> str:
        if not _is_loopback(request):
            return "__Host-muster"  # browsers take a cookie of such a name only over TLS
        # Browsers send cookies to every port of a host: each dashboard has its own name.
        return f"muster_{request.url.port}"

    async def _identity(self, request: web.Request) -> Identity:
        cookie = request.cookies.get(self._cookie(request), "")
        if self._has_users:
            return self._identity_of(*await self._user(request, cookie))
        if not self._sessions.is_valid(cookie):
            raise self._unauthorized("This browser is not logged in to the dashboard.")
        return self._identity_of_owner(cookie)

    def _identity_of(self, user: sign_in.User, secret: str) -> Identity:
        return Identity(
            user=user.key,
            endpoint=user.endpoint(self._endpoint),
            secret=secret,
            csrf=self._sessions.csrf(secret),
            name=user.name,
            namespaces=user.namespaces,
            owner=user.owner,
        )

    def _identity_of_owner(self, session: str) -> Identity:
        return Identity(_OWNER, self._endpoint, session, self._sessions.csrf(session))

    async def _user(self, request: web.Request, session: str) -> tuple[sign_in.User, str]:
        """The user of a request, and the secret by which the request is known."""
        authorization = request.headers.get("Authorization", "")
        if authorization.startswith(sign_in.BEARER):
            self._refuse_clear_text(request)
            authorization = sign_in.one_token(authorization.removeprefix(sign_in.BEARER))
            user = sign_in.User("", authorization)
            try:
                return await self._users.verify(user), authorization
            except Unauthorized:
                self._on_end(user.key)
                raise
        if not self._policy.sign_in:
            hint = "The proxy in front of the dashboard must pass the user's token on."
            raise Unauthorized("The request has no bearer token.", status=401, hint=hint)
        found = await self.sign_ins.user(session)
        if found is None:
            raise self._unauthorized("This browser is not signed in to the dashboard.")
        return found, session

    def _refuse_other_users(self, request: web.Request) -> None:
        """Refuse other users of this machine, even with a token or a cookie.

        Every user can read the arguments of a browser's process, in which `arena open` names the
        address; and browsers send cookies to the servers of all users on 127.0.0.1.
        """
        connection, users = request.protocol, self._policy.users
        uid = connection.peer_uid if isinstance(connection, HttpConnection) else None
        if users and uid is not None and uid not in users:
            raise Forbidden("This dashboard belongs to another user of the machine.", status=403)

    def _refuse_clear_text(self, request: web.Request) -> None:
        # Beside a proxy on the same machine, only loopback leads to the dashboard.
        if self._policy.sign_in and (problem := sends_in_the_clear(request.headers)):
            hint = "The token crossed a network in clear text: if others can read it, revoke it."
            raise Forbidden(problem, status=403, hint=hint)

    async def _sign_in(self, request: web.Request) -> web.Response:
        """Take the token of a user, once, and give the browser a session."""
        if not 0 < (request.content_length or 0) <= _MAX_FORM:  # it comes from anybody
            raise UsageError("The form is empty or too large.")
        if problem := sends_in_the_clear(request.headers):
            raise Forbidden(problem, status=403)
        form = await fields_of(request)
        given, namespaces = form.get("token", ""), form.get("namespaces", "")
        session, user = await self.sign_ins.open(given, namespaces)
        self._on_login(self._identity_of(user, session))
        page = quote(form.get("page", "").lstrip("/\\"), safe="/?&=%+,:@;~")
        answer = web.Response(status=303, headers={"Location": f"/{page}"})
        answer.headers["Cache-Control"] = "no-store"
        self._set_cookie(request, answer, session, sign_in.SESSION_SECONDS)
        return answer

    def _sign_out(self, request: web.Request, identity: Identity) -> web.Response:
        self.sign_ins.close(identity.secret)
        answer = web.Response(status=303, headers={"Location": "/", "Cache-Control": "no-store"})
        self._set_cookie(request, answer, "", 0)
        return answer

    def _set_cookie(
        self, request: web.Request, answer: web.Response, value: str, seconds: float
    ) -> None:
        answer.set_cookie(
            self._cookie(request),
            value,
            max_age=int(seconds),
            path="/",
            httponly=True,
            samesite="Strict",
            secure=not _is_loopback(request),
        )

    def _login(self, request: web.Request, token: str) -> web.Response:
        """Exchange the token for a session, and go to the same page without the token."""
        session = request.cookies.get(self._cookie(request), "")
        # Browsers read `//name` and `/\name` as the address of another site.
        page = str(request.rel_url.without_query_params("token")).lstrip("/\\")
        logged_in = self._sessions.is_valid(session)
        redeemed = self._tokens.redeem(token)  # also without need: nobody else may use it later
        if not (logged_in or redeemed):
            raise self._unauthorized("The address was used before, or is older than ten minutes.")
        session = session if logged_in else self._sessions.new()
        self._on_login(self._identity_of_owner(session))
        # No redirect: after a click on another site, a browser sends a strict cookie only with
        # a request that a page of ours has started.
        answer = web.Response(text=_NEXT_PAGE, content_type="text/html")
        answer.headers["Refresh"] = f"0; url=/{page}"
        answer.headers["Cache-Control"] = "no-store"
        if not logged_in:
            self._set_cookie(request, answer, session, SESSION_SECONDS)
        return answer

    async def _check_change(self, request: web.Request, identity: Identity) -> None:
        # A sign-out and the topics of a stream change nothing in the cluster.
        own = request.path == SIGN_OUT or request.path.startswith("/stream/")
        if self._policy.read_only and not own:
            raise Forbidden("This dashboard is read-only.", status=403)
        token = request.headers.get("X-CSRF-Token") or (await fields_of(request)).get("csrf", "")
        if not self._sessions.is_csrf(identity.secret, token):
            hint = "Load the page again, then repeat the change."
            raise Forbidden("The request has no valid CSRF token.", status=403, hint=hint)

    def _unauthorized(self, message: str) -> Unauthorized:
        return Unauthorized(message, status=401, hint=self._policy.login_hint)


GATE: web.AppKey[Gate] = web.AppKey("gate", Gate)


def _is_loopback(request: web.Request) -> bool:
    return (request.url.host or "") in LOOPBACK_NAMES


_NEXT_PAGE = (
    "<!doctype html><html lang=en><title>Muster</title>"
    '<link rel="icon" href="/static/icon.svg"><p>Logged in.</p></html>'
)
