"""The first look at an object that a client sends: is it of the shape its kind has?

Called by `verbs.py` before admission, which may then rely on the types. Fields nobody knows are
dropped and, as the client asked, reported or refused; a CRD's defaults are written; what is wrong
is a 400 for built-in kinds (they do not decode) and a 422 for custom ones (they do not fit).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.api import schemas
from muster.local.apiserver import objects, status, structural
from muster.local.apiserver.admission import empties, nested, quantities
from muster.local.apiserver.ratchet import NOTHING
from muster.local.apiserver.registry import CRD_COLLECTION, Resource
from muster.local.apiserver.request.duplicates import Told, in_order, repeated

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster.api.meta import Raw
    from muster.api.schemas import Schema
    from muster.errors import Refusal
    from muster.local.apiserver.request.call import Call

_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def schema_of(resource: Resource) -> Schema | None:
    """The shape of a resource's objects."""
    if resource.custom:
        return resource.shape
    return schemas.of(resource.group, resource.version, resource.kind)


def check_kind(resource: Resource, obj: Raw) -> None:
    """The object must be of the path's kind and version; built-in ones need not say theirs."""
    if not resource.custom:
        obj.setdefault("apiVersion", resource.api_version)
        obj.setdefault("kind", resource.kind)
    version, kind = obj.get("apiVersion"), obj.get("kind")
    if not kind:
        raise status.bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}):"
            " Object 'Kind' is missing"
        )
    if version != resource.api_version:
        raise status.bad_request(
            f"the API version in the data ({version or ''}) does not match the expected API version"
            f" ({resource.api_version})"
        )
    if kind == resource.kind:
        return
    if resource.custom:
        cause = status.bad_value("kind", kind, f"must be {resource.kind}")
        name = obj["metadata"].get("name") if isinstance(obj.get("metadata"), dict) else ""
        raise status.invalid(resource.group, str(kind), str(name or ""), [cause])
    raise status.bad_request(
        f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
    )


def decode(call: Call, obj: Raw) -> None:
    """Make an object, in place, what its kind's types can hold; warn of what was dropped.

    Where a patch made the object, fields that nobody knows are the patch's fault.
    """
    resource, schema = call.resource, schema_of(call.resource)
    if schema is None:
        return
    patched = call.route.verb == "patch"
    unknown = _screen_metadata(resource, obj)
    if not resource.custom and _may_hold_nulls(call):
        empties.fill_nulls(obj, empties.struct(resource))
    unknown += structural.prune(obj, schema, top=True)
    told = [Told(f'unknown field "{path}"', path) for path in unknown]
    if resource.custom or patched:
        told.sort()
    if not patched:
        told = in_order(call, [*repeated(call), *told])
    strictness = call.query.get("fieldValidation", "")
    if told and strictness == "Strict":
        why = f"strict decoding error: {', '.join(one.text for one in told)}"
        raise _unreadable(resource, why, call.body if patched else b"")
    if not resource.custom:
        _check_struct(resource, obj, schema, call.body if patched else b"")
    if strictness != "Ignore":
        call.warn(*(one.text for one in told))


def _may_hold_nulls(call: Call) -> bool:
    """YAML has more words for it, and JSON patches copy it from where nothing is."""
    worded = "yaml" in call.content_type or "json-patch" in call.content_type
    return worded or b"null" in call.body


def _check_struct(resource: Resource, obj: Raw, schema: Schema, patch: bytes) -> None:
    """Built-in kinds are decoded into types here; their rules are admission's business."""
    _check_types(resource, structural.check(obj, schema, points=False), patch)
    if resource.collection == CRD_COLLECTION:
        _check_types(resource, nested.check(obj, schema), patch)
    empties.drop(obj, empties.struct(resource))
    quantities.rewrite(obj, schema)


def fit(resource: Resource, obj: Raw, old: Raw | None = None) -> None:
    """Hold a custom object to its schema, in place; what its `old` self had need not fit."""
    schema = schema_of(resource)
    if schema is None or not resource.custom:
        return
    structural.fill_defaults(obj, schema)
    causes = structural.check(obj, schema, old=NOTHING if old is None else old)
    if causes:
        name = str(obj["metadata"].get("name") or "")
        raise status.invalid(resource.group, resource.kind, name, causes)


def check_applied(resource: Resource, obj: Raw) -> None:
    """What is applied says only what is known: there is nobody else to own the rest."""
    if obj["metadata"].get("managedFields") is not None:
        raise status.bad_request("metadata.managedFields must be nil")
    schema = schema_of(resource)
    if schema is None:
        return
    sent = objects.decode(objects.dump(obj))
    unknown = structural.prune(sent["metadata"], schemas.named(_META), "metadata")
    unknown += structural.prune(sent, schema, top=True)
    if unknown:
        raise status.bad_request(
            f"failed to create typed patch object ({resource.api_version}, Kind={resource.kind}):"
            f" {', '.join(f'.{path}: field not declared in schema' for path in unknown)}"
        )


def _screen_metadata(resource: Resource, obj: Raw) -> list[str]:
    """Custom objects too have the metadata every object has."""
    if not resource.custom:
        return []
    schema = schemas.named(_META)
    unknown = structural.prune(obj["metadata"], schema, "metadata")
    _check_types(resource, structural.check(obj["metadata"], schema, "metadata"))
    empties.drop(obj["metadata"], empties.METADATA)
    return unknown


def check_shape(api_version: str, kind: str, obj: Raw) -> Raw:
    """What a subresource takes (a Binding, a Scale, options) must be of its published shape."""
    group, _, version = api_version.rpartition("/")
    schema = schemas.of(group, version, kind)
    if schema is not None:
        structural.prune(obj, schema, top=True)
        resource = Resource(group, version, "", kind)
        _check_types(resource, structural.check(obj, schema))
    return obj


def _check_types(resource: Resource, causes: Iterable[status.Cause], patch: bytes = b"") -> None:
    for cause in causes:
        if cause.reason == "FieldValueTypeInvalid":
            told = f"json: cannot unmarshal into field {cause.field}: {cause.message}"
            raise _unreadable(resource, told, patch)


def _unreadable(resource: Resource, why: str, patch: bytes = b"") -> Refusal:
    if patch:
        cause = status.bad_value("patch", patch.decode(errors="replace"), why)
        return status.invalid("", "", "", [cause])
    kind = resource.kind
    return status.bad_request(
        f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {why}'
    )
