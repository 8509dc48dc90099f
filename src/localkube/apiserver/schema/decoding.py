"""Strict decoding: the body of a request as an object of its kind, for the path it was sent to.

Admission may rely on the types afterwards. Unknown fields are dropped and, as the client requests,
reported or rejected. A wrong type is a 400 for built-in kinds. The real server decodes these into
Go structs and writes the structs out again, so an empty list is the same as none, and
`paused: false` the same as no field, unless the field is a pointer. The generated layout of all
kinds says which fields are pointers. Quantities are written in canonical form: `0.5` is `500m`,
`1024Mi` is `1Gi`. Times are written in UTC: a client may send `+00:00`, or another offset, for `Z`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from kubekit import schemas
from kubekit.objects.quantity import parse_quantity
from localkube.apiserver import api_errors, causes
from localkube.apiserver.http.bodies import FieldWarning, duplicate_fields, in_field_order, read
from localkube.apiserver.http.protobuf import Field, struct_layout, struct_name
from localkube.apiserver.resource import Resource
from localkube.apiserver.schema import structural
from localkube.apiserver.schema.structural import METADATA, is_quantity

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kubekit.objects.meta import Raw
    from kubekit.request_errors import StatusError
    from kubekit.schemas import Schema
    from localkube.apiserver.causes import Cause
    from localkube.apiserver.http.requests import Call


_METADATA_STRUCT = struct_name(METADATA)
_ZEROS: dict[str, Any] = {
    "string": "", "bytes": "", "bool": False, "double": 0, "int32": 0, "int64": 0,
    "k8s.io.apimachinery.pkg.api.resource.Quantity": "0",
}  # fmt: skip

_PRECISIONS = {
    f"{_METADATA_STRUCT.rpartition('.')[0]}.Time": "seconds",
    f"{_METADATA_STRUCT.rpartition('.')[0]}.MicroTime": "microseconds",
}
"""The types of times, and how exactly Go writes them."""

_NULL = re.compile(rb"[:,\[]\s*null")  # not the word `nullable`, which most definitions have


@cache
def _struct_of(resource: Resource) -> str:
    """The name of a kind's Go struct; empty if its layout is not known."""
    return struct_name(schemas.name_of(resource.group, resource.version, resource.kind))


def fill_nulls(obj: Raw, message: str) -> None:
    """Write zeros, in place, for nulls in maps and lists; a null field counts as missing."""
    layout = struct_layout(message)
    for value, field in ((v, layout[name]) for name, v in obj.items() if name in layout):
        zero = _ZEROS.get(field.type)
        if zero is None:
            for part in _parts(value, field):
                fill_nulls(part, field.type)
        elif field.shape == "m" and isinstance(value, dict):
            value.update({k: zero for k, v in value.items() if v is None})
        elif field.shape == "r" and isinstance(value, list):
            value[:] = [zero if v is None else v for v in value]


def write_as_go_does(obj: Raw, message: str) -> None:
    """Remove, in place, the empty fields that Go leaves out, and write times in UTC. Types must be
    right."""
    layout = struct_layout(message)
    for name, value in list(obj.items()):
        field = layout.get(name)
        if field is None:
            continue
        if not value and field.omitted_if_empty:
            del obj[name]
        elif field.type in _PRECISIONS and isinstance(value, str):
            obj[name] = _time_in_utc(value, _PRECISIONS[field.type])
        elif value and field.type not in _ZEROS:
            for part in _parts(value, field):
                write_as_go_does(part, field.type)


def _time_in_utc(text: str, precision: str) -> str:
    try:
        moment = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):  # the checks of values report it
        return text
    return f"{moment.replace(tzinfo=None).isoformat(timespec=precision)}Z"


def _parts(value: Any, field: Field) -> list[Raw]:
    """The structs in a field."""
    if field.shape == "o":
        return [value] if isinstance(value, dict) else []
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [part for part in inner if isinstance(part, dict)]


def shorten_quantities(value: Any, schema: Schema) -> None:
    """Write every map of quantities below `value` in canonical form, in place."""
    extra = schema.additional()
    if isinstance(value, dict) and extra is not None and is_quantity(extra):
        for name, quantity in value.items():
            value[name] = str(parse_quantity(quantity).rounded_up_to_milli())
        return
    if isinstance(value, dict):
        for name, part in value.items():
            if isinstance(part, dict | list):
                field = schema.field(name)
                if field is not None and field.has_quantities:
                    shorten_quantities(part, field)
    elif (items := schema.items()) is not None:
        for part in value:
            if isinstance(part, dict | list):
                shorten_quantities(part, items)


def schema_of(resource: Resource) -> Schema | None:
    """The schema of a resource's objects."""
    if resource.custom:
        return resource.walkable_schema
    return schemas.for_kind(resource.group, resource.version, resource.kind)


def check_kind(resource: Resource, obj: Raw) -> None:
    """The object must be of the path's kind and version; built-in kinds may leave them out."""
    if not resource.custom:
        obj.setdefault("apiVersion", resource.api_version)
        obj.setdefault("kind", resource.kind)
    version, kind = obj.get("apiVersion"), obj.get("kind")
    if not kind:
        raise api_errors.bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}):"
            " Object 'Kind' is missing"
        )
    if version != resource.api_version:
        raise api_errors.bad_request(
            f"the API version in the data ({version or ''}) does not match the expected API version"
            f" ({resource.api_version})"
        )
    if kind == resource.kind:
        return
    if resource.custom:
        cause = causes.invalid("kind", kind, f"must be {resource.kind}")
        name = obj["metadata"].get("name") if isinstance(obj.get("metadata"), dict) else ""
        raise api_errors.invalid(resource.group, str(kind), str(name or ""), [cause])
    # The real server has no struct to decode a custom object into: hence the two wordings.
    raise api_errors.bad_request(
        f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
    )


def check_body(call: Call, obj: Raw) -> None:
    """The body must have the kind, version, namespace and name of the path."""
    check_kind(call.resource, obj)
    check_namespace_and_name(call, obj)


def check_namespace_and_name(call: Call, obj: Raw) -> None:
    """The body must have the namespace and name of the path."""
    resource, route, meta = call.resource, call.route, ensure_metadata(obj)
    namespace = meta.get("namespace") or ""
    if resource.namespaced and namespace not in ("", route.namespace):
        raise api_errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if not resource.namespaced:
        meta.pop("namespace", None)
    if route.verb == "update" or (route.verb == "patch" and meta.get("name")):
        check_name(call, meta)


def ensure_metadata(obj: Raw) -> Raw:
    """The metadata of an object, created if missing."""
    meta = obj["metadata"] = {} if obj.get("metadata") is None else obj["metadata"]
    if not isinstance(meta, dict):
        raise api_errors.bad_request("metadata must be an object")
    return meta


def check_name(call: Call, meta: Raw) -> None:
    """The body must name the object of the path."""
    name, expected = meta.get("name") or "", call.route.name
    if not name:
        raise api_errors.bad_request(
            f"the name of the object ({expected} based on URL) was undeterminable: name must be"
            " provided"
        )
    if name != expected:
        raise api_errors.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({expected})"
        )


def decode_body(call: Call) -> Raw:
    """The object in the body of a request."""
    obj = read(call.body, call.content_type)
    check_kind(call.resource, obj)
    ensure_metadata(obj)
    decode_strictly(call, obj)
    check_namespace_and_name(call, obj)
    return obj


def decode_strictly(call: Call, obj: Raw, stored: Collection[str] = ()) -> None:
    """Drop, in place, fields that the kind does not have, and warn of them.

    Unknown fields that the schema preserves are not errors in a strict request either: the real
    server accepts them. A patch is not warned of those `stored` in the object before.
    """
    # Left out: an empty list of owners has a meaning, and their fields have no schema.
    owners = obj["metadata"].get("managedFields")
    are_entries = isinstance(owners, list) and all(isinstance(entry, dict) for entry in owners)
    if are_entries:
        del obj["metadata"]["managedFields"]
    _decode_strictly(call, obj, stored)
    if are_entries:
        obj["metadata"]["managedFields"] = owners


def decode_patched(call: Call, new: Raw, old: Raw, stored: Collection[str]) -> None:
    """Like `decode_strictly`, for a patched object that may share parts with the old one."""
    # Nodes patch the status of pods all the time. The spec was checked when it was written.
    spec = new.get("spec")
    if call.resource.custom or spec is None or spec is not old.get("spec"):
        decode_strictly(call, new, stored)
        return
    names = tuple(new)
    del new["spec"]
    decode_strictly(call, new, stored)
    rest = {**new, "spec": spec}
    new.clear()
    new.update({name: rest[name] for name in names if name in rest})


def _decode_strictly(call: Call, obj: Raw, stored: Collection[str]) -> None:
    resource, schema = call.resource, schema_of(call.resource)
    if schema is None:
        return
    patched = call.route.verb == "patch"
    patch = call.body if patched else b""
    unknown = _screen_metadata(resource, obj)
    # Most bodies have no nulls, and need no walk. YAML has more words for null, and a JSON patch
    # can copy one.
    other_words = "yaml" in call.content_type or "json-patch" in call.content_type
    nulls = other_words or _NULL.search(call.body) is not None
    # Before `prune`, which drops nulls where Go would write zeros.
    if not resource.custom and nulls:
        fill_nulls(obj, _struct_of(resource))
    clean = not resource.custom and structural.is_clean(obj, schema)
    if not clean:
        unknown += structural.prune(obj, schema, top=True)
    warnings = [FieldWarning(f'unknown field "{path}"', path) for path in unknown]
    if resource.custom or patched:
        warnings.sort()
    if not patched:
        warnings = in_field_order(call, [*duplicate_fields(call), *warnings])
    strictness = call.query.get("fieldValidation", "")
    if warnings and strictness == "Strict":
        why = f"strict decoding error: {', '.join(warning.text for warning in warnings)}"
        raise _unreadable(resource, why, patch)
    if not resource.custom:
        if not clean:
            _check_types(resource, structural.check(obj, schema, integral_floats=False), patch)
        _check_types(resource, resource.strategy.forms.check_types(obj, schema), patch)
        write_as_go_does(obj, _struct_of(resource))
        shorten_quantities(obj, schema)
    # Here, because the layout of custom objects is not known.
    write_as_go_does(obj["metadata"], _METADATA_STRUCT)
    if strictness != "Ignore":
        call.warn(*(warning.text for warning in warnings))
        preserved = set(preserved_unknown_fields(call, obj)) - set(stored)
        call.warn(*(f'unknown field "{path}"' for path in sorted(preserved)))


def warn_of_duplicates(call: Call) -> None:
    """Warn of fields that the body has twice, or reject them if the client asks for that."""
    duplicates = duplicate_fields(call)
    if duplicates and call.query.get("fieldValidation") == "Strict":
        raise api_errors.unprocessable()
    call.warn(*(duplicate.text for duplicate in duplicates))


def preserved_unknown_fields(call: Call, obj: Raw) -> list[str]:
    """Paths of unknown fields that are stored anyway; empty if no warning is due."""
    # Controllers write status often and do not own the spec: they get no warnings about it.
    if call.route.subresource or call.query.get("fieldValidation") == "Ignore":
        return []
    return call.resource.strategy.forms.unknown_fields(obj)


def _screen_metadata(resource: Resource, obj: Raw) -> list[str]:
    """Check the metadata of a custom object, which its schema does not describe."""
    if not resource.custom:
        return []
    schema = schemas.by_name(METADATA)
    unknown = structural.prune(obj["metadata"], schema, "metadata")
    _check_types(resource, structural.check(obj["metadata"], schema, "metadata"))
    return unknown


def check_shape(api_version: str, kind: str, obj: Raw) -> Raw:
    """Check the body of a subresource (a Binding, a Scale, options) by its published schema."""
    group, _, version = api_version.rpartition("/")
    schema = schemas.for_kind(group, version, kind)
    if schema is not None:
        structural.prune(obj, schema, top=True)
        resource = Resource(group, version, "", kind)
        _check_types(resource, structural.check(obj, schema))
    return obj


def _check_types(resource: Resource, causes: Iterable[Cause], patch: bytes = b"") -> None:
    for cause in causes:
        if cause.reason == "FieldValueTypeInvalid":
            why = f"json: cannot unmarshal into field {cause.field}: {cause.message}"
            raise _unreadable(resource, why, patch)


def _unreadable(resource: Resource, why: str, patch: bytes = b"") -> StatusError:
    if patch:
        cause = causes.invalid("patch", patch.decode(errors="replace"), why)
        return api_errors.invalid("", "", "", [cause])
    kind = resource.kind
    return api_errors.bad_request(
        f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {why}'
    )
