"""Object metadata: names, owners, conditions, and the `Key` that the whole program passes around.

Structs hold only the fields that are read, so one must never be written back whole: send a PATCH,
or keep the raw object. All are frozen; change one with `msgspec.structs.replace`.
"""

# No `from __future__ import annotations`: msgspec would have to compile each of them again.

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Protocol

import msgspec

from kubekit.objects.annotation_values import read_time

Raw = dict[str, Any]
"""An object as decoded JSON, for code that must preserve fields it does not know."""

MAX_SECONDS = 2**31 - 1
"""The longest time in an object that Muster accepts or counts with; datetime overflows later."""

SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""The letters of generated name suffixes: no vowels, so that they never form words."""
_BEGINNING, _END = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_CAPITALS = {
    "cluster_ip": "clusterIP", "downward_api": "downwardAPI", "host_ip": "hostIP",
    "pod_ip": "podIP", "scale_io": "scaleIO",
}  # fmt: skip


def wire_name(field: str) -> str:
    """The JSON name of a field: camel case, with the capitals that Kubernetes uses."""
    first, *others = field.split("_")
    return _CAPITALS.get(field) or first + "".join(word.capitalize() for word in others)


class Object(msgspec.Struct, frozen=True, gc=False, rename=wire_name):
    """Base of all structs: frozen, camelCase in JSON, not tracked by the garbage collector.

    `gc=False` is safe because decoded JSON has no cycles; it makes decoding a third faster and
    keeps 10,000 cached pods out of every collection.
    """


class Key(NamedTuple):
    """Namespace and name of an object; the key of queues and caches."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @classmethod
    def parse(cls, text: str) -> "Key":
        """The inverse of `str`."""
        namespace, _, name = text.rpartition("/")
        return cls(namespace, name)


def key_of(raw: Raw) -> Key:
    """The key of a raw object; of a struct it is `metadata.key`."""
    metadata = raw.get("metadata") or {}
    return Key(metadata.get("namespace", ""), metadata.get("name", ""))


def mapping(value: object) -> Raw:
    """A field of a raw object that should be an object; empty if it is anything else."""
    return value if isinstance(value, dict) else {}


def object_name(item: Raw) -> str:
    """`pod/x`, `tfjob.kubeflow.org/x`: as kubectl names an object."""
    group = item["apiVersion"].rpartition("/")[0]
    name = item["metadata"].get("name") or f"{item['metadata'].get('generateName', '')}…"
    return f"{item['kind'].lower()}{'.' if group else ''}{group}/{name}"


def timestamp(moment: datetime, *, micro: bool = False) -> str:
    """A time as the API writes it: metav1.Time, or metav1.MicroTime with `micro`."""
    try:
        utc = moment.astimezone(UTC)
    except OverflowError:  # a stranger's time in the year 1 or 9999, that in UTC is in none
        utc = moment
    text = utc.replace(tzinfo=None).isoformat(timespec="microseconds" if micro else "seconds")
    return f"{text}Z"


def read_timestamp(value: object) -> datetime | None:
    """The moment of a timestamp, in UTC; None for any other value."""
    return read_time(value) if isinstance(value, str) else None


def in_utc(moment: datetime | None) -> datetime | None:
    """A time of an object in UTC; None if it has none, as just after the beginning of time."""
    if moment is None or moment.tzinfo is UTC:
        return moment
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError:
        return None


def shifted(moment: datetime, seconds: float) -> datetime:
    """The moment this many seconds later or earlier; at most the first or last one that exists."""
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return _END if seconds > 0 else _BEGINNING


def seconds_left(since: datetime, delay: float, now: datetime) -> float:
    """Seconds until a delay that began at `since` is over; 0 or less: it is over.

    It is over too if it began in the future: the clock was set back, and nobody can say how long
    ago that was. A minute may be the difference between the clocks of two machines.
    """
    passed = (now - since).total_seconds()
    return 0.0 if passed < -60 else delay - passed


def merge_patch(old: Raw, new: Raw) -> Raw:
    """The merge patch that makes `new` of `old`: removed fields are null, on every level."""
    result: Raw = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            inner = merge_patch(before, value)
            if inner:
                result[name] = inner
        elif value != before or name not in old:  # None is a value too: a new null is a change
            result[name] = value
    return result


class OwnerReference(Object, frozen=True):
    """An owner of an object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Object, frozen=True):
    """The metadata of every object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that is the controller of this object, if any."""
        return next((o for o in self.owner_references if o.controller), None)


class ApiObject(Object, frozen=True):
    """Base of the structs of whole objects, which have metadata."""

    metadata: ObjectMeta = ObjectMeta()


def preconditions(meta: ObjectMeta) -> Raw:
    """Metadata for a patch that must fail with `Conflict` if the object changed since."""
    return {"uid": meta.uid, "resourceVersion": meta.resource_version}


class HasMetadata(Protocol):
    """Anything an informer can hold."""

    @property
    def metadata(self) -> ObjectMeta: ...


class Condition(Object, frozen=True):
    """One row of `status.conditions`, for pods, nodes, jobs and groups alike."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


def find_condition(conditions: tuple[Condition, ...], type_: str) -> Condition | None:
    """The condition of that type, if any."""
    return next((c for c in conditions if c.type == type_), None)


def condition_is_true(conditions: tuple[Condition, ...], type_: str) -> bool:
    """Whether a condition of that type exists and is True."""
    condition = find_condition(conditions, type_)
    return condition is not None and condition.status == "True"
