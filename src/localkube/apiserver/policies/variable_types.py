"""The types of the variables in the expressions of an admission policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localkube.apiserver.cel.functions.signatures import OPAQUE
from localkube.apiserver.cel.schema_types import Messages

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kubekit.objects.meta import Raw
    from localkube.apiserver.cel.schema_types import Variables

_TEXT: Raw = {"type": "string"}
_TEXTS: Raw = {"type": "array", "items": _TEXT}
_LABELS: Raw = {"type": "object", "additionalProperties": _TEXT}
_TIME: Raw = {"type": "string", "format": "date-time"}
_ANY: Raw = {"x-kubernetes-int-or-string": True}


def _object(**properties: Raw) -> Raw:
    return {"type": "object", "properties": properties}


_KIND = _object(group=_TEXT, version=_TEXT, kind=_TEXT)
_RESOURCE = _object(group=_TEXT, version=_TEXT, resource=_TEXT)
_REQUEST = _object(
    kind=_KIND,
    resource=_RESOURCE,
    subResource=_TEXT,
    requestKind=_KIND,
    requestResource=_RESOURCE,
    requestSubResource=_TEXT,
    name=_TEXT,
    namespace=_TEXT,
    operation=_TEXT,
    userInfo=_object(username=_TEXT, uid=_TEXT, groups=_TEXTS, extra=_ANY),
    dryRun={"type": "boolean"},
    options=_ANY,
)
_NAMESPACE = _object(
    metadata=_object(
        name=_TEXT,
        generateName=_TEXT,
        namespace=_TEXT,
        labels=_LABELS,
        annotations=_LABELS,
        UID=_TEXT,
        creationTimestamp=_TIME,
        deletionGracePeriodSeconds={"type": "integer"},
        deletionTimestamp=_TIME,
        generation={"type": "integer"},
        resourceVersion=_TEXT,
        finalizers=_TEXTS,
    ),
    spec=_object(finalizers=_TEXTS),
    status=_object(conditions={"type": "array", "items": _ANY}, phase=_TEXT),
)


def variables(
    composed: Mapping[str, Raw] | None, *, has_params: bool, has_authorizer: bool = True
) -> Variables:
    """The types of variables; `composed` has the policy's own, None if there are none to see."""
    messages = Messages(escaped=False)
    types: dict[str, Raw] = {"object": {"type_name": "dyn"}, "oldObject": {"type_name": "dyn"}}
    for name, schema in (("request", _REQUEST), ("namespaceObject", _NAMESPACE)):
        types[name] = messages.type_of(schema) or {"type_name": "dyn"}
    if has_params:
        types["params"] = {"type_name": "dyn"}
    if has_authorizer:
        types["authorizer"] = {"type_name": OPAQUE["Authorizer"]}
        types["authorizer.requestResource"] = {"type_name": OPAQUE["ResourceCheck"]}
    if composed is not None:
        types["variables"] = messages.message(composed)
    return messages.variables(types)
