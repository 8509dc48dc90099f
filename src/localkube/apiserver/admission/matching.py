"""Which requests a webhook or a policy is about: rules, selectors, versions of a resource."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from localkube.apiserver import api_errors, codec
from localkube.apiserver.admission.attributes import CREATE, UPDATE
from localkube.apiserver.codec import selector_matches

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.objects.meta import Raw
    from localkube.apiserver.admission.attributes import Attributes
    from localkube.apiserver.resource import Resource
    from localkube.apiserver.resource_registry import Registry
    from localkube.apiserver.store.changes import ObjectReader
    from localkube.apiserver.webhooks.conversion import Converter


class Matcher:
    """Matches requests with the help of the namespaces and of the versions of resources."""

    def __init__(self, store: ObjectReader, registry: Registry, converter: Converter) -> None:
        self._store = store
        self._registry = registry
        self._converter = converter

    def webhook_version(self, webhook: Raw, request: Attributes) -> Resource | None:
        """The version of the resource that a webhook gets; None if it is not called."""
        matched = self._matched(webhook, webhook.get("rules") or (), request)
        return matched if matched and self._selects(webhook, request) else None

    def policy_version(self, match: Raw | None, request: Attributes) -> Resource | None:
        """The version that a policy or a binding matches; None if it does not match."""
        asked = request.call.resource
        if match is None:
            return asked
        if self._matched(match, match.get("excludeResourceRules") or (), request):
            return None
        rules = match.get("resourceRules")
        matched = self._matched(match, rules, request) if rules else asked
        return matched if matched and self._selects(match, request) else None

    def _matched(self, match: Raw, rules: Iterable[Raw], request: Attributes) -> Resource | None:
        # Also if another webhook has had the object in another version.
        asked = request.call.resource
        equivalent = match.get("matchPolicy") == "Equivalent"
        versions = self._registry.all() if equivalent else ()
        others = (r for r in versions if r.collection == asked.collection and r != asked)
        return matched_version(rules, request, asked, others)

    def _selects(self, match: Raw, request: Attributes) -> bool:
        wanted = match.get("namespaceSelector") or {}
        # Objects without a namespace are matched by every namespace selector.
        if wanted and request.namespace and not selector_matches(wanted, self._labels(request)):
            return False
        return selects_object(match.get("objectSelector") or {}, request)

    def _labels(self, request: Attributes) -> dict[str, str]:
        """The labels of a request's namespace; a namespace that is written has its new ones."""
        written = request.of_namespace and not request.subresource
        if written and request.operation in (CREATE, UPDATE):
            namespace = request.obj or {}
        else:
            namespace = self.namespace(request.namespace)
        return (namespace.get("metadata") or {}).get("labels") or {}

    def namespace(self, name: str) -> Raw:
        """A namespace, which must exist."""
        entry = self._store.get(f"namespaces//{name}")
        if entry is None:
            raise api_errors.not_found("", "namespaces", name)
        found: Raw = codec.decode(entry.value)
        return found

    async def in_version(self, request: Attributes, resource: Resource) -> Attributes:
        """The request with its objects in another version of their kind."""
        if resource is request.resource:
            return request
        if not request.own_kind:
            return replace(request, resource=resource)
        objects = [obj for obj in (request.obj, request.old) if obj is not None]
        shown = iter(await self._converter.shown_as(objects, request.resource, resource))
        obj = next(shown) if request.obj is not None else None
        old = next(shown) if request.old is not None else None
        return replace(request, resource=resource, kind=resource.gvk, obj=obj, old=old)


def selects_object(selector: Raw, request: Attributes) -> bool:
    """Whether the labels of the new or of the old object match; options of an exec have none."""
    objects = [obj for obj in (request.obj, request.old) if obj and "metadata" in obj]
    labels = ((obj["metadata"] or {}).get("labels") or {} for obj in objects)
    return not selector or any(selector_matches(selector, each) for each in labels)


def matched_version(
    rules: Iterable[Raw], request: Attributes, asked: Resource, others: Iterable[Resource]
) -> Resource | None:
    """The version of the resource that rules match: the one of the request first."""
    rules, others = list(rules), list(others)
    if any(_rule_matches(rule, request, asked) for rule in rules):
        return asked
    # Earlier rules come first.
    matched = (other for rule in rules for other in others if _rule_matches(rule, request, other))
    return next(matched, None)


def _rule_matches(rule: Raw, request: Attributes, resource: Resource) -> bool:
    """Whether a rule matches a request, as one of this version of the resource."""
    names = rule.get("resourceNames")
    return (
        _in_scope(rule.get("scope") or "*", resource)
        and _listed(rule.get("operations"), request.operation)
        and _listed(rule.get("apiGroups"), resource.group)
        and _listed(rule.get("apiVersions"), resource.version)
        and any(
            _names(entry, resource.plural, request.subresource)
            for entry in rule.get("resources") or ()
        )
        and (not names or request.name in names)
    )


def _listed(values: Iterable[str] | None, value: str) -> bool:
    return any(item in ("*", value) for item in values or ())


def _names(entry: str, plural: str, subresource: str) -> bool:
    resource, _, sub = entry.partition("/")
    return resource in ("*", plural) and sub in ("*", subresource)


def _in_scope(scope: str, resource: Resource) -> bool:
    return scope == "*" or resource.namespaced == (scope == "Namespaced")
