"""A write as policies see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from muster.api.meta import Raw
    from muster.local.apiserver.access.authentication import User
    from muster.local.apiserver.http.requests import Call
    from muster.local.apiserver.resource import Resource


class Attributes(NamedTuple):
    """One write."""

    operation: str
    """CREATE, UPDATE or DELETE."""
    resource: Resource
    subresource: str
    namespace: str
    name: str
    obj: Raw | None
    old: Raw | None
    user: User
    dry_run: bool
    kind: Raw
    """Group, version and kind of the object in the request."""

    def request(self, matched: Resource) -> Raw:
        """The variable `request`, for a policy that matched a version of the resource."""
        subresource = {"subResource": self.subresource, "requestSubResource": self.subresource}
        names = {"name": self.name, "namespace": self.namespace}
        optional: dict[str, Any] = {**subresource, **names}
        kind = self.kind if self.subresource else matched.gvk
        return {
            "kind": kind,
            "resource": _gvr(matched),
            "requestKind": self.kind,
            "requestResource": _gvr(self.resource),
            "operation": self.operation,
            "userInfo": self.user.info(),
            "dryRun": self.dry_run,
            **{key: value for key, value in optional.items() if value},
        }


def _gvr(resource: Resource) -> Raw:
    return {
        "group": resource.group,
        "version": resource.version,
        "resource": resource.plural,
    }


def of_write(call: Call, operation: str, obj: Raw | None, old: Raw | None) -> Attributes:
    """The write of a call."""
    present = obj or old or {}
    kind = call.resource.gvk
    if call.route.subresource and "kind" in present:
        group, _, version = str(present.get("apiVersion", "")).rpartition("/")
        kind = {"group": group, "version": version, "kind": present["kind"]}
    return Attributes(
        operation,
        call.resource,
        call.route.subresource,
        call.route.namespace,
        call.route.name or str((present.get("metadata") or {}).get("name") or ""),
        obj,
        old,
        call.user,
        call.dry_run,
        kind,
    )
