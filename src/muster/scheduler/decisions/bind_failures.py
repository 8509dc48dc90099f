"""Binds that did not happen: the room is kept, the gang goes first, and it is tried less and less.

Called by the loop when a bind is settled and by `decide` before it tries a gang again. A gang that
stays bound by half because the server refuses one of its members is released like one that finds
no room, and each time it is left alone for longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from muster.scheduler.cluster.snapshot import Slot, SlotKind
from muster.scheduler.decisions import reasons
from muster.scheduler.decisions.decision import wait
from muster.scheduler.decisions.reasons import Reason
from muster.scheduler.decisions.shortage import CANNOT_DELETE, release
from muster.scheduler.gangs import holds
from muster.scheduler.gangs.line import Spot, Wake

if TYPE_CHECKING:
    from muster.api.core import Pod
    from muster.api.gang_dialects import GangKey
    from muster.scheduler.decisions.decision import Action, GangView
    from muster.scheduler.gangs.roster import Gang
    from muster.scheduler.state import State

MAX_RETRY_PAUSE = 60.0
MAX_RETRY_PAUSE_HALF_BOUND = 5.0
FIRST_PAUSE_AFTER_RELEASE, MAX_PAUSE_AFTER_RELEASE = 10.0, 300.0


class BindFailure(NamedTuple):
    """How a bind failed: whether the pod is gone, of which plan it was, what the server said."""

    gone: bool = False
    plan: str = ""
    why: str = ""


def bind_failed(state: State, key: GangKey, pod: Pod, now: float, failure: BindFailure) -> None:
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
        seconds = holds.SECONDS_AFTER_DELETION if gone else state.hold_seconds(gang)
        kept = holds.Hold(now + seconds, promised=not gone)
        state.keep_room(key, Slot(slot.uid, slot.node, slot.cls, slot.pod, SlotKind.POD), kept)
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
    longest = MAX_RETRY_PAUSE_HALF_BOUND if started else MAX_RETRY_PAUSE
    return min(longest, 0.1 * 2.0 ** min(failures, 20))


def release_half_bound(case: GangView) -> list[Action]:
    """Release a gang that the server's refusals have kept bound by half for too long."""
    entry = case.entry
    overdue = entry.release_at is not None and entry.release_at <= case.now
    half = entry.failures and entry.whole is False and case.missing.total and case.started
    if not (overdue and half) or entry.kept:
        return []
    rest = min(MAX_PAUSE_AFTER_RELEASE, FIRST_PAUSE_AFTER_RELEASE * 2.0 ** min(entry.releases, 10))
    actions = release(case, f"bound by half and cannot be made whole: {entry.refused}")
    if not entry.kept:
        entry.releases += 1
        entry.not_before = max(entry.not_before, case.now + rest)
    return actions


def wait_for_retry(case: GangView) -> list[Action]:
    """Say what was refused, and look again when the pause is over."""
    case.state.look_again(case.key, case.entry.not_before)
    reason = bind_failure_reason(case)
    return wait(case, reason, Spot(Wake.NONE)) if reason is not None else []


def bind_failure_reason(case: GangView) -> Reason | None:
    """Why the last binds failed, until the gang has all its nodes."""
    entry = case.entry
    if not entry.failures or not entry.refused:
        return None
    return Reason(reasons.BIND_FAILED, entry.refused + (f"; {CANNOT_DELETE}" if entry.kept else ""))
