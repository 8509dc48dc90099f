"""Objects and bytes: how an object is written, keyed, and what selectors may ask of it.

Pure; used by `verbs.py` and its neighbours. Stored bytes always begin with `apiVersion`, `kind`
and `metadata`, so that another version of a kind is a different beginning of the same bytes.

Whether a label selector that stands in an object chooses these labels.

Pure; used for deployments, disruption budgets and roles that are made of others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from muster.api.affinity import LabelSelector
from muster.api.selectors import from_labels
from muster.errors import InvalidSelector
from muster.local.apiserver.kinds import event
from muster.local.apiserver.schema import structural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from muster.api.meta import Raw
    from muster.local.apiserver.registry import Resource
    from muster.local.apiserver.store.changes import Entry


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


def decode(value: bytes) -> Raw:
    """The object in these bytes (ours, so it is an object)."""
    return cast("Raw", _decoder.decode(value))


def dump(obj: object) -> bytes:
    """JSON."""
    return _encoder.encode(obj)


def encoder(obj: Raw, api_version: str) -> Callable[[int], bytes]:
    """Bytes of `obj` for the revision it gets, in the version it is stored in."""

    def encode(revision: int) -> bytes:
        metadata = obj["metadata"] | {"resourceVersion": str(revision)}
        return as_stored(obj | {"metadata": metadata}, api_version)

    return encode


def as_stored(obj: Raw, api_version: str) -> bytes:
    """Bytes of `obj` in this version, beginning as stored bytes do."""
    head = {"apiVersion": api_version, "kind": obj["kind"], "metadata": obj["metadata"]}
    return _encoder.encode(head | {k: v for k, v in obj.items() if k not in head})


def stored_encoder(obj: Raw, resource: Resource) -> Callable[[int], bytes]:
    """Bytes of an object that a client wrote in this version of the resource."""
    if resource.stored is not None:
        obj = structural.reshape(decode(dump(obj)), resource.stored)
    return encoder(obj, resource.stored_api_version)


def to_stored_form(obj: Raw, resource: Resource) -> Raw:
    """An object in the form it is stored in."""
    return obj if resource.home is None else event.to_core(obj)


def in_version(value: bytes, resource: Resource) -> bytes:
    """Stored bytes as the version of the resource that was asked for.

    Versions are not converted. But an object is read as the storage version's schema is now, with
    its defaults, and each version shows only what its own schema knows.
    """
    if resource.home is not None:
        return dump(event.from_core(decode(value), resource.api_version))
    if resource.reshapes and resource.shape is not None:
        obj = decode(value) | {"apiVersion": resource.api_version}
        structural.reshape(obj, resource.stored or resource.shape)
        structural.prune(obj, resource.shape, top=True)
        return dump(obj)
    if value.startswith(resource.opening):
        return value
    # It may have been stored when another version was the one to store.
    return resource.opening + value[value.index(b'"', len(_BEFORE_VERSION)) + 1 :]


_BEFORE_VERSION = b'{"apiVersion":"'


def version_prefix(api_version: str) -> bytes:
    """How the bytes of an object of this version begin."""
    return _BEFORE_VERSION + api_version.encode() + b'"'


def is_current(value: bytes, resource: Resource) -> bool:
    """Whether bytes are stored in the version that they would be stored in now."""
    return value.startswith(version_prefix(resource.stored_api_version))


def is_being_deleted(value: bytes) -> bool:
    """Whether a stored object is marked for deletion."""
    marked = b'"deletionTimestamp"' in value  # mostly not, and that is cheap to see
    return marked and "deletionTimestamp" in decode(value)["metadata"]


def key(resource: Resource, namespace: str, name: str) -> str:
    """Where an object is stored."""
    return f"{resource.collection}/{namespace if resource.namespaced else ''}/{name}"


def prefix(resource: Resource, namespace: str) -> str:
    """Where the objects of a namespace, or of all, are stored."""
    return f"{resource.collection}/{namespace}/" if namespace else f"{resource.collection}/"


_UNSET = {"spec.hostNetwork": "false", "spec.unschedulable": "false"}


class SelectorFields(NamedTuple):
    """What selectors look at."""

    labels: dict[str, str]
    fields: dict[str, str]


def selector_fields(entry: Entry, fields: Iterable[str]) -> SelectorFields:
    """Labels and selectable fields; worked out once per stored object."""
    if isinstance(entry.facts, SelectorFields):
        return entry.facts
    obj = decode(entry.value)
    found = SelectorFields(
        obj["metadata"].get("labels") or {},
        {path: text(at(obj, path)) or _UNSET.get(path, "") for path in fields},
    )
    entry.facts = found
    return found


def at(obj: Any, path: str) -> Any:
    """The value at a dotted path, or None."""
    for part in path.lstrip(".").split("."):
        if not isinstance(obj, dict):
            return None
        obj = obj.get(part)
    return obj


def text(value: object) -> str:
    """A field's value as selectors compare it."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def selector_matches(selector: Raw, labels: Mapping[str, str]) -> bool:
    """A selector that makes no sense chooses nothing."""
    try:
        return from_labels(msgspec.convert(selector, LabelSelector)).matches(labels)
    except (InvalidSelector, msgspec.ValidationError):
        return False
