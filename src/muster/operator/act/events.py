"""What is to be said of objects made and deleted: one event for all that went out together.

Pure. Called by `act` after each stage. A job's pods are what people look for, so each change of
them is told; of services and groups only what went wrong, and that a group is gone: its job has
ended, and nobody holds room for it any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.api.kinds import POD_DISRUPTION_BUDGETS, PODS, SERVICES
from muster.errors import MusterError
from muster.operator.actions import Create, Delete, DeleteJob, EmitEvent
from muster.operator.build.gang_dialect import GROUP_KIND_BY_RESOURCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.operator.actions import Action

_GROUPS = dict.fromkeys(GROUP_KIND_BY_RESOURCE, "PodGroup")
_WORDS = {PODS.resource: "Pod", SERVICES.resource: "Service"}
_WORDS |= _GROUPS | {POD_DISRUPTION_BUDGETS.resource: "Pdb"}
_MOST = 8
"""Names in one message."""


def event_for_stage(
    stage: Sequence[Action], happened: Sequence[Action], troubles: Sequence[Exception]
) -> EmitEvent | None:
    """The event about one stage, if it is worth one.

    `happened` is what of it was still to be done, and was; `troubles` are what came in its way.
    """
    first = stage[0]
    failed = next((one for one in troubles if isinstance(one, MusterError)), None)
    match first:
        case DeleteJob():
            return _failed("Delete", "Job", failed) if failed else None
        case Create() | Delete() if first.kind.resource in _WORDS:
            verb, what = type(first).__name__, _WORDS[first.kind.resource]
        case _:
            return None
    if failed is not None:
        return _failed(verb, what, failed)
    told = what == "Pod" or (verb == "Delete" and first.kind.resource in _GROUPS)
    if troubles or not told or not happened:
        return None
    names = [one.name for one in happened if isinstance(one, Create | Delete)]
    listed = ", ".join(names[:_MOST]) + (f" and {len(names) - _MOST} more" if names[_MOST:] else "")
    words = (what if what == "PodGroup" else what.lower()) + ("s" if names[1:] else "")
    return EmitEvent(f"Successful{verb}{what}", f"{verb}d {words}: {listed}")


def _failed(verb: str, what: str, error: MusterError) -> EmitEvent:
    return EmitEvent(f"Failed{verb}{what}", f"Error {verb.lower()[:-1]}ing: {error}", "Warning")
