"""The runs of a gang: a gang that is done may be run again, and then successes begin at nothing.

Called by `decide` before a gang is judged. Members that succeed count as there for as long as
their run lasts, also when their objects are gone; after a restart the group's status tells of
those. Once a run is over none of it counts any more, so that the next one is all or nothing too.

A run is over when its minimum has succeeded, nothing of it is left and nobody is to be replaced.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from muster.api.gang_dialects import SINGLE_POD
from muster.api.meta import find_condition
from muster.scheduler.gangs import holds
from muster.scheduler.gangs.group_status import succeeded_before

if TYPE_CHECKING:
    from datetime import datetime

    from muster.api.core import Pod
    from muster.api.gang_dialects import GangTerms
    from muster.scheduler.gangs.phase import GangRecord
    from muster.scheduler.gangs.roster import Gang, Members
    from muster.scheduler.state import State


def review_run(state: State, gang: Gang, terms: GangTerms, now: float) -> None:
    """Learn what is known of a gang's successes, and end its run if that is over."""
    if gang.key.dialect == SINGLE_POD.name:
        return
    entry, muster = state.entry(gang.key), state.muster(gang)
    first, entry.met = not entry.met, True
    if first:
        told = succeeded_before(gang.key, gang.declared)
        entry.recalled = max(0, told - len(muster.succeeded))
        if _is_a_later_run(terms, muster):
            _end(gang, entry, len(muster.succeeded))
    if entry.done and (muster.bound or muster.pending):
        entry.done = 0
    if not (muster.succeeded or entry.succeeded or entry.recalled):
        return
    done = not state.missing(gang, muster).total
    if done and _is_over(muster, entry, now, first=first):
        _end(gang, entry, state.succeeded(gang, muster))


def _is_over(muster: Members, entry: GangRecord, now: float, *, first: bool) -> bool:
    """Whether nothing is left of a run; what has come since its end is seen only on first sight."""
    if muster.bound or muster.leaving or muster.gated:
        return False
    entry.expects = [until for until in entry.expects if until > now]
    return not entry.expects and (not muster.pending or (first and not muster.succeeded))


def _end(gang: Gang, entry: GangRecord, done: int) -> None:
    gang.past = {uid for uid, pod in gang.pods.items() if pod.finished}
    gang.called = None
    entry.succeeded, entry.recalled, entry.done = {}, 0, done
    entry.whole = False


def _is_a_later_run(terms: GangTerms, muster: Members) -> bool:
    """After a restart: whether all that live were made when all that succeeded had their nodes."""
    alive = (*muster.bound, *muster.pending)
    if not alive or holds.missing(terms, replace(muster, bound=())).total:
        return False
    made = [pod.metadata.creation_timestamp for pod in alive]
    ended = [_bound_at(pod) for pod in muster.succeeded]
    first = min((at for at in made if at is not None), default=None)
    last = max((at for at in ended if at is not None), default=None)
    return first is not None and last is not None and first > last


def _bound_at(pod: Pod) -> datetime | None:
    found = find_condition(pod.status.conditions, "PodScheduled")
    return found.last_transition_time if found is not None else None
