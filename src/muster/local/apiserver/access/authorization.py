"""What a user may do: roles and bindings, evaluated as Kubernetes evaluates them.

`serve.py` asks before every request, `reviews.py` for those who want to know beforehand. Roles and
bindings are kept decoded and follow the store, so a binding counts from the moment it is durable.
Pure over what it has learnt.

The door: whose request this is, and whether it may be made at all.

`serve.py` sends every request through `Gate.enter` and `Gate.check` before anything else is looked
up, so that nobody learns from a 404 what they may not see.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from muster.api.selectors import parse_fields
from muster.errors import InvalidSelector, StatusError
from muster.local.apiserver import api_errors, objects
from muster.local.apiserver.access import authentication, credentials
from muster.local.apiserver.access.authentication import User, account_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from multidict import CIMultiDictProxy

    from muster.api.meta import Raw
    from muster.local.apiserver.access.authentication import User
    from muster.local.apiserver.access.service_account_tokens import Tokens
    from muster.local.apiserver.http.requests import Route
    from muster.local.apiserver.store.changes import Change, Entry
    from muster.local.apiserver.store.store import Store


GROUP = "rbac.authorization.k8s.io"
_ROLES = frozenset({f"roles.{GROUP}", f"clusterroles.{GROUP}"})
_BINDINGS = frozenset({f"rolebindings.{GROUP}", f"clusterrolebindings.{GROUP}"})


class AccessQuery(NamedTuple):
    """One thing somebody wants to do: to a resource, or to a path."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def combined(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Verdict(NamedTuple):
    """Yes or no, and by which binding or for want of which role."""

    allowed: bool
    reason: str = ""


class Rules(NamedTuple):
    """All that a user may do in a namespace."""

    rules: list[Raw]
    errors: list[str]


class Rbac:
    """The roles and bindings of one store."""

    def __init__(self) -> None:
        self._roles: dict[str, Sequence[Raw]] = {}
        # By namespace (none for cluster-wide ones), then by name.
        self._bindings: defaultdict[str, dict[str, Raw]] = defaultdict(dict)

    def follow(self, store: Store) -> None:
        """Learn what is stored, and everything that will be."""
        for collection in _ROLES | _BINDINGS:
            for entry in store.scan(f"{collection}/"):
                self._learn(entry, deleted=False)
        store.subscribe(self._changed)

    def _changed(self, change: Change) -> None:
        self._learn(change.entry, deleted=change.deleted)

    def _learn(self, entry: Entry, *, deleted: bool) -> None:
        collection, namespace, name = entry.key.split("/")
        if collection in _ROLES:
            self._roles.pop(entry.key, None)
            if not deleted:
                self._roles[entry.key] = objects.decode(entry.value).get("rules") or ()
        elif collection in _BINDINGS:
            self._bindings[namespace].pop(name, None)
            if not deleted:
                self._bindings[namespace][name] = objects.decode(entry.value)

    def decide(self, user: User, ask: AccessQuery) -> Verdict:
        """Whether the user may."""
        if user.all_powerful:
            return Verdict(True)
        errors: list[str] = []
        for binding, subject in self._bound(user, ask.namespace):
            for rule in self._rules(binding, errors):
                if rule_allows(rule, ask):
                    return Verdict(True, f"RBAC: allowed by {_told(binding, subject)}")
        return Verdict(False, f"RBAC: {joined_errors(errors)}" if errors else "")

    def rules(self, user: User, namespace: str) -> Rules:
        """Everything the user may do in the namespace and outside of any."""
        errors: list[str] = []
        bound = [binding for binding, _ in self._bound(user, namespace)]
        return Rules([rule for b in bound for rule in self._rules(b, errors)], errors)

    def _bound(self, user: User, namespace: str) -> Iterator[tuple[Raw, Raw]]:
        """Bindings that name the user, with the subject that does; cluster-wide ones first."""
        for place in dict.fromkeys(("", namespace)):
            bindings = self._bindings.get(place) or {}
            for name in sorted(bindings):
                subjects = bindings[name].get("subjects") or ()
                found = next((s for s in subjects if _is(user, s, place)), None)
                if found is not None:
                    yield bindings[name], found

    def of_binding(self, binding: Raw) -> Sequence[Raw] | None:
        """The rules of the role that a binding refers to; None if there is no such role."""
        kind, name = _role(binding)
        namespace = binding["metadata"].get("namespace", "") if kind == "Role" else ""
        return self._roles.get(f"{kind.lower()}s.{GROUP}/{namespace}/{name}")

    def _rules(self, binding: Raw, errors: list[str]) -> Sequence[Raw]:
        kind, name = _role(binding)
        rules = self.of_binding(binding)
        if rules is None:
            errors.append(f'{kind.lower()}.{GROUP} "{name}" not found')
        return rules or ()


def _role(binding: Raw) -> tuple[str, str]:
    referred = binding.get("roleRef") or {}
    return str(referred.get("kind", "")), str(referred.get("name", ""))


def _is(user: User, subject: Raw, namespace: str) -> bool:
    match subject.get("kind"):
        case "User":
            return bool(subject.get("name") == user.name)
        case "Group":
            return subject.get("name") in user.groups
        case "ServiceAccount":
            home = subject.get("namespace") or namespace
            return account_of(user.name) == (home, subject.get("name"))
        case _:
            return False


def rule_allows(rule: Raw, ask: AccessQuery) -> bool:
    """Whether one rule of a role covers what is asked."""
    if not _has(rule, "verbs", ask.verb):
        return False
    if ask.path:
        return any(_covers(pattern, ask.path) for pattern in rule.get("nonResourceURLs") or ())
    named = rule.get("resourceNames")
    return (
        _has(rule, "apiGroups", ask.group)
        and _has(rule, "resources", ask.combined, f"*/{ask.subresource}" if ask.subresource else "")
        and (not named or ask.name in named)
    )


def _has(rule: Raw, field: str, *wanted: str) -> bool:
    held = rule.get(field) or ()
    return "*" in held or any(value in held for value in wanted)


def _covers(pattern: str, path: str) -> bool:
    if pattern.endswith("*"):
        return path.startswith(pattern.rstrip("*"))
    return path == pattern


def _told(binding: Raw, subject: Raw) -> str:
    meta, (kind, role) = binding["metadata"], _role(binding)
    home = meta.get("namespace", "")
    bound = f'{binding["kind"]} "{meta["name"]}{"/" + home if home else ""}"'
    who = subject["name"]
    if subject["kind"] == "ServiceAccount":
        who += "/" + (subject.get("namespace") or home)
    return f'{bound} of {kind} "{role}" to {subject["kind"]} "{who}"'


def joined_errors(errors: list[str]) -> str:
    """What went wrong on the way to an answer, in one text."""
    told = list(dict.fromkeys(errors))
    return told[0] if len(told) == 1 else f"[{', '.join(told)}]"


def forbidden_error(user: User, ask: AccessQuery, verdict: Verdict) -> StatusError:
    """The 403 for what the user may not do."""
    tail = f": {verdict.reason}" if verdict.reason else ""
    if ask.path:
        told = f'forbidden: User "{user.name}" cannot {ask.verb} path "{ask.path}"{tail}'
        return StatusError(told, status=403, reason="Forbidden", details={})
    place = f'in the namespace "{ask.namespace}"' if ask.namespace else "at the cluster scope"
    why = (
        f'User "{user.name}" cannot {ask.verb} resource "{ask.combined}" in API group'
        f' "{ask.group}" {place}{tail}'
    )
    return api_errors.forbidden(ask.group, ask.resource, ask.name, why)


_MANY = frozenset({"list", "watch", "deletecollection"})
_INTERACTIVE = frozenset({"exec", "attach", "portforward"})


class Gate:
    """Who gets in, and how far."""

    def __init__(self, admin: credentials.ServerCredentials, tokens: Tokens, roles: Rbac) -> None:
        self._admin = admin
        self._tokens = tokens
        self._roles = roles

    def enter(self, headers: CIMultiDictProxy[str]) -> User:
        """The user a request is made as; 401 for nobody we know."""
        token = credentials.bearer_token(headers.get("Authorization", ""))
        user = self._admin.user(token) or (self._tokens.user(token) if token else None)
        if user is None:
            raise api_errors.unauthorized()
        other = authentication.impersonated(headers.items())
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
                raise api_errors.forbidden("", ask.resource, ask.name, verdict.reason)

    def check_path(self, user: User, method: str, path: str) -> None:
        """The same for a path that names no object."""
        self._must(user, AccessQuery(method.lower(), path=path))

    def _must(self, user: User, ask: AccessQuery) -> None:
        verdict = self._roles.decide(user, ask)
        if not verdict.allowed:
            raise forbidden_error(user, ask, verdict)


def _ask(route: Route, query: Mapping[str, str]) -> AccessQuery:
    name = route.name
    if not name and route.verb in _MANY and "fieldSelector" in query:
        name = _only_name(query["fieldSelector"])
    return AccessQuery(
        route.verb, route.group, route.plural, route.subresource, route.namespace, name
    )


def _only_name(selector: str) -> str:
    """The name a field selector narrows a list to: a role may allow that name alone."""
    try:
        terms = parse_fields(selector).terms
    except InvalidSelector:
        return ""
    return next((value for path, value, same in terms if path == "metadata.name" and same), "")


def _impersonating(other: User) -> list[AccessQuery]:
    """What one must be allowed to do in order to be answered as somebody else."""
    account = authentication.account_of(other.name)
    implied = {authentication.AUTHENTICATED}
    if account:
        namespace, name = account
        asks = [AccessQuery("impersonate", "", "serviceaccounts", namespace=namespace, name=name)]
        implied |= {authentication.ACCOUNTS, f"{authentication.ACCOUNTS}:{namespace}"}
    else:
        asks = [AccessQuery("impersonate", "", "users", name=other.name)]
    asks += [
        AccessQuery("impersonate", "", "groups", name=g) for g in other.groups if g not in implied
    ]
    group = "authentication.k8s.io"
    if other.uid:
        asks.append(AccessQuery("impersonate", group, "uids", name=other.uid))
    for key, values in other.extra.items():
        asks += [
            AccessQuery("impersonate", group, "userextras", key, name=value) for value in values
        ]
    return asks
