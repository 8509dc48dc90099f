"""A webhook of a configuration, and which requests it concerns. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from muster.local.apiserver.admission import matching

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
    if not matching.selects(spec, request, namespace_labels):
        return None
    asked = request.call.resource  # also if another webhook has had the object in another version
    others = versions if spec.get("matchPolicy") == "Equivalent" else ()
    return matching.matched_version(spec.get("rules") or (), request, asked, others)
