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
    record = state.record(key)
    slot = state.unassume(pod.metadata.uid)
    gang = state.roster.gangs.get(key)
    if gang is None:
        return
    others = state.missing(gang, state.members(gang)).total
    if slot is not None and gang.terms is not None and gang.terms.min > 1 and others:
        seconds = holds.SECONDS_AFTER_DELETION if gone else state.hold_seconds(gang)
        kept = holds.Hold(now + seconds, promised=not gone)
        state.keep_room(key, Slot(slot.uid, slot.node, slot.cls, slot.pod, SlotKind.POD), kept)
    if not gone and why:
        record.refused = f"{pod.metadata.name} could not be bound: {why}"
    if not plan or plan != record.failed_plan:
        record.failures, record.failed_plan = record.failures + 1, plan
        record.not_before = max(record.not_before, now + _pause(gang, record.failures))
    if record.release_at is None and record.whole is False:
        record.release_at = now + state.settings.repair_seconds
        state.wake_at(key, record.release_at)
    state.mark_due(key)


def _pause(gang: Gang, failures: int) -> float:
    """The first failure is nothing; then longer and longer, not so long while bound by half."""
    if failures < 2:
        return 0.0
    started = any(pod.spec.node_name and not pod.finished for pod in gang.pods.values())
    longest = MAX_RETRY_PAUSE_HALF_BOUND if started else MAX_RETRY_PAUSE
    return min(longest, 0.1 * 2.0 ** min(failures, 20))


def release_half_bound(view: GangView) -> list[Action]:
    """Release a gang that the server's refusals have kept bound by half for too long."""
    record = view.record
    overdue = record.release_at is not None and record.release_at <= view.now
    half = record.failures and record.whole is False and view.missing.total and view.started
    if not (overdue and half) or record.kept:
        return []
    rest = min(MAX_PAUSE_AFTER_RELEASE, FIRST_PAUSE_AFTER_RELEASE * 2.0 ** min(record.releases, 10))
    actions = release(view, f"bound by half and cannot be made whole: {record.refused}")
    if not record.kept:
        record.releases += 1
        record.not_before = max(record.not_before, view.now + rest)
    return actions


def wait_for_retry(view: GangView) -> list[Action]:
    """Say what was refused, and look again when the pause is over."""
    view.state.wake_at(view.key, view.record.not_before)
    reason = bind_failure_reason(view)
    return wait(view, reason, Spot(Wake.NONE)) if reason is not None else []


def bind_failure_reason(view: GangView) -> Reason | None:
    """Why the last binds failed, until the gang has all its nodes."""
    record = view.record
    if not record.failures or not record.refused:
        return None
    return Reason(
        reasons.BIND_FAILED, record.refused + (f"; {CANNOT_DELETE}" if record.kept else "")
    )
