"""Events about results: one event for all objects that were created or deleted together.

Pods and services have an event for every creation, deletion and failure. Groups have events only
for failures and for their deletion: the job has ended and frees its resources. A right that the
operator lacks has an event of its own, whichever write it is for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.errors import MusterError
from kubekit.objects.kinds import POD_DISRUPTION_BUDGETS, PODS, SERVICES
from kubekit.rights import MISSING_RIGHT
from muster.contract.gang_dialects import GROUP_KIND_BY_RESOURCE
from muster.operator.action_types import Create, Delete, DeleteJob, EmitEvent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.operator.action_types import Action

_GROUPS = dict.fromkeys(GROUP_KIND_BY_RESOURCE, "PodGroup")
_EVENT_NOUNS = {PODS.resource: "Pod", SERVICES.resource: "Service"}
_EVENT_NOUNS |= _GROUPS | {POD_DISRUPTION_BUDGETS.resource: "Pdb"}
_MAX_NAMES = 8
"""Names in one message."""


def events_of_stage(
    stage: Sequence[Action], changes: Sequence[Action], errors: Sequence[Exception]
) -> list[EmitEvent]:
    """The events about actions carried out together, and about rights that were missing for them.

    `changes` are the actions that changed an object, `errors` are the errors of the others.
    """
    result = _event_of_result(stage, changes, errors)
    missing = (error.missing_right for error in errors if isinstance(error, MusterError))
    rights = [
        EmitEvent(MISSING_RIGHT, str(row), "Warning") for row in dict.fromkeys(missing) if row
    ]
    return [*([result] if result is not None else ()), *rights]


def _event_of_result(
    stage: Sequence[Action], changes: Sequence[Action], errors: Sequence[Exception]
) -> EmitEvent | None:
    first = stage[0]
    # StopActions is no failure: the job only waits.
    failed = next((error for error in errors if isinstance(error, MusterError)), None)
    match first:
        case DeleteJob():
            return _failed("Delete", "Job", failed) if failed else None
        case Create() | Delete() if first.kind.resource in _EVENT_NOUNS:
            verb, noun = type(first).__name__, _EVENT_NOUNS[first.kind.resource]
        case _:
            return None
    if failed is not None:
        return _failed(verb, noun, failed)
    # A group is created with the pods: an event about it would only repeat theirs.
    is_reported = noun in ("Pod", "Service") or (
        verb == "Delete" and first.kind.resource in _GROUPS
    )
    if errors or not is_reported or not changes:
        return None
    names = [action.name for action in changes if isinstance(action, Create | Delete)]
    listed = ", ".join(names[:_MAX_NAMES]) + (
        f" and {len(names) - _MAX_NAMES} more" if names[_MAX_NAMES:] else ""
    )
    plural = (noun if noun == "PodGroup" else noun.lower()) + ("s" if names[1:] else "")
    return EmitEvent(f"Successful{verb}{noun}", f"{verb}d {plural}: {listed}")


def _failed(verb: str, noun: str, error: MusterError) -> EmitEvent:
    return EmitEvent(f"Failed{verb}{noun}", f"Error {verb.lower()[:-1]}ing: {error}", "Warning")
