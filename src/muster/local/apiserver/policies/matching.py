"""Which writes a policy or a binding is about. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.apiserver.admission import matching

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
    if not matching.selects(match, write, namespace_labels):
        return None
    excluded = match.get("excludeResourceRules") or ()
    if any(matching.rule_matches(rule, write, write.resource) for rule in excluded):
        return None
    rules = match.get("resourceRules")
    if not rules:
        return write.resource
    others = () if match.get("matchPolicy") == "Exact" else versions
    return matching.matched_version(rules, write, write.resource, others)
