"""`metadata.managedFields`: the owners of an object's fields as every reader sees them.

Pure: the clock is an argument. Entries come first by operation, then by time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from localkube.apiserver.apply import field_set
from localkube.apiserver.apply.ownership import Manager, Owned, Owners

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from localkube.apiserver.apply.field_set import FieldSet, Path


APPLY, UPDATE = "Apply", "Update"
_FIELDS_TYPE = "FieldsV1"
_MAX_UPDATERS = 10
_OLD_UPDATERS = "ancient-changes"
_NO_OWNER: FieldSet = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {
        ".": {},
        **{
            f"f:{name}": {}
            for name in (
                "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName",
                "generation", "managedFields", "resourceVersion",
            )
        },
    },
}  # fmt: skip
"""Fields that identify an object or that only the server writes."""


class Managed(NamedTuple):
    """The owners of an object's fields, and the time of the last write of each."""

    owners: Owners
    times: dict[Manager, str]


def decode(entries: list[Raw]) -> Managed | None:
    """The owners in a list of entries; None if an entry is invalid."""
    managed = Managed({}, {})
    for entry in entries:
        fields = _fields(entry)
        if fields is None:
            return None
        operation, version = entry["operation"], entry["apiVersion"]
        manager = Manager(
            str(entry.get("manager") or ""),
            operation,
            "" if operation == APPLY else version,
            str(entry.get("subresource") or ""),
        )
        managed.owners[manager] = Owned(fields, version)
        if entry.get("time"):
            managed.times[manager] = entry["time"]
    return managed


def _fields(entry: Raw) -> FieldSet | None:
    known = entry.get("operation") in (APPLY, UPDATE) and entry.get("apiVersion")
    fields = entry.get("fieldsV1") or {}
    if not known or entry.get("fieldsType") != _FIELDS_TYPE or not isinstance(fields, dict):
        return None
    return fields


def canonical(entries: list[Raw]) -> list[Raw] | None:
    """Entries of a client, with path elements as this server writes them; None if invalid."""
    try:
        return [
            {**entry, "fieldsV1": _canonical_set(entry.get("fieldsV1") or {})} for entry in entries
        ]
    except (msgspec.DecodeError, AttributeError, TypeError):
        return None


def _canonical_set(node: FieldSet) -> FieldSet:
    result: FieldSet = {}
    for element, child in node.items():
        known = element if element == field_set.SELF else field_set.canonical(element)
        if known:
            result[known] = _canonical_set(child)
    return result


def is_reset(entries: list[Raw]) -> bool:
    """Whether a client asks to forget all owners: it sends no entry, or a single empty one."""
    return not entries or entries == [{}]


def encode(managed: Managed) -> list[Raw]:
    """The entries for the owners."""
    entries = []
    for manager, owned in managed.owners.items():
        entry: Raw = {"manager": manager.name, "operation": manager.operation}
        entry["apiVersion"] = owned.version
        if manager in managed.times:
            entry["time"] = managed.times[manager]
        entry |= {"fieldsType": _FIELDS_TYPE, "fieldsV1": owned.fields}
        if manager.subresource:
            entry["subresource"] = manager.subresource
        entries.append(entry)
    if len(entries) > 1:
        names = ("operation", "time", "manager", "apiVersion", "subresource")
        entries.sort(key=lambda entry: [str(entry.get(name) or "") for name in names])
    return entries


def without_times(entries: list[Raw]) -> list[Raw]:
    """The entries without the times of the writes."""
    return [{k: v for k, v in entry.items() if k != "time"} for entry in entries]


def ownable(fields: FieldSet) -> FieldSet:
    """The fields of a set that a manager can own."""
    return field_set.difference(fields, _NO_OWNER)


def cap_updaters(managed: Managed) -> None:
    """Merge the oldest updates, in place, if too many managers made updates."""
    owners, times = managed
    updaters = [manager for manager in owners if manager.operation == UPDATE]
    surplus = len(updaters) - _MAX_UPDATERS
    if surplus <= 0:
        return
    updaters.sort(key=lambda manager: (times.get(manager, ""), manager))
    first_of_version: dict[str, Manager] = {}
    for manager in updaters:
        if surplus <= 0:
            return
        owned = owners[manager]
        bucket = Manager(_OLD_UPDATERS, UPDATE, owned.version, "")
        first = first_of_version.setdefault(owned.version, manager)
        if first == manager:
            continue
        if bucket not in owners:
            owners[bucket] = owners.pop(first)
        fields = field_set.union(owned.fields, owners[bucket].fields)
        owners[bucket] = Owned(fields, owned.version)
        del owners[manager]
        surplus -= 1
        # The merged update is newer than the others in the bucket.
        if manager in times:
            times[bucket] = times[manager]


def entries_of(obj: Raw) -> list[Raw]:
    """The entries that an object has."""
    entries: Any = obj["metadata"].get("managedFields")
    return entries if isinstance(entries, list) else []


# -- the subresource `scale` ---------------------------------------------------------------------

# A Scale has one field of its object. Its owners are those of that field, under another name.
VERSION = "autoscaling/v1"
_IN_SCALE = ("f:spec", "f:replicas")


def owners_of_scale(entries: list[Raw], path: Path) -> list[Raw]:
    """The entries of a Scale, from those of its object, whose replicas are at `path`."""
    managed = decode(entries) or Managed({}, {})
    owners = {
        _in_scale(manager): Owned(field_set.single(_IN_SCALE), VERSION)
        for manager, owned in managed.owners.items()
        if field_set.contains(owned.fields, path)
    }
    times = {_in_scale(manager): time for manager, time in managed.times.items()}
    return encode(Managed(owners, times))


def owners_of_object(
    entries: list[Raw], scale_entries: list[Raw], path: Path, version: str
) -> list[Raw]:
    """The entries of an object after a write of its Scale left these entries in the Scale."""
    managed = decode(entries) or Managed({}, {})
    scale = decode(scale_entries) or Managed({}, {})
    replicas = field_set.single(path)
    left = {m for m, owned in scale.owners.items() if field_set.contains(owned.fields, _IN_SCALE)}
    owners = {}
    for manager, owned in managed.owners.items():
        keeps = _in_scale(manager) in left or not field_set.contains(owned.fields, path)
        fields = owned.fields if keeps else field_set.difference(owned.fields, replicas)
        if fields:
            owners[manager] = Owned(fields, owned.version)
    known = {_in_scale(manager) for manager in managed.owners}
    for manager in left - known:
        own = manager._replace(version=version) if manager.operation == UPDATE else manager
        # As on the real server, an owner of nothing but replicas has no time.
        owners[own] = Owned(replicas, version)
    return encode(Managed(owners, managed.times))


def _in_scale(manager: Manager) -> Manager:
    return manager._replace(version=VERSION) if manager.operation == UPDATE else manager
