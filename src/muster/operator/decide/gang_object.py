"""The group object of a job's gang: created, patched, or replaced when the dialect changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.contract.gang import LATE_ANNOTATION
from muster.contract.gang_dialects import GROUP_KIND_BY_RESOURCE
from muster.operator.action_types import Action, Create, Delete, EmitEvent, Patch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.objects.meta import Raw
    from muster.jobs.job import Job
    from muster.operator.build.gang import Gang
    from muster.operator.observed_job import Observed

_OPTIONAL_FIELDS = (
    "minTaskMember",
    "minResources",
    "queue",
    "priorityClassName",
    "scheduleTimeoutSeconds",
)
"""Fields of a group's spec that are removed when the job no longer sets them."""
_SERVER_DEFAULTS = {"queue": "default"}
"""Values that Volcano itself fills in: it would do so again whenever we removed them."""


def ensure_group_object(job: Job, observed: Observed, gang: Gang) -> list[Action]:
    actions = delete_group_objects(job, observed, keep=gang)
    if gang.kind is None:
        return actions
    manifest = gang.manifest()
    existing = observed.objects.get((gang.kind.resource, job.name))
    if existing is None:
        return [*actions, Create(gang.kind, manifest)]
    change = field_changes(existing, manifest) | _late_members(existing, manifest)
    if gang.dialect != "native":  # In the native group the server fills in a priority class.
        removed = _removed_fields(existing.get("spec") or {}, manifest["spec"])
        change |= {"spec": change.get("spec", {}) | removed} if removed else {}
    if "spec" in change and gang.dialect == "native":
        # The native group's spec is immutable: delete it; its deletion wakes the job again.
        if existing["metadata"].get("deletionTimestamp"):
            return actions
        return [*actions, Delete(gang.kind, job.name, existing["metadata"]["uid"])]
    return [*actions, Patch(gang.kind, job.name, change)] if change else actions


def delete_group_objects(job: Job, observed: Observed, keep: Gang | None = None) -> list[Action]:
    """Delete the job's group objects, except the object of the dialect in use."""
    actions: list[Action] = []
    for resource, kind in GROUP_KIND_BY_RESOURCE.items():
        if keep is not None and kind == keep.kind:
            continue
        existing = observed.objects.get((resource, job.name))
        if existing is not None and not existing["metadata"].get("deletionTimestamp"):
            actions.append(Delete(kind, job.name, existing["metadata"].get("uid", "")))
    return actions


def event_of_deletion(actions: Iterable[Action]) -> list[EmitEvent]:
    """The event before these deletions of group objects of a job that ends or is suspended."""
    kinds = [action.kind.kind for action in actions if isinstance(action, Delete)]
    message = "Job has been terminated. Deleting"
    return [EmitEvent("JobTerminated", f"{message} {kinds[0]}")] if kinds else []


def field_changes(existing: Raw, wanted: Raw) -> Raw:
    """The merge patch that gives every field we set its value and leaves other fields alone."""
    result: Raw = {}
    for name, value in wanted.items():
        if name in ("apiVersion", "kind", "metadata"):
            continue
        before: Any = existing.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            inner = {key: item for key, item in value.items() if not _equal(before.get(key), item)}
            if inner:
                result[name] = inner
        elif before != value and (before is not None or value != []):
            result[name] = value
    return result


def _equal(before: Any, wanted: Any) -> bool:
    """Whether a field has the wanted value; the server may have added defaults inside."""
    if isinstance(before, dict) and isinstance(wanted, dict):
        return all(_equal(before.get(key), item) for key, item in wanted.items())
    return bool(before == wanted)


def _late_members(existing: Raw, wanted: Raw) -> Raw:
    """The change to the launcher's annotation; all other annotations belong to the user."""
    before = (existing["metadata"].get("annotations") or {}).get(LATE_ANNOTATION)
    after = (wanted["metadata"].get("annotations") or {}).get(LATE_ANNOTATION)
    return {} if before == after else {"metadata": {"annotations": {LATE_ANNOTATION: after}}}


def _removed_fields(before: Raw, wanted: Raw) -> Raw:
    """The merge patch that removes optional fields, and their keys, that the job no longer sets."""
    change: Raw = {}
    for field in _OPTIONAL_FIELDS:
        old, new = before.get(field), wanted.get(field)
        if new is None and old is not None and old != _SERVER_DEFAULTS.get(field):
            change[field] = None
        elif isinstance(old, dict) and isinstance(new, dict) and set(old) - set(new):
            # In a merge patch null removes a key: name the removed keys beside the current ones.
            change[field] = {name: new.get(name) for name in (*old, *new)}
    return change
