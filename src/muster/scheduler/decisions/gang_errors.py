"""A gang about which the scheduler cannot decide because its own code raises: it waits alone.

`State.decision` has undone what the decision changed. The gang keeps its nodes and, until their
end, its holds: a bug must not delete pods that run. It is tried again when one of its objects
changes and, less and less often, after a while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.scheduler.decisions.decision import Action, Report
from muster.scheduler.decisions.reasons import INTERNAL, Reason
from muster.scheduler.gangs import holds
from muster.scheduler.gangs.phase import LastReport
from muster.scheduler.gangs.waiting_line import Parked, Wake

if TYPE_CHECKING:
    from muster.contract.gang import GangKey
    from muster.scheduler.state import State

FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0


def park_after_error(
    state: State, key: GangKey, now: float, error: Exception
) -> tuple[Action, ...]:
    """Let a gang wait whose decision raised; returns the report about it, if that is news."""
    state.stop_starving(key)
    for slot in holds.holds_of(state.snapshot, key):
        if slot.hold is not None and slot.hold.until <= now:
            holds.drop_hold(state, slot)
    record = state.record(key)
    pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(record.errors, 10))
    record.errors += 1
    # The kind of error and no more: its text may hold what others wrote, and goes to the log.
    text = f"an error in the scheduler itself ({type(error).__name__}); it is tried again"
    reason, last = Reason(INTERNAL, text), record.last_report
    since = now if record.rest.since is None else record.rest.since
    rest = Parked(reason, Wake.OWN, until=now + pause, since=since)
    ends = [slot.hold.until for slot in holds.holds_of(state.snapshot, key) if slot.hold]
    state.rest(key, rest, min([now + pause, *ends]))
    record.last_report = LastReport(reason, last.pods, last.counts)
    return () if reason == last.reason else (Report(key, reason),)
