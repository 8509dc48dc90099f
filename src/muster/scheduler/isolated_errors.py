"""Errors in dealing with one gang or one object: nobody else notices; tests see them raised.

What strangers write is read by parsers that raise nothing. This is for what nobody foresaw: a bug
that one gang's objects bring out must not end the scheduler of all gangs. The error is counted and
logged, and the gang waits a little longer after every one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kubekit.telemetry import unexpected_errors
from muster.scheduler.decisions import reasons
from muster.scheduler.decisions.decision import Decision, Known, Report
from muster.scheduler.gangs import phase
from muster.scheduler.gangs.waiting_line import Parked, Wake

if TYPE_CHECKING:
    from muster.contract.gang import GangKey

FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0
"""Seconds for which a gang waits whose decision raised."""


def survived(step: str, about: object, error: Exception) -> None:
    """Count and log an error in a step of the scheduler; raise it if the tests are running."""
    if phase.STRICT:
        raise error
    unexpected_errors.survived(f"scheduler {step}", about, error)


def after_error(known: Known, key: GangKey, error: Exception) -> Decision:
    """Let a gang wait whose decision raised, and report it if that is news.

    The gang keeps its nodes and, until their end, its holds: a bug must not delete pods that run.
    It is tried again when one of its objects changes and, less and less often, after a while.
    """
    record = known.records.get(key) or phase.GangRecord()
    before = known.snapshot.held_for.get(key, {})
    held = {uid: slot for uid, slot in before.items() if slot.hold and slot.hold.until > known.now}
    pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(record.errors, 10))
    reason, last = reasons.internal_error(error), record.last_report
    since = known.now if record.rest.since is None else record.rest.since
    rest = Parked(reason, Wake.OWN, until=known.now + pause, since=since)
    ends = [slot.hold.until for slot in held.values() if slot.hold]
    return Decision(
        gang=key,
        at=known.now,
        record=replace(
            record,
            rest=rest,
            errors=record.errors + 1,
            last_report=phase.LastReport(reason, last.pods, last.counts),
        ),
        actions=() if reason == last.reason else (Report(key, reason),),
        timer=min([known.now + pause, *ends]),
        held=held,
        plans=known.plans,
    )
