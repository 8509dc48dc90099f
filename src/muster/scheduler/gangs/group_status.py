"""A gang's state in the words of its own dialect: what goes into its object's `status`.

Called by `report`. Pure. Each dialect's users read the fields and phases they know. What it says
of members that succeeded is also the scheduler's own memory: `runs` reads it after a restart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from muster.api.meta import find_condition
from muster.api.pod_groups import PodGroupStatus

if TYPE_CHECKING:
    from muster.api.gang_dialects import GangKey, GangTerms
    from muster.api.meta import Raw
    from muster.scheduler.decisions.reasons import Reason
    from muster.scheduler.gangs.members import Members


SUCCEEDED = "muster.dev/Succeeded"
"""The condition that counts them where a dialect's status has no field for it."""


@dataclass(frozen=True)
class GroupCounts:
    """A gang as it stands: what it needs, its members, and how many succeeded, gone or not."""

    terms: GangTerms
    members: Members
    succeeded: int
    reason: Reason | None

    @property
    def there(self) -> int:
        return len(self.members.bound) + self.succeeded

    @property
    def done(self) -> bool:
        return self.succeeded >= self.terms.min


def group_status(key: GangKey, gang: GroupCounts, stamp: str) -> Raw | None:
    """The status to write, or None where the dialect's object has none that is ours."""
    write = {"volcano": _volcano, "coscheduling": _coscheduling, "native": _native}.get(key.dialect)
    return None if write is None else write(gang, stamp)


def succeeded_before(key: GangKey, group: object) -> int:
    """How many members had succeeded when the status was written that a group has."""
    status = getattr(group, "status", None)
    if not isinstance(status, PodGroupStatus):
        return 0
    if key.dialect != "native":
        return status.succeeded
    found = find_condition(status.conditions, SUCCEEDED)
    number = found.message.partition(" ")[0] if found is not None else ""
    return int(number) if number.isdecimal() else 0


def _volcano(gang: GroupCounts, stamp: str) -> Raw:
    members, reason = gang.members, gang.reason
    waiting = {
        "type": "Unschedulable",
        "status": "True",
        "reason": "NotEnoughResources" if members.pending else "NotEnoughTasks",
        "message": reason.text if reason else "",
        "lastTransitionTime": stamp,
        "transitionID": "",
    }
    scheduled = {
        "type": "Scheduled",
        "status": "True",
        "reason": "tasks in gang are ready to be scheduled",
        "message": "",
        "lastTransitionTime": stamp,
        "transitionID": "",
    }
    return {
        "phase": _volcano_phase(gang),
        "conditions": [waiting if reason else scheduled],
        "running": members.running,
        "succeeded": gang.succeeded,
        "failed": len(members.failed),
    }


def _volcano_phase(gang: GroupCounts) -> str:
    if gang.done:
        return "Completed"
    if gang.there >= gang.terms.min:
        return "Running"
    return "Unknown" if gang.members.bound else "Pending"


def _coscheduling(gang: GroupCounts, stamp: str) -> Raw:
    return {
        "phase": _coscheduling_phase(gang),
        "scheduled": len(gang.members.bound),
        "running": gang.members.running,
        "succeeded": gang.succeeded,
        "failed": len(gang.members.failed),
    }


def _coscheduling_phase(gang: GroupCounts) -> str:
    if gang.done:
        return "Finished"
    if gang.members.failed and gang.there < gang.terms.min:
        return "Failed"
    if gang.members.running + gang.succeeded >= gang.terms.min:
        return "Running"
    return "Scheduling" if gang.members.bound else "Pending"


def _native(gang: GroupCounts, stamp: str) -> Raw:
    whole = gang.there >= gang.terms.min
    scheduled = {
        "type": "PodGroupScheduled",
        "status": "True" if whole else "False",
        "reason": "Scheduled" if whole else "Unschedulable",
        "message": "" if whole or gang.reason is None else gang.reason.text,
        "lastTransitionTime": stamp,
    }
    ended = {
        "type": SUCCEEDED,
        "status": "True" if gang.done else "False",
        "reason": "MembersSucceeded",
        "message": f"{gang.succeeded} of {gang.terms.min} members succeeded",
        "lastTransitionTime": stamp,
    }
    return {"conditions": [scheduled, ended] if gang.succeeded else [scheduled]}
