"""Events about results: one for all objects that were created or deleted together.

Every creation and deletion of pods has an event. Services and groups have events about failures
only, and about the deletion of a group: the job has ended, and its room is free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.api.kinds import POD_DISRUPTION_BUDGETS, PODS, SERVICES
from muster.errors import MusterError
from muster.operator.actions import Create, Delete, DeleteJob, EmitEvent
from muster.operator.build.dialect_choice import GROUP_KIND_BY_RESOURCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.operator.actions import Action

_GROUPS = dict.fromkeys(GROUP_KIND_BY_RESOURCE, "PodGroup")
_EVENT_NOUNS = {PODS.resource: "Pod", SERVICES.resource: "Service"}
_EVENT_NOUNS |= _GROUPS | {POD_DISRUPTION_BUDGETS.resource: "Pdb"}
_MAX_NAMES = 8
"""Names in one message."""


def event_for_stage(
    stage: Sequence[Action], happened: Sequence[Action], errors: Sequence[Exception]
) -> EmitEvent | None:
    """The event about actions carried out together, if there is one.

    `happened` are the actions that changed something, `errors` those of the others.
    """
    first = stage[0]
    failed = next((one for one in errors if isinstance(one, MusterError)), None)
    match first:
        case DeleteJob():
            return _failed("Delete", "Job", failed) if failed else None
        case Create() | Delete() if first.kind.resource in _EVENT_NOUNS:
            verb, what = type(first).__name__, _EVENT_NOUNS[first.kind.resource]
        case _:
            return None
    if failed is not None:
        return _failed(verb, what, failed)
    is_reported = what == "Pod" or (verb == "Delete" and first.kind.resource in _GROUPS)
    if errors or not is_reported or not happened:
        return None
    names = [one.name for one in happened if isinstance(one, Create | Delete)]
    listed = ", ".join(names[:_MAX_NAMES]) + (
        f" and {len(names) - _MAX_NAMES} more" if names[_MAX_NAMES:] else ""
    )
    words = (what if what == "PodGroup" else what.lower()) + ("s" if names[1:] else "")
    return EmitEvent(f"Successful{verb}{what}", f"{verb}d {words}: {listed}")


def _failed(verb: str, what: str, error: MusterError) -> EmitEvent:
    return EmitEvent(f"Failed{verb}{what}", f"Error {verb.lower()[:-1]}ing: {error}", "Warning")
