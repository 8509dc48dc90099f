"""The right that a request lacked, from the text of the 403 that it got. No I/O.

The API server has no fields for it, but every authorizer's denial has the same words. A 403 of
another origin (a quota, an admission plugin, a webhook) is not about a right.
"""

from __future__ import annotations

import re

from kubekit.rights import MissingRight, Rule, account_name

_DENIED = re.compile(
    r'User "(?P<user>(?:[^"\\]|\\.)*)" cannot (?P<verb>\S+) resource "(?P<resource>[^"]*)" '
    r'in API group "(?P<group>[^"]*)"'
)
# Who creates a role must have every right in it.
_GRANTING = re.compile(
    r'user "(?P<user>(?:[^"\\]|\\.)*)" .*is attempting to grant RBAC permissions not currently '
    r"held:\s*(?P<rules>\{.*)",
    re.DOTALL,
)
_HELD = re.compile(
    r"APIGroups:\[(?P<groups>[^\]]*)\], Resources:\[(?P<resources>[^\]]*)\]"
    r".*?Verbs:\[(?P<verbs>[^\]]*)\]"
)
_RECORDS = "kube-system"
"""In this namespace a rule names its object: one for all objects there would give away too much."""


def missing_right(message: str, namespace: str, name: str) -> MissingRight | None:
    """The right that the sender of a request for this object lacks, if the 403 is about one."""
    if denied := _DENIED.search(message):
        verb, resource, group = denied["verb"], denied["resource"], denied["group"]
        is_record = namespace == _RECORDS or resource == "leases"
        is_named = is_record and bool(name) and verb != "create"
        rule = Rule((group,), (resource,), (verb,), (name,) if is_named else ())
        return MissingRight(account_name(denied["user"]), rule)
    granting = _GRANTING.search(message)
    held = _HELD.search(granting["rules"]) if granting else None
    if granting is None or held is None:
        return None
    groups, resources, verbs = (
        tuple(re.findall(r'"([^"]*)"', held[part])) for part in ("groups", "resources", "verbs")
    )
    return MissingRight(account_name(granting["user"]), Rule(groups, resources, verbs))
