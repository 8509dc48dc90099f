"""Nobody gives away more than they have: roles and bindings are written only by their equals.

`verbs.py` asks before every write. Whoever may `escalate` a role or `bind` to one is exempt, as is
the server itself.
"""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from muster.local.apiserver import api_errors, objects
from muster.local.apiserver.access.authentication import INTERNAL_USER
from muster.local.apiserver.access.authorization import GROUP, AccessQuery, Rbac, rule_allows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from muster.api.meta import Raw
    from muster.local.apiserver.access.authorization import Rules
    from muster.local.apiserver.http.requests import Call

_EVERYTHING = (
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
)


class Escalation(NamedTuple):
    """What may be written into roles and bindings."""

    roles: Rbac

    def check(self, call: Call, new: Raw, old: Raw | None = None) -> None:
        """Raise a 403 if the caller would give away what is not theirs."""
        user, resource = call.user, call.resource
        if resource.group != GROUP or user is INTERNAL_USER or user.all_powerful:
            return
        if old is not None and _lasting(new) == _lasting(old):
            return
        name, namespace = str(new["metadata"].get("name") or ""), call.route.namespace
        if resource.plural in ("roles", "clusterroles"):
            ask = AccessQuery("escalate", GROUP, resource.plural, "", namespace, name)
        else:
            referred: Raw = new["roleRef"]
            plural = f"{str(referred['kind']).lower()}s"
            ask = AccessQuery("bind", GROUP, plural, "", namespace, str(referred["name"]))
        if self.roles.decide(user, ask).allowed:
            return
        held = self.roles.rules(user, namespace)
        missing = _not_covered(self._given(call, new), held.rules)
        if missing:
            groups = " ".join(json.dumps(group) for group in user.groups)
            why = (
                f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions'
                " not currently held:\n" + "\n".join(missing) + _errors(held)
            )
            raise api_errors.forbidden(GROUP, resource.plural, name, why)

    def _given(self, call: Call, new: Raw) -> Sequence[Raw]:
        """The rules that the object gives to somebody."""
        if call.resource.plural in ("roles", "clusterroles"):
            joined = _EVERYTHING if new.get("aggregationRule") else ()
            return [*(new.get("rules") or ()), *joined]
        rules = self.roles.of_binding(new)
        if rules is None:
            raise api_errors.not_found(GROUP, call.resource.plural, str(new["roleRef"]["name"]))
        return rules


def _lasting(obj: Raw) -> Raw:
    """All but what the garbage collector writes."""
    left_out = ("ownerReferences", "finalizers", "resourceVersion")
    return obj | {"metadata": {k: v for k, v in obj["metadata"].items() if k not in left_out}}


def _not_covered(given: Iterable[Raw], held: Sequence[Raw]) -> list[str]:
    """What is given and not held, in Kubernetes' words: per resource, with its verbs."""
    verbs: defaultdict[tuple[tuple[str, str], ...], list[str]] = defaultdict(list)
    for what, ask in (single for rule in given for single in _singles(rule)):
        if not any(rule_allows(rule, ask) for rule in held) and ask.verb not in verbs[what]:
            verbs[what].append(ask.verb)
    return sorted(_told(what, found) for what, found in verbs.items() if found)


def _singles(rule: Raw) -> Iterator[tuple[tuple[tuple[str, str], ...], AccessQuery]]:
    """A rule in its smallest parts: what it is about, and the one thing that may be done to it."""
    for verb, path in product(rule.get("verbs") or (), rule.get("nonResourceURLs") or ()):
        yield (("NonResourceURLs", path),), AccessQuery(verb, path=path)
    names = rule.get("resourceNames") or ("",)
    for group, resource, name, verb in product(
        rule.get("apiGroups") or (), rule.get("resources") or (), names, rule.get("verbs") or ()
    ):
        what = (("APIGroups", group), ("Resources", resource))
        plain, _, sub = resource.partition("/")
        ask = AccessQuery(verb, group, plain, sub, name=name)
        yield (*what, ("ResourceNames", name)) if name else what, ask


def _told(what: tuple[tuple[str, str], ...], verbs: list[str]) -> str:
    parts = [f"{field}:{objects.dump([value]).decode()}" for field, value in what]
    listed = "[" + " ".join(json.dumps(verb) for verb in verbs) + "]"
    parts.insert(1 if what[0][0] == "NonResourceURLs" else 2, f"Verbs:{listed}")
    return "{" + ", ".join(parts) + "}"


def _errors(held: Rules) -> str:
    return f"; resolution errors: [{' '.join(held.errors)}]" if held.errors else ""
