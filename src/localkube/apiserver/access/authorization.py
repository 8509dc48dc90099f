"""Permissions: roles and bindings, evaluated as Kubernetes' RBAC evaluates them.

Every request is checked before the object is looked up, so that a 404 never reveals which objects
exist. Roles and bindings are held decoded and follow the store: a binding counts as soon as it is
durable.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kubekit.objects.selectors import InvalidSelector, parse_fields
from localkube.apiserver import api_errors, codec
from localkube.apiserver.access import authentication
from localkube.apiserver.access.authentication import INTERNAL_USER, User, account_of
from localkube.apiserver.kinds.roles_and_accounts import GROUP

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kubekit.objects.meta import Raw
    from localkube.apiserver.http.requests import Call, Route
    from localkube.apiserver.store.collection import Change
    from localkube.apiserver.store.store import Store


_ROLES = (f"roles.{GROUP}", f"clusterroles.{GROUP}")
_BINDINGS = (f"rolebindings.{GROUP}", f"clusterrolebindings.{GROUP}")
_COLLECTION_VERBS = frozenset({"list", "watch", "deletecollection"})
_EVERYWHERE = "at the cluster scope"
_INTERACTIVE = frozenset({"exec", "attach", "portforward"})


class AccessQuery(NamedTuple):
    """One verb on one resource or path, which a user may or may not have access to."""

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
    """Whether access is allowed, with the binding that allows it or the errors on the way."""

    allowed: bool
    reason: str = ""


class Authorizer:
    """Decides by the roles and bindings of one store."""

    def __init__(self, store: Store) -> None:
        self._roles: dict[str, Sequence[Raw]] = {}
        # By namespace (empty for cluster-wide bindings), then by name.
        self._bindings: defaultdict[str, dict[str, Raw]] = defaultdict(dict)
        store.subscribe(self._role_changed, *_ROLES)
        store.subscribe(self._binding_changed, *_BINDINGS)

    def _role_changed(self, change: Change) -> None:
        self._roles.pop(change.entry.key, None)
        if not change.deleted:
            self._roles[change.entry.key] = codec.decode(change.entry.value).get("rules") or ()

    def _binding_changed(self, change: Change) -> None:
        _, namespace, name = change.entry.key.split("/")
        self._bindings[namespace].pop(name, None)
        if not change.deleted:
            self._bindings[namespace][name] = codec.decode(change.entry.value)

    def check(self, user: User, route: Route, query: Mapping[str, str]) -> None:
        """Raise a 403 if the user may not make this request."""
        access = _access_of(route, query)
        self._require(user, access)
        # A websocket opens with GET, but commands sent through it change things.
        if route.subresource in _INTERACTIVE and access.verb == "get" and access.resource == "pods":
            verdict = self.decide(user, access._replace(verb="create"))
            if not verdict.allowed:
                raise api_errors.forbidden("", access.resource, access.name, verdict.reason)

    def check_create(self, call: Call) -> None:
        """Raise a 403 if the caller of an update or an apply may not create the object."""
        if call.user is not INTERNAL_USER:
            self._require(call.user, _access_of(call.route, {})._replace(verb="create"))

    def check_path(self, user: User, method: str, path: str) -> None:
        """Raise a 403 if the user may not request this path outside the resources."""
        self._require(user, AccessQuery(method.lower(), path=path))

    def check_impersonation(self, user: User, impersonated: User) -> None:
        """Raise a 403 if the user may not act as the impersonated user."""
        for access in _impersonation(impersonated):
            self._require(user, access)

    def _require(self, user: User, access: AccessQuery) -> None:
        """Raise a 403 if the user does not have this access."""
        verdict = self.decide(user, access)
        if verdict.allowed:
            return
        tail = f": {verdict.reason}" if verdict.reason else ""
        who = f'User "{user.name}" cannot {access.verb}'
        if access.path:
            message = f'forbidden: {who} path "{access.path}"{tail}'
            raise api_errors.error("Forbidden", message, {})
        place = f'in the namespace "{access.namespace}"' if access.namespace else _EVERYWHERE
        why = f'{who} resource "{access.combined}" in API group "{access.group}" {place}{tail}'
        raise api_errors.forbidden(access.group, access.resource, access.name, why)

    def decide(self, user: User, access: AccessQuery) -> Verdict:
        """Whether the user has this access, and by which binding."""
        if user.is_admin:
            return Verdict(True)
        # A binding whose role is missing is an error only if no other binding allows the access.
        errors: list[str] = []
        for binding, subject in self._bound(user, access.namespace):
            for rule in self._rules(binding, errors):
                if rule_allows(rule, access):
                    return Verdict(True, f"RBAC: allowed by {_binding_text(binding, subject)}")
        return Verdict(False, f"RBAC: {joined_errors(errors)}" if errors else "")

    def rules(self, user: User, namespace: str) -> tuple[list[Raw], list[str]]:
        """All rules that apply to the user in the namespace, and the errors of the evaluation."""
        errors: list[str] = []
        bindings = [binding for binding, _ in self._bound(user, namespace)]
        return [rule for b in bindings for rule in self._rules(b, errors)], errors

    def _bound(self, user: User, namespace: str) -> Iterator[tuple[Raw, Raw]]:
        """Bindings of the user, each with the subject that names them; cluster-wide first."""
        # In the order of names, so that the reason in an answer is always the same.
        for place in dict.fromkeys(("", namespace)):
            bindings = self._bindings.get(place) or {}
            for name in sorted(bindings):
                subjects = bindings[name].get("subjects") or ()
                subject = next((s for s in subjects if _is_subject(user, s, place)), None)
                if subject is not None:
                    yield bindings[name], subject

    def rules_of_binding(self, binding: Raw) -> Sequence[Raw] | None:
        """The rules of the role that a binding refers to; None if the role does not exist."""
        kind, name = _role(binding)
        namespace = binding["metadata"].get("namespace", "") if kind == "Role" else ""
        return self._roles.get(f"{kind.lower()}s.{GROUP}/{namespace}/{name}")

    def _rules(self, binding: Raw, errors: list[str]) -> Sequence[Raw]:
        kind, name = _role(binding)
        rules = self.rules_of_binding(binding)
        if rules is None:
            errors.append(f'{kind.lower()}.{GROUP} "{name}" not found')
        return rules or ()


def _role(binding: Raw) -> tuple[str, str]:
    referred = binding.get("roleRef") or {}
    return str(referred.get("kind", "")), str(referred.get("name", ""))


def _is_subject(user: User, subject: Raw, namespace: str) -> bool:
    match subject.get("kind"):
        case "User":
            return bool(subject.get("name") == user.name)
        case "Group":
            return subject.get("name") in user.groups
        case "ServiceAccount":
            # In a RoleBinding, an account without a namespace is of the binding's namespace.
            account_namespace = subject.get("namespace") or namespace
            return account_of(user.name) == (account_namespace, subject.get("name"))
        case _:
            return False


def rule_allows(rule: Raw, access: AccessQuery) -> bool:
    """Whether one rule of a role grants the access."""
    if not _has(rule, "verbs", access.verb):
        return False
    if access.path:
        return any(
            access.path.startswith(pattern.rstrip("*"))
            if pattern.endswith("*")
            else access.path == pattern
            for pattern in rule.get("nonResourceURLs") or ()
        )
    names = rule.get("resourceNames")
    # `*/scale` allows the scale of every resource; `pods` does not allow `pods/log`.
    any_with_subresource = f"*/{access.subresource}" if access.subresource else ""
    return (
        _has(rule, "apiGroups", access.group)
        and _has(rule, "resources", access.combined, any_with_subresource)
        and (not names or access.name in names)
    )


def _has(rule: Raw, field: str, *alternatives: str) -> bool:
    values = rule.get(field) or ()
    return "*" in values or any(value in values for value in alternatives)


def _binding_text(binding: Raw, subject: Raw) -> str:
    meta, (kind, role) = binding["metadata"], _role(binding)
    namespace = meta.get("namespace", "")
    binding_name = f'{binding["kind"]} "{meta["name"]}{"/" + namespace if namespace else ""}"'
    subject_name = subject["name"]
    if subject["kind"] == "ServiceAccount":
        subject_name += "/" + (subject.get("namespace") or namespace)
    return f'{binding_name} of {kind} "{role}" to {subject["kind"]} "{subject_name}"'


def joined_errors(errors: list[str]) -> str:
    """The errors of an evaluation in one text, each once."""
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def _access_of(route: Route, query: Mapping[str, str]) -> AccessQuery:
    name = route.name
    if not name and route.verb in _COLLECTION_VERBS and "fieldSelector" in query:
        name = _selected_name(query["fieldSelector"])
    return AccessQuery(
        route.verb, route.group, route.plural, route.subresource, route.namespace, name
    )


def _selected_name(selector: str) -> str:
    """The name in a field selector: a role may allow to list this one object."""
    try:
        terms = parse_fields(selector).terms
    except InvalidSelector:
        return ""
    return next((value for path, value, same in terms if path == "metadata.name" and same), "")


def _impersonation(user: User) -> list[AccessQuery]:
    """The access needed to act as this user: to the name and to each group, uid and extra."""
    account = account_of(user.name)
    implied = {authentication.AUTHENTICATED}
    if account:
        namespace, name = account
        needed = [AccessQuery("impersonate", "", "serviceaccounts", namespace=namespace, name=name)]
        implied |= {*authentication.account_groups(namespace)}
    else:
        needed = [AccessQuery("impersonate", "", "users", name=user.name)]
    needed += [
        AccessQuery("impersonate", "", "groups", name=g) for g in user.groups if g not in implied
    ]
    more = partial(AccessQuery, "impersonate", "authentication.k8s.io")
    if user.uid:
        needed.append(more("uids", name=user.uid))
    pairs = ((key, value) for key, values in user.extra.items() for value in values)
    return needed + [more("userextras", key, name=value) for key, value in pairs]
