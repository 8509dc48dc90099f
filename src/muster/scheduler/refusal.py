"""Binds that did not happen: the room is kept, the gang goes first, and it is tried less and less.

Called by the loop when a bind is settled and by `decide` before it tries a gang again. A gang that
stays bound by half because the server refuses one of its members is released like one that finds
no room, and each time it is left alone for longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from muster.scheduler import explain, hold
from muster.scheduler.case import wait
from muster.scheduler.explain import Reason
from muster.scheduler.parked import Spot, Wake
from muster.scheduler.remedy import KEPT, release
from muster.scheduler.snapshot import Slot, Stay

if TYPE_CHECKING:
    from muster.api.core import Pod
    from muster.scheduler.actions import Action
    from muster.scheduler.case import Case
    from muster.scheduler.gangs import GangKey
    from muster.scheduler.roster import Gang
    from muster.scheduler.state import State

LONGEST_PAUSE = 60.0
LONGEST_PAUSE_BY_HALF = 5.0
FIRST_REST, LONGEST_REST = 10.0, 300.0


class Failure(NamedTuple):
    """How a bind failed: whether the pod is gone, of which plan it was, what the server said."""

    gone: bool = False
    plan: str = ""
    why: str = ""


def bind_failed(state: State, key: GangKey, pod: Pod, now: float, failure: Failure) -> None:
    """A bind settled without success: the room stays with the gang, which goes first in line.

    A pod that is gone stays a member until the watch says so too: answers can be wrong. Failures
    of one plan count once.
    """
    state.now, (gone, plan, why) = now, failure
    entry = state.entry(key)
    slot = state.unassume(pod.metadata.uid)
    gang = state.roster.gangs.get(key)
    if gang is None:
        return
    others = state.missing(gang, state.muster(gang)).total
    if slot is not None and gang.terms is not None and gang.terms.min > 1 and others:
        seconds = hold.AFTER_DELETION if gone else state.hold_seconds(gang)
        kept = hold.Hold(now + seconds, promised=not gone)
        state.keep_room(key, Slot(slot.uid, slot.node, slot.cls, slot.pod, Stay.POD), kept)
    if not gone and why:
        entry.refused = f"{pod.metadata.name} could not be bound: {why}"
    if not plan or plan != entry.failed_plan:
        entry.failures, entry.failed_plan = entry.failures + 1, plan
        entry.not_before = max(entry.not_before, now + _pause(gang, entry.failures))
    if entry.release_at is None and entry.whole is False:
        entry.release_at = now + state.settings.repair_seconds
        state.look_again(key, entry.release_at)
    state.touch(key)


def _pause(gang: Gang, failures: int) -> float:
    """The first failure is nothing; then longer and longer, not so long while bound by half."""
    if failures < 2:
        return 0.0
    started = any(pod.spec.node_name and not pod.finished for pod in gang.pods.values())
    longest = LONGEST_PAUSE_BY_HALF if started else LONGEST_PAUSE
    return min(longest, 0.1 * 2.0 ** min(failures, 20))


def give_up_half(case: Case) -> list[Action]:
    """Release a gang that the server's refusals have kept bound by half for too long."""
    entry = case.entry
    overdue = entry.release_at is not None and entry.release_at <= case.now
    half = entry.failures and entry.whole is False and case.missing.total and case.started
    if not (overdue and half) or entry.kept:
        return []
    rest = min(LONGEST_REST, FIRST_REST * 2.0 ** min(entry.releases, 10))
    actions = release(case, f"bound by half and cannot be made whole: {entry.refused}")
    if not entry.kept:
        entry.releases += 1
        entry.not_before = max(entry.not_before, case.now + rest)
    return actions


def rest(case: Case) -> list[Action]:
    """Say what was refused, and look again when the pause is over."""
    case.state.look_again(case.key, case.entry.not_before)
    reason = refused(case)
    return wait(case, reason, Spot(Wake.NONE)) if reason is not None else []


def refused(case: Case) -> Reason | None:
    """Why the last binds failed, until the gang has all its nodes."""
    entry = case.entry
    if not entry.failures or not entry.refused:
        return None
    return Reason(explain.NOT_BOUND, entry.refused + (f"; {KEPT}" if entry.kept else ""))
