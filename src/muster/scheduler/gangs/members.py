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
    record, members = state.record(gang.key), state.members(gang)
    first, record.met = not record.met, True
    if first:
        told = succeeded_before(gang.key, gang.declared)
        record.recalled = max(0, told - len(members.succeeded))
        if _is_a_later_run(terms, members):
            _end(gang, record, len(members.succeeded))
    if record.done and (members.bound or members.pending):
        record.done = 0
    if not (members.succeeded or record.succeeded or record.recalled):
        return
    done = not state.missing(gang, members).total
    if done and _is_over(members, record, now, first=first):
        _end(gang, record, state.succeeded(gang, members))


def _is_over(members: Members, record: GangRecord, now: float, *, first: bool) -> bool:
    """Whether nothing is left of a run; what has come since its end is seen only on first sight."""
    if members.bound or members.leaving or members.gated:
        return False
    record.expects = [until for until in record.expects if until > now]
    return not record.expects and (not members.pending or (first and not members.succeeded))


def _end(gang: Gang, record: GangRecord, done: int) -> None:
    gang.earlier_run = {uid for uid, pod in gang.pods.items() if pod.finished}
    gang.sorted_members = None
    record.succeeded, record.recalled, record.done = {}, 0, done
    record.whole = False


def _is_a_later_run(terms: GangTerms, members: Members) -> bool:
    """After a restart: whether all that live were made when all that succeeded had their nodes."""
    alive = (*members.bound, *members.pending)
    if not alive or holds.missing(terms, replace(members, bound=())).total:
        return False
    made = [pod.metadata.creation_timestamp for pod in alive]
    ended = [_bound_at(pod) for pod in members.succeeded]
    first = min((at for at in made if at is not None), default=None)
    last = max((at for at in ended if at is not None), default=None)
    return first is not None and last is not None and first > last


def _bound_at(pod: Pod) -> datetime | None:
    found = find_condition(pod.status.conditions, "PodScheduled")
    return found.last_transition_time if found is not None else None
