"""Which writes a policy or a binding is about. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.apiserver.codec import selector_matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from muster.api.meta import Raw
    from muster.local.apiserver.policies.attributes import Attributes
    from muster.local.apiserver.resource import Resource

_EXEMPT = frozenset(
    {
        # Otherwise a policy could forbid its own removal.
        "validatingadmissionpolicies", "validatingadmissionpolicybindings",
        "mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
        "validatingwebhookconfigurations", "mutatingwebhookconfigurations",
    }
)  # fmt: skip


def is_exempt(resource: Resource) -> bool:
    """Whether no policy applies to a resource."""
    return resource.group == "admissionregistration.k8s.io" and resource.plural in _EXEMPT


def matched_version(
    match: Raw | None,
    write: Attributes,
    versions: Iterable[Resource],
    namespace_labels: Mapping[str, str] | None,
) -> Resource | None:
    """The version of the resource that rules match; None if they do not match the write.

    `versions` are all versions of the resource. With the policy `Equivalent`, a rule for one of
    them matches a write in another.
    """
    if match is None:
        return write.resource
    if not _selectors_match(match, write, namespace_labels):
        return None
    if _matches_any(match.get("excludeResourceRules"), write, write.resource):
        return None
    rules = match.get("resourceRules")
    if not rules or _matches_any(rules, write, write.resource):
        return write.resource
    if match.get("matchPolicy") == "Exact":
        return None
    return next((other for other in versions if _matches_any(rules, write, other)), None)


def _selectors_match(
    match: Raw, write: Attributes, namespace_labels: Mapping[str, str] | None
) -> bool:
    wanted = match.get("namespaceSelector") or {}
    # Objects without a namespace are matched by every namespace selector.
    if wanted and namespace_labels is not None and not selector_matches(wanted, namespace_labels):
        return False
    wanted = match.get("objectSelector") or {}
    return not wanted or any(selector_matches(wanted, labels) for labels in write.labels())


def _matches_any(rules: Iterable[Raw] | None, write: Attributes, resource: Resource) -> bool:
    return any(_rule_matches(rule, write, resource) for rule in rules or ())


def _rule_matches(rule: Raw, write: Attributes, resource: Resource) -> bool:
    names = rule.get("resourceNames")
    return (
        _has(rule, "operations", write.operation)
        and _has(rule, "apiGroups", resource.group)
        and _has(rule, "apiVersions", resource.version)
        and _resource_matches(rule, resource.plural, write.subresource)
        and _scope_matches(rule.get("scope") or "*", write)
        and (not names or write.name in names)
    )


def _has(rule: Raw, field: str, value: str) -> bool:
    values = rule.get(field) or ()
    return value in values or "*" in values


def _resource_matches(rule: Raw, plural: str, subresource: str) -> bool:
    for written in rule.get("resources") or ():
        name, _, part = written.partition("/")
        if name in ("*", plural) and (part == subresource or (part == "*" and subresource)):
            return True
        if written == "*/*":
            return True
    return False


def _scope_matches(scope: str, write: Attributes) -> bool:
    # A namespace is an object of the cluster, although its requests name a namespace.
    namespaced = bool(write.namespace) and write.resource.plural != "namespaces"
    return scope == "*" or (scope == "Namespaced") == namespaced
