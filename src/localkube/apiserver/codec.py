"""Objects and bytes: the stored form and the key of an object, and the fields that selectors read.

Stored bytes always begin with `apiVersion`, `kind` and `metadata`. So most objects are shown in
another version of their kind by replacing the first bytes, without decoding the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import msgspec

from kubekit.objects.affinity import LabelSelector
from kubekit.objects.selectors import InvalidSelector, from_labels
from localkube.apiserver import api_errors
from localkube.apiserver.schema import structural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kubekit.objects.meta import Raw
    from localkube.apiserver.resource import Resource
    from localkube.apiserver.store.collection import Entry


T = TypeVar("T")
_LIMIT = 3 * 1024 * 1024
"""Bytes of a stored object, the limit of a request body too."""

# Created once, because every request uses them.
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


def decode(value: bytes) -> Raw:
    """The object in stored bytes."""
    return cast("Raw", _decoder.decode(value))


def dump(obj: object) -> bytes:
    """The JSON of an object."""
    return _encoder.encode(obj)


def copy(value: T) -> T:
    """A deep copy of JSON."""
    # Encoding and decoding is several times faster than copy.deepcopy.
    return cast("T", _decoder.decode(_encoder.encode(value)))


def encoder(obj: Raw, api_version: str) -> Callable[[int], bytes]:
    """A function from the revision that `obj` gets to its stored bytes."""

    def encode(revision: int) -> bytes:
        metadata = obj["metadata"] | {"resourceVersion": str(revision)}
        return as_stored(obj | {"metadata": metadata}, api_version)

    return encode


def as_stored(obj: Raw, api_version: str) -> bytes:
    """Bytes of `obj` in this version, beginning as stored bytes do."""
    head = {"apiVersion": api_version, "kind": obj["kind"], "metadata": obj["metadata"]}
    return _encoder.encode(head | {k: v for k, v in obj.items() if k not in head})


def stored_encoder(obj: Raw, resource: Resource) -> Callable[[int], bytes]:
    """The encoder of an object that a client wrote in this version of the resource."""
    if resource.storage_schema is not None:
        obj = structural.reshape(copy(obj), resource.storage_schema)
    unbounded = encoder(obj, resource.stored_api_version)

    def encode(revision: int) -> bytes:
        value = unbounded(revision)
        # Each body is bounded, but a client can patch an object many times.
        if len(value) > _LIMIT:
            raise api_errors.too_large(f"Request entity too large: limit is {_LIMIT}")
        return value

    return encode


def in_version(value: bytes, resource: Resource) -> bytes:
    """Stored bytes in the requested version of the resource.

    Fields are not converted between versions. But an object is read with the defaults of the
    present schema of the storage version, and each version shows only the fields of its schema.
    """
    if resource.stored_in_group is not None:
        return dump(resource.strategy.forms.from_stored(decode(value), resource.api_version))
    schema = resource.walkable_schema
    if resource.needs_reshaping and schema is not None:
        obj = decode(value) | {"apiVersion": resource.api_version}
        structural.reshape(obj, resource.storage_schema or schema)
        structural.prune(obj, schema, top=True)
        return dump(obj)
    if value.startswith(resource.version_prefix):
        return value
    # Another version was requested, or was the storage version when the object was written.
    return resource.version_prefix + value[value.index(b'"', len(_BEFORE_VERSION)) + 1 :]


_BEFORE_VERSION = b'{"apiVersion":"'


def version_prefix(api_version: str) -> bytes:
    """The first bytes of an object of this version."""
    return _BEFORE_VERSION + api_version.encode() + b'"'


def is_current(value: bytes, resource: Resource) -> bool:
    """Whether stored bytes are of the present storage version."""
    return value.startswith(version_prefix(resource.stored_api_version))


def is_being_deleted(value: bytes) -> bool:
    """Whether a stored object is marked for deletion."""
    marked = b'"deletionTimestamp"' in value  # cheap, and mostly False: decoding is not needed
    return marked and "deletionTimestamp" in decode(value)["metadata"]


def key(resource: Resource, namespace: str, name: str) -> str:
    """The key of an object."""
    return f"{resource.collection}/{namespace if resource.namespaced else ''}/{name}"


def prefix(resource: Resource, namespace: str) -> str:
    """The common prefix of the keys in a namespace, or in all."""
    return f"{resource.collection}/{namespace}/" if namespace else f"{resource.collection}/"


# The text that selectors compare where these fields are missing.
_UNSET = {"spec.hostNetwork": "false", "spec.unschedulable": "false"}


class SelectorFields(NamedTuple):
    """The labels and fields that selectors compare."""

    labels: dict[str, str]
    fields: dict[str, str]


def selector_fields(entry: Entry, fields: Iterable[str]) -> SelectorFields:
    """Labels and selectable fields; computed once per stored object."""
    if isinstance(entry.selector_fields, SelectorFields):
        return entry.selector_fields
    obj = decode(entry.value)
    entry.selector_fields = SelectorFields(
        obj["metadata"].get("labels") or {},
        {path: text(at(obj, path)) or _UNSET.get(path, "") for path in fields},
    )
    return entry.selector_fields


def at(obj: Any, path: str) -> Any:
    """The value at a dotted path, or None."""
    for part in path.lstrip(".").split("."):
        if not isinstance(obj, dict):
            return None
        obj = obj.get(part)
    return obj


def put(obj: Raw, path: str, value: object) -> None:
    """Set the value at a dotted path."""
    *parents, last = path.split(".")
    for name in parents:
        obj = obj.setdefault(name, {})
    obj[last] = value


def text(value: object) -> str:
    """A field's value as selectors compare it."""
    if isinstance(value, bool):  # as in JSON
        return str(value).lower()
    return "" if value is None else str(value)


def selector_matches(selector: Raw, labels: Mapping[str, str]) -> bool:
    """Whether a label selector of an object matches; an invalid selector matches nothing."""
    try:
        return from_labels(msgspec.convert(selector, LabelSelector)).matches(labels)
    except (InvalidSelector, msgspec.ValidationError):
        return False
