"""A gang's state in the words of its own dialect: what goes into its object's `status`.

Called by `report`. Pure. Each dialect's users read the fields and phases they know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.api.meta import Raw
    from muster.scheduler.explain import Reason
    from muster.scheduler.gangs import GangKey, Terms
    from muster.scheduler.roster import Muster


def group_status(
    key: GangKey, terms: Terms, muster: Muster, reason: Reason | None, stamp: str
) -> Raw | None:
    """The status to write, or None where the dialect's object has none that is ours."""
    write = {"volcano": _volcano, "coscheduling": _coscheduling, "native": _native}.get(key.dialect)
    return None if write is None else write(terms, muster, reason, stamp)


def _volcano(terms: Terms, muster: Muster, reason: Reason | None, stamp: str) -> Raw:
    there = len(muster.bound) + len(muster.succeeded)
    waiting = {
        "type": "Unschedulable",
        "status": "True",
        "reason": "NotEnoughResources" if muster.pending else "NotEnoughTasks",
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
        "phase": _volcano_phase(terms, muster, there),
        "conditions": [waiting if reason else scheduled],
        "running": sum(1 for pod in muster.bound if pod.status.phase == "Running"),
        "succeeded": len(muster.succeeded),
        "failed": len(muster.failed),
    }


def _volcano_phase(terms: Terms, muster: Muster, there: int) -> str:
    if len(muster.succeeded) >= terms.min:
        return "Completed"
    if there >= terms.min:
        return "Running"
    return "Unknown" if muster.bound else "Pending"


def _coscheduling(terms: Terms, muster: Muster, reason: Reason | None, stamp: str) -> Raw:
    running = sum(1 for pod in muster.bound if pod.status.phase == "Running")
    return {
        "phase": _coscheduling_phase(terms, muster, running),
        "scheduled": len(muster.bound),
        "running": running,
        "succeeded": len(muster.succeeded),
        "failed": len(muster.failed),
    }


def _coscheduling_phase(terms: Terms, muster: Muster, running: int) -> str:
    if len(muster.succeeded) >= terms.min:
        return "Finished"
    if muster.failed and len(muster.bound) + len(muster.succeeded) < terms.min:
        return "Failed"
    if running + len(muster.succeeded) >= terms.min:
        return "Running"
    return "Scheduling" if muster.bound else "Pending"


def _native(terms: Terms, muster: Muster, reason: Reason | None, stamp: str) -> Raw:
    whole = len(muster.bound) + len(muster.succeeded) >= terms.min
    return {
        "conditions": [
            {
                "type": "PodGroupScheduled",
                "status": "True" if whole else "False",
                "reason": "Scheduled" if whole else "Unschedulable",
                "message": "" if whole or reason is None else reason.text,
                "lastTransitionTime": stamp,
            }
        ]
    }
