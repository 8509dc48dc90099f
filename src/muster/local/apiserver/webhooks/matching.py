"""Which webhooks a request concerns: rules, selectors, and versions of the same objects. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from muster.local.apiserver.codec import selector_matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from muster.api.meta import Raw
    from muster.local.apiserver.resource import Resource
    from muster.local.apiserver.webhooks.attributes import Attributes


class Webhook(NamedTuple):
    """One webhook of a configuration."""

    configuration: str
    position: int
    spec: Raw

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def key(self) -> tuple[str, int]:
        return self.configuration, self.position

    @property
    def fails_open(self) -> bool:
        """Whether a request goes on if the webhook cannot be called."""
        return bool(self.spec.get("failurePolicy") == "Ignore")

    @property
    def reinvocable(self) -> bool:
        return bool(self.spec.get("reinvocationPolicy") == "IfNeeded")


def matched(
    webhook: Webhook,
    request: Attributes,
    namespace_labels: Mapping[str, str] | None,
    versions: Iterable[Resource],
) -> Resource | None:
    """The version of the resource that the webhook gets; None if it is not called.

    `namespace_labels` is None for an object without a namespace; `versions` are all versions of
    the resource.
    """
    spec = webhook.spec
    if namespace_labels is not None and not _selects(spec["namespaceSelector"], namespace_labels):
        return None
    if not _selects_object(spec["objectSelector"], request):
        return None
    rules = spec.get("rules") or ()
    asked = request.call.resource  # also if another webhook has had the object in another version
    if any(_matches(rule, request, asked) for rule in rules):
        return asked
    if spec.get("matchPolicy") != "Equivalent":
        return None
    others = [version for version in versions if version != asked]
    # Earlier rules come first.
    return next(
        (version for rule in rules for version in others if _matches(rule, request, version)), None
    )


def _matches(rule: Raw, request: Attributes, resource: Resource) -> bool:
    return (
        _in_scope(rule.get("scope") or "*", request)
        and _listed(rule.get("operations"), request.operation)
        and _listed(rule.get("apiGroups"), resource.group)
        and _listed(rule.get("apiVersions"), resource.version)
        and any(
            _names(entry, resource.plural, request.subresource)
            for entry in rule.get("resources") or ()
        )
    )


def _listed(values: Iterable[str] | None, value: str) -> bool:
    return any(item in ("*", value) for item in values or ())


def _names(entry: str, plural: str, subresource: str) -> bool:
    resource, _, sub = entry.partition("/")
    return resource in ("*", plural) and sub in ("*", subresource)


def _in_scope(scope: str, request: Attributes) -> bool:
    if scope == "*":
        return True
    # A namespace itself is an object of the cluster, although its requests name a namespace.
    namespaced = request.resource.collection != "namespaces" and bool(request.namespace)
    return namespaced == (scope == "Namespaced")


def _selects(selector: Raw, labels: Mapping[str, str]) -> bool:
    return not selector or selector_matches(selector, labels)


def _selects_object(selector: Raw, request: Attributes) -> bool:
    if not selector:
        return True
    objects = [obj for obj in (request.obj, request.old) if obj is not None]
    return any(
        selector_matches(selector, (obj.get("metadata") or {}).get("labels") or {})
        for obj in objects
    )
