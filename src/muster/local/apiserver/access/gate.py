"""The door: whose request this is, and whether it may be made at all.

`serve.py` sends every request through `Gate.enter` and `Gate.check` before anything else is looked
up, so that nobody learns from a 404 what they may not see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.api.selectors import parse_fields
from muster.errors import InvalidSelector
from muster.local.apiserver import status
from muster.local.apiserver.access import credentials, identity, rbac
from muster.local.apiserver.access.rbac import Ask

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multidict import CIMultiDictProxy

    from muster.local.apiserver.access.identity import User
    from muster.local.apiserver.access.rbac import Rbac
    from muster.local.apiserver.access.tokens import Tokens
    from muster.local.apiserver.request.routes import Route

_MANY = frozenset({"list", "watch", "deletecollection"})
_INTERACTIVE = frozenset({"exec", "attach", "portforward"})


class Gate:
    """Who gets in, and how far."""

    def __init__(self, admin: credentials.Access, tokens: Tokens, roles: Rbac) -> None:
        self._admin = admin
        self._tokens = tokens
        self._roles = roles

    def enter(self, headers: CIMultiDictProxy[str]) -> User:
        """The user a request is made as; 401 for nobody we know."""
        token = credentials.bearer(headers.get("Authorization", ""))
        user = self._admin.user(token) or (self._tokens.user(token) if token else None)
        if user is None:
            raise status.unauthorized()
        other = identity.impersonated(headers.items())
        if other is None:
            return user
        for ask in _impersonating(other):
            self._must(user, ask)
        return other

    def check(self, user: User, route: Route, query: Mapping[str, str]) -> None:
        """Raise a 403 if the user may not do this."""
        ask = _ask(route, query)
        self._must(user, ask)
        # A websocket opens with GET, but what goes through it changes things.
        if route.subresource in _INTERACTIVE and ask.verb == "get" and ask.resource == "pods":
            verdict = self._roles.decide(user, ask._replace(verb="create"))
            if not verdict.allowed:
                raise status.forbidden("", ask.resource, ask.name, verdict.reason)

    def check_path(self, user: User, method: str, path: str) -> None:
        """The same for a path that names no object."""
        self._must(user, Ask(method.lower(), path=path))

    def _must(self, user: User, ask: Ask) -> None:
        verdict = self._roles.decide(user, ask)
        if not verdict.allowed:
            raise rbac.refusal(user, ask, verdict)


def _ask(route: Route, query: Mapping[str, str]) -> Ask:
    name = route.name
    if not name and route.verb in _MANY and "fieldSelector" in query:
        name = _only_name(query["fieldSelector"])
    return Ask(route.verb, route.group, route.plural, route.subresource, route.namespace, name)


def _only_name(selector: str) -> str:
    """The name a field selector narrows a list to: a role may allow that name alone."""
    try:
        terms = parse_fields(selector).terms
    except InvalidSelector:
        return ""
    return next((value for path, value, same in terms if path == "metadata.name" and same), "")


def _impersonating(other: User) -> list[Ask]:
    """What one must be allowed to do in order to be answered as somebody else."""
    account = identity.account_of(other.name)
    implied = {identity.AUTHENTICATED}
    if account:
        namespace, name = account
        asks = [Ask("impersonate", "", "serviceaccounts", namespace=namespace, name=name)]
        implied |= {identity.ACCOUNTS, f"{identity.ACCOUNTS}:{namespace}"}
    else:
        asks = [Ask("impersonate", "", "users", name=other.name)]
    asks += [Ask("impersonate", "", "groups", name=g) for g in other.groups if g not in implied]
    group = "authentication.k8s.io"
    if other.uid:
        asks.append(Ask("impersonate", group, "uids", name=other.uid))
    for key, values in other.extra.items():
        asks += [Ask("impersonate", group, "userextras", key, name=value) for value in values]
    return asks
