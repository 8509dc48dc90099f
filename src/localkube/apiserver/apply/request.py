"""Field owners for one request: who writes, and what an apply makes of an object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.objects.meta import timestamp
from localkube.apiserver import api_errors, codec
from localkube.apiserver.api_errors import Cause
from localkube.apiserver.apply import field_set, managed_fields, path_elements, tracking
from localkube.apiserver.apply.config import config_errors
from localkube.apiserver.apply.list_items import NoIdentityError
from localkube.apiserver.apply.ownership import ConflictsError, Manager
from localkube.apiserver.apply.tracking import AppliedObject, Writer
from localkube.apiserver.http.requests import query_bool

if TYPE_CHECKING:
    from datetime import datetime

    from kubekit.errors import StatusError
    from kubekit.objects.meta import Raw
    from localkube.apiserver.admission.admit import Track
    from localkube.apiserver.apply.field_types import FieldType
    from localkube.apiserver.http.requests import Call
    from localkube.apiserver.resource import Resource

_STATUS: field_set.FieldSet = {"f:status": {}}
_UNTRACKED = frozenset({"binding", "eviction"})
"""Subresources through which the server itself writes: the caller owns nothing."""


def tracker(call: Call, now: datetime) -> Track:
    """How the owners of fields follow a create, an update or a patch."""
    if call.route.subresource in _UNTRACKED:
        return _as_before
    resource, writer = call.resource, writer_of(call, now)
    show, version = resource.strategy.from_stored, resource.api_version

    def track(new: Raw, old: Raw | None, sent: list[Raw] | None) -> list[Raw]:
        before = show(old, version) if old is not None else None
        try:
            return tracking.updated(before, show(new, version), sent, writer, resource.field_type)
        except (NoIdentityError, RecursionError):
            # An invalid object is rejected later, or its kind allows it: then nobody owns it. The
            # fields of an object with hundreds of levels have no owners either.
            return []

    return track


def tracked_before(track: Track, resource: Resource, obj: Raw) -> Track:
    """The owners of a new object as it is now: later changes of the object have no owner."""
    requested = codec.copy(obj)
    sent = requested["metadata"].pop("managedFields", None)
    resource.strategy.defaults(requested)
    entries = track(requested, None, sent)
    return lambda new, old, sent: entries


def _as_before(new: Raw, old: Raw | None, sent: list[Raw] | None) -> list[Raw]:
    return managed_fields.entries_of(old) if old else []


def as_requested(new: Raw, old: Raw | None, sent: list[Raw] | None) -> list[Raw]:
    """The owners that an apply has already put into the object."""
    return sent or []


def writer_of(call: Call, now: datetime) -> Writer:
    """The caller as an owner of fields."""
    resource, subresource = call.resource, call.route.subresource
    reset: field_set.FieldSet = _STATUS if resource.has_status else {}
    if subresource == "status":
        reset = resource.strategy.not_by_status
    elif subresource == "ephemeralcontainers":
        reset = {}  # the writer owns even the fields that the subresource then ignores
    version, time = resource.api_version, timestamp(now)
    return Writer(call.field_manager, version, subresource, time, reset)


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


def apply_config(call: Call, live: Raw | None, config: Raw, now: datetime) -> Raw:
    """The object after an apply, with its owners; a 409 if others own what it changes."""
    writer, of = writer_of(call, now), call.resource.field_type
    obj, entries = apply_as(call, live, config, writer, of)
    return obj | {"metadata": {**obj["metadata"], "managedFields": entries}}


def apply_as(
    call: Call, live: Raw | None, config: Raw, writer: Writer, of: FieldType
) -> AppliedObject:
    """The object after an apply by this writer, and its entries."""
    force = query_bool(call.query.get("force"))
    try:
        return tracking.applied(live, config, writer, of, force=force)
    except ConflictsError as error:
        raise conflict(error) from error
    except NoIdentityError as error:
        raise api_errors.bad_request(f"failed to merge config: {error}") from error
    except RecursionError as error:
        raise _too_deep() from error


def _too_deep() -> StatusError:
    return api_errors.bad_request("the object has too many levels for an apply")


def conflict(error: ConflictsError) -> StatusError:
    """The 409 of an apply, with one cause for each field."""
    found = [
        (_shown(manager), path_elements.path_text(path))
        for manager in sorted(error.by_manager)
        for path in field_set.paths(error.by_manager[manager], path_elements.order)
    ]
    causes = [Cause(path, "FieldManagerConflict", f"conflict with {who}") for who, path in found]
    if len(found) == 1:
        who, path = found[0]
        text = f"Apply failed with 1 conflict: conflict with {who}: {path}"
    else:
        by_manager: dict[str, list[str]] = {}
        for who, path in found:
            by_manager.setdefault(who, [f"conflicts with {who}:"]).append(f"- {path}")
        lines = "\n".join("\n".join(part) for part in by_manager.values())
        text = f"Apply failed with {len(found)} conflicts: {lines}"
    return api_errors.apply_conflict(text, causes)


def _shown(manager: Manager) -> str:
    text = f'"{manager.name}"'
    if manager.subresource:
        text += f' with subresource "{manager.subresource}"'
    if manager.operation == managed_fields.UPDATE:
        text += f" using {manager.version}"
    return text
