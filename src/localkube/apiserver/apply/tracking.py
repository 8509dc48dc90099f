"""The owners of an object's fields before and after one write.

`updated` follows creates, updates and patches; `applied` merges a configuration. Both return the
new `metadata.managedFields`. An object whose owners a client has reset is not tracked again before
the next apply, which then finds all its fields owned by `before-first-apply`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from localkube.apiserver.apply import field_set, managed_fields, ownership
from localkube.apiserver.apply.compare import compare
from localkube.apiserver.apply.config import config_errors
from localkube.apiserver.apply.extract import stated_fields
from localkube.apiserver.apply.managed_fields import APPLY, UPDATE, Managed
from localkube.apiserver.apply.ownership import ConflictsError, Manager, Owned, Owners

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from localkube.apiserver.apply.field_set import FieldSet
    from localkube.apiserver.apply.field_types import FieldType

_CURRENT = "current-operation"
_BEFORE_FIRST_APPLY = "before-first-apply"
_KUBECTL = "kubectl"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_MAX_ANNOTATIONS = 256 * 1024


class Writer(NamedTuple):
    """Who writes, through which version and subresource, and when."""

    name: str
    version: str
    subresource: str
    time: str
    reset: FieldSet
    """Fields that this subresource does not write."""

    def manager(self, operation: str) -> Manager:
        """The identity under which the writer owns fields."""
        version = "" if operation == APPLY else self.version
        return Manager(self.name or "unknown", operation, version, self.subresource)


def updated(
    old: Raw | None, new: Raw, sent: list[Raw] | None, writer: Writer, of: FieldType
) -> list[Raw]:
    """The entries after a create (`old` is None), an update or a patch.

    `sent` are the entries in the request: a client may change or reset them.
    """
    live = managed_fields.entries_of(old) if old else []
    managed = _live_or_sent(live, None if writer.subresource else sent)
    if not managed.owners and old is not None:
        return []
    owners = _after_update(old or {}, new, managed.owners, writer, of)
    current = owners.pop(_current(writer), None)
    if current is not None:
        manager = writer.manager(UPDATE)
        before = owners.get(manager)
        fields = field_set.union(current.fields, before.fields) if before else current.fields
        owners[manager] = Owned(fields, writer.version)
        managed.times[manager] = writer.time
    result = Managed(owners, managed.times)
    managed_fields.cap_updaters(result)
    return managed_fields.encode(result)


def _live_or_sent(live: list[Raw], sent: list[Raw] | None) -> Managed:
    if sent is not None and managed_fields.is_reset(sent):
        return Managed({}, {})
    # Most clients send back what they read: then nothing needs to be put into canonical form.
    canonical = live if sent is None or sent == live else managed_fields.canonical(sent)
    managed = managed_fields.decode(canonical) if canonical else None
    if managed is None or not managed.owners:
        managed = managed_fields.decode(live)
    return managed or Managed({}, {})


def _current(writer: Writer) -> Manager:
    return Manager("", _CURRENT, writer.version, "")


def _after_update(old: Raw, new: Raw, owners: Owners, writer: Writer, of: FieldType) -> Owners:
    current = _current(writer)
    after = ownership.update(old, new, owners, current, of, writer.reset)
    managed_fields.strip(after, current)
    return after


# -- apply ---------------------------------------------------------------------------------------


class AppliedObject(NamedTuple):
    """The object after an apply, and its entries."""

    obj: Raw
    entries: list[Raw]


def applied(
    live: Raw | None, config: Raw, writer: Writer, of: FieldType, *, force: bool
) -> AppliedObject:
    """Apply a configuration; ConflictsError if it changes fields of others without force."""
    managed = managed_fields.decode(managed_fields.entries_of(live)) if live else None
    managed = managed or Managed({}, {})
    live = _without_entries(live) if live else {}
    if live and not managed.owners:
        # Its owners are not known. They are not asked before the apply, but shown in a conflict.
        first = writer._replace(name=_BEFORE_FIRST_APPLY)
        entries = updated(None, live, None, first, of)
        managed = managed_fields.decode(entries) or managed
    manager = writer.manager(APPLY)
    try:
        result = _merge(live, config, managed.owners, writer, of, force=force)
    except ConflictsError as error:
        if writer.name != _KUBECTL:
            raise
        _allow_last_applied(error, live, writer.version, of)
        result = _merge(live, config, managed.owners, writer, of, force=True)
    managed_fields.strip(result.owners, manager)
    if result.obj != live:
        managed.times[manager] = writer.time
    obj = _with_last_applied(result.obj, config) if writer.name == _KUBECTL else result.obj
    return AppliedObject(obj, managed_fields.encode(Managed(result.owners, managed.times)))


def _merge(
    live: Raw, config: Raw, owners: Owners, writer: Writer, of: FieldType, *, force: bool
) -> ownership.Applied:
    manager = writer.manager(APPLY)
    wanted = ownership.Configuration(config, manager, writer.version, writer.reset, force)
    return ownership.apply(live, owners, wanted, of)


def _without_entries(obj: Raw) -> Raw:
    meta = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return obj | {"metadata": meta}


# -- from client-side apply to server-side apply -------------------------------------------------


def _allow_last_applied(error: ConflictsError, live: Raw, version: str, of: FieldType) -> None:
    """Raise the conflicts about fields that kubectl's client-side apply did not set."""
    allowed = _last_applied_fields(live, version, of)
    if allowed is None:
        raise error
    left = {
        manager: rest
        for manager, fields in error.by_manager.items()
        if (rest := field_set.difference(fields, allowed))
    }
    if left:
        raise ConflictsError(left)


def _last_applied_fields(live: Raw, version: str, of: FieldType) -> FieldSet | None:
    """The fields of the last client-side apply that still have its values."""
    text = (live["metadata"].get("annotations") or {}).get(_LAST_APPLIED)
    if not text:
        return None
    try:
        last = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(last, dict) or last.get("apiVersion") != version or config_errors(last, of):
        return None
    comparison = compare(last, live, of)
    fields = stated_fields(last, of)
    for differing in comparison:
        fields = field_set.difference(fields, differing)
    return fields


def _with_last_applied(obj: Raw, config: Raw) -> Raw:
    """The object with an up-to-date annotation of client-side apply, if it has one."""
    annotations = obj["metadata"].get("annotations") or {}
    if not annotations.get(_LAST_APPLIED):
        return obj
    meta = config["metadata"]
    own = {k: v for k, v in (meta.get("annotations") or {}).items() if k != _LAST_APPLIED}
    meta = {**meta, "annotations": own} if "annotations" in meta else meta
    text = msgspec.json.encode({**config, "metadata": meta}, order="sorted").decode() + "\n"
    annotations = {**annotations, _LAST_APPLIED: text}
    if sum(len(k.encode()) + len(v.encode()) for k, v in annotations.items()) > _MAX_ANNOTATIONS:
        del annotations[_LAST_APPLIED]
    return obj | {"metadata": {**obj["metadata"], "annotations": annotations}}
