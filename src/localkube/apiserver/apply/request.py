"""One request and the owners of fields: who writes, who owns what afterwards, what an apply makes.

Creates, updates and patches are tracked; an apply merges a configuration, or is a 409. Both give
the object its new `metadata.managedFields`. An object whose owners a client has reset is not
tracked again before the next apply, which finds all its fields owned by `before-first-apply`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kubekit.objects.meta import timestamp
from localkube.apiserver import api_errors, codec
from localkube.apiserver.apply import field_set, managed_fields, ownership
from localkube.apiserver.apply.compare import compare, stated_fields
from localkube.apiserver.apply.field_types import NoIdentityError, element_of
from localkube.apiserver.apply.managed_fields import APPLY, UPDATE, Managed
from localkube.apiserver.apply.ownership import ConflictsError, Manager, Owned
from localkube.apiserver.causes import Cause
from localkube.apiserver.http.requests import query_bool

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from kubekit.objects.meta import Raw
    from kubekit.request_errors import StatusError
    from localkube.apiserver.admission.create_and_update import Track
    from localkube.apiserver.apply.field_set import FieldSet
    from localkube.apiserver.apply.field_types import FieldType
    from localkube.apiserver.http.requests import Call
    from localkube.apiserver.resource import Resource


_STATUS: FieldSet = {"f:status": {}}
_UNTRACKED = frozenset({"binding", "eviction"})
"""Subresources through which the server itself writes: the caller owns nothing."""
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


def writer_of(call: Call, now: datetime) -> Writer:
    """The caller as an owner of fields."""
    resource, subresource = call.resource, call.route.subresource
    reset: FieldSet = _STATUS if resource.has_status else {}
    if subresource == "status":
        reset = resource.strategy.status.keeps
    elif subresource == "ephemeralcontainers":
        reset = {}  # the writer owns even the fields that the subresource then ignores
    version, time = resource.api_version, timestamp(now)
    return Writer(call.field_manager, version, subresource, time, reset)


# -- create, update, patch -------------------------------------------------------------------------


def tracker(call: Call, now: datetime) -> Track:
    """How the owners of fields follow a create, an update or a patch."""
    if call.route.subresource in _UNTRACKED:
        return lambda new, old, sent: managed_fields.entries_of(old) if old else []
    resource, writer = call.resource, writer_of(call, now)
    show, version = resource.strategy.forms.from_stored, resource.api_version

    def track(new: Raw, old: Raw | None, sent: list[Raw] | None) -> list[Raw]:
        before = show(old, version) if old is not None else None
        try:
            return updated(before, show(new, version), sent, writer, resource.field_type)
        except (NoIdentityError, RecursionError):
            # An invalid object is rejected later, or its kind allows it: then nobody owns it. The
            # fields of an object with hundreds of levels have no owners either.
            return []

    return track


def tracked_before(track: Track, resource: Resource, obj: Raw) -> Track:
    """The owners of a new object as it is now: later changes of the object have no owner."""
    requested = codec.copy(obj)
    sent = requested["metadata"].pop("managedFields", None)
    resource.strategy.completion.defaults(requested)
    entries = track(requested, None, sent)
    return lambda new, old, sent: entries


def as_requested(new: Raw, old: Raw | None, sent: list[Raw] | None) -> list[Raw]:
    """The owners that an apply has already put into the object."""
    return sent or []


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
    owners, taken = ownership.update(old or {}, new, managed.owners, of, writer.reset)
    if taken := managed_fields.ownable(taken):
        manager = writer.manager(UPDATE)
        before = owners.get(manager)
        fields = field_set.union(taken, before.fields) if before else taken
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


# -- apply -----------------------------------------------------------------------------------------


def apply_config(call: Call, live: Raw | None, config: Raw, now: datetime) -> Raw:
    """The object after an apply, with its owners; a 409 if others own what it changes."""
    writer, of = writer_of(call, now), call.resource.field_type
    obj, entries = apply_as(call, live, config, writer, of)
    return obj | {"metadata": {**obj["metadata"], "managedFields": entries}}


def apply_as(
    call: Call, live: Raw | None, config: Raw, writer: Writer, of: FieldType
) -> tuple[Raw, list[Raw]]:
    """The object after an apply by this writer, and its entries."""
    force = query_bool(call.query.get("force"))
    try:
        return applied(live, config, writer, of, force=force)
    except ConflictsError as error:
        raise conflict(error) from error
    except NoIdentityError as error:
        raise api_errors.bad_request(f"failed to merge config: {error}") from error
    except RecursionError as error:
        raise _too_deep() from error


def _too_deep() -> StatusError:
    return api_errors.bad_request("the object has too many levels for an apply")


def applied(
    live: Raw | None, config: Raw, writer: Writer, of: FieldType, *, force: bool
) -> tuple[Raw, list[Raw]]:
    """Apply a configuration; ConflictsError if it changes fields of others without force."""
    managed = _live_or_sent(managed_fields.entries_of(live) if live else [], None)
    live = {**live, "metadata": _without(live["metadata"], "managedFields")} if live else {}
    if live and not managed.owners:
        # Its owners are not known. They are not asked before the apply, but shown in a conflict.
        first = writer._replace(name=_BEFORE_FIRST_APPLY)
        managed = managed_fields.decode(updated(None, live, None, first, of)) or managed
    manager = writer.manager(APPLY)
    wanted = ownership.Configuration(config, manager, writer.version, writer.reset, force)
    try:
        obj, owners = ownership.apply(live, managed.owners, wanted, of)
    except ConflictsError as error:
        if writer.name != _KUBECTL:
            raise
        _allow_last_applied(error, live, writer.version, of)
        wanted = wanted._replace(force=True)
        obj, owners = ownership.apply(live, managed.owners, wanted, of)
    if (owned := owners.pop(manager, None)) and (fields := managed_fields.ownable(owned.fields)):
        owners[manager] = owned._replace(fields=fields)
    if obj != live:
        managed.times[manager] = writer.time
    entries = managed_fields.encode(Managed(owners, managed.times))
    return (_with_last_applied(obj, config) if writer.name == _KUBECTL else obj), entries


def _without(fields: Raw, left_out: str) -> Raw:
    return {name: value for name, value in fields.items() if name != left_out}


def conflict(error: ConflictsError) -> StatusError:
    """The 409 of an apply, with one cause for each field."""
    found = [
        (_shown(manager), field_set.path_text(path))
        for manager in sorted(error.by_manager)
        for path in field_set.paths(error.by_manager[manager])
    ]
    causes = [Cause(path, "FieldManagerConflict", f"conflict with {who}") for who, path in found]
    if len(found) == 1:
        who, path = found[0]
        text = f"Apply failed with 1 conflict: conflict with {who}: {path}"
    else:
        by_manager: dict[str, str] = {}
        for who, path in found:
            by_manager[who] = f"{by_manager.get(who, f'conflicts with {who}:')}\n- {path}"
        lines = "\n".join(by_manager.values())
        text = f"Apply failed with {len(found)} conflicts: {lines}"
    return api_errors.error("Conflict", text, {"causes": [cause._asdict() for cause in causes]})


def _shown(manager: Manager) -> str:
    text = f'"{manager.name}"'
    if manager.subresource:
        text += f' with subresource "{manager.subresource}"'
    if manager.operation == UPDATE:
        text += f" using {manager.version}"
    return text


# -- the checks of a configuration -----------------------------------------------------------------


def check_config(call: Call, config: Raw) -> None:
    """Reject a configuration with unknown fields, or with items that cannot be told apart."""
    if config["metadata"].get("managedFields") is not None:
        raise api_errors.bad_request("metadata.managedFields must be nil")
    resource = call.resource
    try:
        errors = config_errors(config, resource.field_type)
    except RecursionError as error:
        raise _too_deep() from error
    if errors:
        text = errors[0] if len(errors) == 1 else "\n  ".join(["errors:", *errors])
        name, namespace = config["metadata"].get("name"), config["metadata"].get("namespace")
        raise api_errors.bad_request(
            f"failed to create typed patch object ({namespace or ''}/{name or ''};"
            f" {resource.group}/{resource.version}, Kind={resource.kind}): {text}"
        )


def config_errors(value: Any, of: FieldType) -> list[str]:
    """What makes a configuration impossible to apply, each error with its path."""
    return [f"{path}: {why}" if path else why for path, why in _errors(value, of, "")]


def _errors(value: Any, of: FieldType, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, part in value.items():
            field = of.field(name)
            if field is None:
                yield f"{path}.{name}", "field not declared in schema"
            else:
                yield from _errors(part, field, f"{path}.{name}")
    elif isinstance(value, list) and of.atomic_list:
        for place, item in enumerate(value):
            yield from _errors(item, of.items(), f"{path}[{place}]")
    elif isinstance(value, list):
        yield from _list_errors(value, of, path)


def _list_errors(value: list[Any], of: FieldType, path: str) -> Iterator[tuple[str, str]]:
    seen = set()
    for place, item in enumerate(value):
        try:
            element = element_of(item, of)
        except NoIdentityError as error:
            yield path, f"element {place}: {error}"
            return
        text = field_set.path_text((element,))
        if element in seen:
            yield path, f"duplicate entries for key {text}"
        seen.add(element)
        yield from _errors(item, of.items(), f"{path}{text}")


# -- from client-side apply to server-side apply ---------------------------------------------------


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
    fields = stated_fields(last, of)
    for differing in compare(last, live, of):
        fields = field_set.difference(fields, differing)
    return fields


def _with_last_applied(obj: Raw, config: Raw) -> Raw:
    """The object with an up-to-date annotation of client-side apply, if it has one."""
    annotations = obj["metadata"].get("annotations") or {}
    if not annotations.get(_LAST_APPLIED):
        return obj
    meta = config["metadata"]
    if "annotations" in meta:
        meta = {**meta, "annotations": _without(meta["annotations"] or {}, _LAST_APPLIED)}
    text = msgspec.json.encode({**config, "metadata": meta}, order="sorted").decode() + "\n"
    annotations = {**annotations, _LAST_APPLIED: text}
    if sum(len(k.encode()) + len(v.encode()) for k, v in annotations.items()) > _MAX_ANNOTATIONS:
        del annotations[_LAST_APPLIED]
    return obj | {"metadata": {**obj["metadata"], "annotations": annotations}}
