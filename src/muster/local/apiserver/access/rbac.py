"""What a user may do: roles and bindings, evaluated as Kubernetes evaluates them.

`serve.py` asks before every request, `reviews.py` for those who want to know beforehand. Roles and
bindings are kept decoded and follow the store, so a binding counts from the moment it is durable.
Pure over what it has learnt.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from muster.errors import Refusal
from muster.local.apiserver import objects, status
from muster.local.apiserver.access.identity import User, account_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from muster.api.meta import Raw
    from muster.local.apiserver.entries import Change, Entry
    from muster.local.apiserver.store import Store

GROUP = "rbac.authorization.k8s.io"
_ROLES = frozenset({f"roles.{GROUP}", f"clusterroles.{GROUP}"})
_BINDINGS = frozenset({f"rolebindings.{GROUP}", f"clusterrolebindings.{GROUP}"})


class Ask(NamedTuple):
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

    def decide(self, user: User, ask: Ask) -> Verdict:
        """Whether the user may."""
        if user.all_powerful:
            return Verdict(True)
        errors: list[str] = []
        for binding, subject in self._bound(user, ask.namespace):
            for rule in self._rules(binding, errors):
                if allows(rule, ask):
                    return Verdict(True, f"RBAC: allowed by {_told(binding, subject)}")
        return Verdict(False, f"RBAC: {joined(errors)}" if errors else "")

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


def allows(rule: Raw, ask: Ask) -> bool:
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


def joined(errors: list[str]) -> str:
    """What went wrong on the way to an answer, in one text."""
    told = list(dict.fromkeys(errors))
    return told[0] if len(told) == 1 else f"[{', '.join(told)}]"


def refusal(user: User, ask: Ask, verdict: Verdict) -> Refusal:
    """The 403 for what the user may not do."""
    tail = f": {verdict.reason}" if verdict.reason else ""
    if ask.path:
        told = f'forbidden: User "{user.name}" cannot {ask.verb} path "{ask.path}"{tail}'
        return Refusal(told, status=403, reason="Forbidden", details={})
    place = f'in the namespace "{ask.namespace}"' if ask.namespace else "at the cluster scope"
    why = (
        f'User "{user.name}" cannot {ask.verb} resource "{ask.combined}" in API group'
        f' "{ask.group}" {place}{tail}'
    )
    return status.forbidden(ask.group, ask.resource, ask.name, why)
