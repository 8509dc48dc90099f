"""Privilege escalation: users can only grant permissions that they have themselves.

Checked for every write of a role or binding. Users who may `escalate` a role or `bind` to it are
exempt, and so is the server itself.
"""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import product
from typing import TYPE_CHECKING

from localkube.apiserver import api_errors, codec
from localkube.apiserver.access.authentication import INTERNAL_USER
from localkube.apiserver.access.authorization import AccessQuery, rule_allows
from localkube.apiserver.kinds.roles_and_accounts import GROUP

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kubekit.objects.meta import Raw
    from localkube.apiserver.access.authorization import Authorizer
    from localkube.apiserver.http.requests import Call

_ROLES = ("roles", "clusterroles")
# The rules of cluster-admin.
_EVERYTHING = (
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
)


def check_grant(authorizer: Authorizer, call: Call, new: Raw, old: Raw | None) -> None:
    """Raise a 403 if a role or binding grants permissions that the caller does not have."""
    user, plural, meta = call.user, call.resource.plural, new["metadata"]
    if user is INTERNAL_USER or user.is_admin:
        return
    if old is not None and _without_bookkeeping(new) == _without_bookkeeping(old):
        return  # the garbage collector must be able to update roles that it could not grant
    name, namespace = str(meta.get("name") or ""), call.route.namespace
    if plural in _ROLES:
        exempt = AccessQuery("escalate", GROUP, plural, "", namespace, name)
    else:
        role: Raw = new["roleRef"]
        roles = f"{str(role['kind']).lower()}s"
        exempt = AccessQuery("bind", GROUP, roles, "", namespace, str(role["name"]))
    if authorizer.decide(user, exempt).allowed:
        return
    rules, errors = authorizer.rules(user, namespace)
    missing = _not_covered(_granted(authorizer, plural, new), rules)
    if missing:
        groups = " ".join(json.dumps(group) for group in user.groups)
        unresolved = f"; resolution errors: [{' '.join(errors)}]" if errors else ""
        why = (
            f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions'
            " not currently held:\n" + "\n".join(missing) + unresolved
        )
        raise api_errors.forbidden(GROUP, plural, name, why)


def _granted(authorizer: Authorizer, plural: str, new: Raw) -> Sequence[Raw]:
    """The rules that the object grants."""
    if plural in _ROLES:
        # Anybody who labels a role can add to an aggregated one, so it counts as all permissions.
        aggregated = _EVERYTHING if new.get("aggregationRule") else ()
        return [*(new.get("rules") or ()), *aggregated]
    rules = authorizer.rules_of_binding(new)
    if rules is None:
        raise api_errors.not_found(GROUP, plural, str(new["roleRef"]["name"]))
    return rules


def _without_bookkeeping(obj: Raw) -> Raw:
    """The object without the metadata that the garbage collector changes."""
    left_out = ("ownerReferences", "finalizers", "resourceVersion")
    return obj | {"metadata": {k: v for k, v in obj["metadata"].items() if k not in left_out}}


def _not_covered(granted: Iterable[Raw], own: Sequence[Raw]) -> list[str]:
    """The granted permissions that the user lacks, as Kubernetes lists them: verbs per resource."""
    # Dictionaries instead of sets, because they keep their order.
    verbs: defaultdict[tuple[tuple[str, str], ...], dict[str, None]] = defaultdict(dict)
    for target, access in (single for rule in granted for single in _singles(rule)):
        if not any(rule_allows(rule, access) for rule in own):
            verbs[target][access.verb] = None
    return sorted(_rule_text(target, [*missing]) for target, missing in verbs.items())


def _singles(rule: Raw) -> Iterator[tuple[tuple[tuple[str, str], ...], AccessQuery]]:
    """Each access that a rule grants, with the resource or path it is about."""
    for verb, path in product(rule.get("verbs") or (), rule.get("nonResourceURLs") or ()):
        yield (("NonResourceURLs", path),), AccessQuery(verb, path=path)
    names = rule.get("resourceNames") or ("",)
    for group, resource, name, verb in product(
        rule.get("apiGroups") or (), rule.get("resources") or (), names, rule.get("verbs") or ()
    ):
        target = (("APIGroups", group), ("Resources", resource))
        plural, _, subresource = resource.partition("/")
        access = AccessQuery(verb, group, plural, subresource, name=name)
        yield (*target, ("ResourceNames", name)) if name else target, access


def _rule_text(target: tuple[tuple[str, str], ...], verbs: list[str]) -> str:
    parts = [f"{field}:{codec.dump([value]).decode()}" for field, value in target]
    listed = "[" + " ".join(json.dumps(verb) for verb in verbs) + "]"
    # Kubernetes prints the verbs before the resource names.
    parts.insert(1 if target[0][0] == "NonResourceURLs" else 2, f"Verbs:{listed}")
    return "{" + ", ".join(parts) + "}"
