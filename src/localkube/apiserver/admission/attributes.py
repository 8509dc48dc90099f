"""What webhooks and policies are asked about: one operation of one request. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from localkube.apiserver.kinds.cluster.namespace import NAMESPACES

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from localkube.apiserver.http.requests import Call
    from localkube.apiserver.resource import Resource

CREATE, UPDATE, DELETE, CONNECT = "CREATE", "UPDATE", "DELETE", "CONNECT"
_OPTIONS = {CREATE: "CreateOptions", UPDATE: "UpdateOptions"}


@dataclass(frozen=True)
class Attributes:
    """An operation on an object. Objects have the version of `resource`."""

    call: Call
    operation: str
    resource: Resource
    subresource: str
    name: str
    namespace: str
    kind: Raw
    """Group, version and kind of the object, which a subresource may have of its own."""
    obj: Raw | None
    old: Raw | None
    options: Raw | None

    @property
    def own_kind(self) -> bool:
        """Whether the object is of the resource's kind, and not a Scale or a Binding."""
        return self.kind == self.resource.gvk

    @property
    def of_namespace(self) -> bool:
        """Whether the object is a namespace, which is said to be in itself."""
        return bool(self.kind == NAMESPACES.gvk)

    def request(self, resource: Resource) -> Raw:
        """The request as an AdmissionReview and the variable `request` of expressions show it.

        `resource` is the version of the resource that is shown.
        """
        original = self.call.resource
        texts = {
            "subResource": self.subresource, "requestSubResource": self.subresource,
            "name": self.name, "namespace": self.namespace,
        }  # fmt: skip
        return {
            "kind": self.kind,
            "resource": _names(resource),
            "requestKind": original.gvk if self.own_kind else self.kind,
            "requestResource": _names(original),
            "operation": self.operation,
            "userInfo": self.call.user.info(),
            "dryRun": bool((self.options or {}).get("dryRun")),
            "options": self.options,
            **{field: text for field, text in texts.items() if text},
        }


def _names(resource: Resource) -> Raw:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def attributes_of(
    call: Call, operation: str, obj: Raw | None, old: Raw | None = None, kind: Raw | None = None
) -> Attributes:
    """The attributes of a call that creates or changes an object."""
    resource, route = call.resource, call.route
    meta = (obj or old or {}).get("metadata") or {}
    name = route.name or str(meta.get("name") or "")
    namespace = route.namespace
    if resource is NAMESPACES:
        namespace = name
    return Attributes(
        call, operation, resource, route.subresource, name, namespace,
        kind or resource.gvk, obj, old, _options_of(call, operation),
    )  # fmt: skip


def _options_of(call: Call, operation: str) -> Raw | None:
    """The options of a create or an update."""
    if operation not in _OPTIONS:
        return None
    options: Raw = {"kind": _OPTIONS[operation], "apiVersion": "meta.k8s.io/v1"}
    if call.dry_run:
        options["dryRun"] = ["All"]
    for name in ("fieldManager", "fieldValidation"):
        if call.query.get(name):
            options[name] = call.query[name]
    return options
