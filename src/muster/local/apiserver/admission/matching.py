"""Which writes a webhook or a policy is about: rules, selectors, versions of a resource. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from muster.local.apiserver.codec import selector_matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from muster.api.meta import Raw
    from muster.local.apiserver.resource import Resource


class Write(Protocol):
    """A request as admission sees it."""

    @property
    def operation(self) -> str: ...
    @property
    def resource(self) -> Resource: ...
    @property
    def subresource(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def obj(self) -> Raw | None: ...
    @property
    def old(self) -> Raw | None: ...


def selects(match: Raw, write: Write, namespace_labels: Mapping[str, str] | None) -> bool:
    """Whether the selectors match; the labels are None for an object without a namespace."""
    wanted = match.get("namespaceSelector") or {}
    # Objects without a namespace are matched by every namespace selector.
    if wanted and namespace_labels is not None and not selector_matches(wanted, namespace_labels):
        return False
    wanted = match.get("objectSelector") or {}
    objects = (obj for obj in (write.obj, write.old) if obj is not None)
    labels = ((obj.get("metadata") or {}).get("labels") or {} for obj in objects)
    return not wanted or any(selector_matches(wanted, each) for each in labels)


def matched_version(
    rules: Iterable[Raw], write: Write, asked: Resource, others: Iterable[Resource]
) -> Resource | None:
    """The version of the resource that rules match: the one of the request first."""
    rules, others = list(rules), [other for other in others if other != asked]
    if any(rule_matches(rule, write, asked) for rule in rules):
        return asked
    # Earlier rules come first.
    matched = (other for rule in rules for other in others if rule_matches(rule, write, other))
    return next(matched, None)


def rule_matches(rule: Raw, write: Write, resource: Resource) -> bool:
    """Whether a rule matches a write, as one of this version of the resource."""
    names = rule.get("resourceNames")
    return (
        _in_scope(rule.get("scope") or "*", resource)
        and _listed(rule.get("operations"), write.operation)
        and _listed(rule.get("apiGroups"), resource.group)
        and _listed(rule.get("apiVersions"), resource.version)
        and any(
            _names(entry, resource.plural, write.subresource)
            for entry in rule.get("resources") or ()
        )
        and (not names or write.name in names)
    )


def _listed(values: Iterable[str] | None, value: str) -> bool:
    return any(item in ("*", value) for item in values or ())


def _names(entry: str, plural: str, subresource: str) -> bool:
    resource, _, sub = entry.partition("/")
    return resource in ("*", plural) and sub in ("*", subresource)


def _in_scope(scope: str, resource: Resource) -> bool:
    return scope == "*" or resource.namespaced == (scope == "Namespaced")
