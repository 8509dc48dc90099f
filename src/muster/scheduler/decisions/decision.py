"""What a decision reads, what it wants changed, and the one function that writes it.

A decision works on a `GangView`: facts, and what it has decided so far. Nothing in the state
changes until `apply`, so a decision that raises leaves no trace, and decisions can be made and
replayed on a copy of the state.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from muster.scheduler.cluster.snapshot import NO_CHANGES, RoomChanges
from muster.scheduler.decisions import reasons
from muster.scheduler.gangs import phase
from muster.scheduler.gangs.members import waits_since
from muster.scheduler.gangs.waiting_line import Parked, Wake

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from kubekit.objects.core import Pod
    from kubekit.objects.meta import Key
    from muster.contract.gang import GangKey, GangTerms, Topology
    from muster.scheduler.cluster.snapshot import Hold, KeptRoom, Placement, Slot, Snapshot
    from muster.scheduler.cluster.volumes import VolumeChoice
    from muster.scheduler.decisions.bind_failures import BindRetry
    from muster.scheduler.decisions.reasons import Reader, Reason
    from muster.scheduler.gangs.gang_index import Gang, GangIndex
    from muster.scheduler.gangs.members import Members, Missing, Run
    from muster.scheduler.gangs.phase import GangRecord, Phase
    from muster.scheduler.gangs.waiting_line import Kept, LinePosition, Rest
    from muster.scheduler.placement.failed_demand_cache import KnownFailures
    from muster.scheduler.settings import Settings
    from muster.scheduler.state import State


PREEMPTED, RELEASED = "Preempted", "Released"


@dataclass(frozen=True)
class Bind:
    """Bind each pod to its node, all of them now."""

    gang: GangKey
    plan: str
    pairs: tuple[tuple[Pod, str], ...]
    annotation: str
    """The plan mark that the pods get."""
    at: float = 0.0
    """When the plan was decided."""
    mends: bool = False
    """Whether the gang had running members and lacked others."""


@dataclass(frozen=True)
class Delete:
    """Delete bound pods, so that a gang can start again or another one can take the room."""

    gang: GangKey
    pods: tuple[Pod, ...]
    why: str
    reason: str
    """`Released` or `Preempted`: the event's reason."""
    whole: bool = True
    """Whether the whole gang is deleted, rather than some of its surplus."""
    since: datetime | None = None
    """When the deletion was decided, if that was before now."""
    preemptor: GangKey | None = None
    """The gang that gets the room, for the log: `why` may not name it."""


@dataclass(frozen=True)
class Report:
    """Write why a gang waits, or (None) that it does not, to its pods, its group and an event."""

    gang: GangKey
    reason: Reason | None


@dataclass(frozen=True)
class Provision:
    """Give waiting claims an existing volume, or the node where one is to be provisioned."""

    gang: GangKey
    claims: tuple[tuple[Key, VolumeChoice], ...]


Action = Bind | Delete | Report | Provision


@dataclass(frozen=True)
class Verdict:
    """What to do about a gang: its rest afterwards, and actions.

    `rest` has no default: a verdict that forgets what will wake the gang is a type error. The phase
    is None if it stays as observed.
    """

    rest: Rest
    actions: tuple[Action, ...] = ()
    phase: Phase | None = None


@dataclass(frozen=True)
class Decision:
    """Everything that one decision changes, and the actions that carry it out."""

    gang: GangKey
    at: float
    record: GangRecord | None = None
    """The gang's record afterwards; None if the gang is gone and everything about it is dropped."""
    actions: tuple[Action, ...] = ()
    timer: float | None = None
    """When the gang is considered again at the latest."""
    held: Mapping[str, Slot] | None = None
    """All room held for the gang, by UID; None if that stays as it is."""
    bound: tuple[Placement, ...] = ()
    """Binds that occupy room from now on."""
    chosen: Mapping[Key, VolumeChoice] | None = None
    """The volumes or nodes chosen for claims."""
    evicted: tuple[GangKey, ...] = ()
    """Gangs that lose the room held for them."""
    earlier_run: frozenset[str] | None = None
    """The pods that belong to a run that is over; None if that stays as it is."""
    keeps: Kept | None = None
    """The room that is kept for the gang from now on, if it starves and is the first that does."""
    priority: int | None = None
    plans: int = 0
    """How many plans this process has made."""


@dataclass(frozen=True, slots=True)
class Known:
    """What a decision reads: the parts of the state, and the time. It changes none of them.

    It may fill caches, which are named in `state.CACHES`.
    """

    now: float
    settings: Settings
    one_user: bool
    wall_offset: float
    snapshot: Snapshot
    index: GangIndex
    records: Mapping[GangKey, GangRecord]
    assumed: Mapping[str, str]
    kept: Kept | None
    place_of: Callable[[GangKey], LinePosition]
    lowest_priority: float
    process_id: str
    plans: int
    events_seen: int
    failures: KnownFailures


@dataclass
class GangView:
    """One gang in the middle of a decision: the facts, and what has been decided so far."""

    known: Known
    gang: Gang
    key: GangKey
    record: GangRecord
    """The record before the decision."""
    terms: GangTerms
    topology: Topology | None
    """The domains that the members must or should stay in."""
    annotations: Mapping[str, str]
    """The annotations of the object that declares the gang."""
    members: Members
    missing: Missing
    started: bool
    """Whether members addressed to us run, or are being bound."""
    priority: int
    now: float
    reader: Reader
    """Who reads the reasons of this gang."""
    explained_at: float
    """When the numbers in the gang's reason were last computed."""
    phase: Phase
    retry: BindRetry | None
    run: Run
    held: dict[str, Slot]
    """The room held for the gang, by UID."""
    plans: int
    keeps: Kept | None = None
    """The room that is kept for this gang."""
    leaves_free: tuple[KeptRoom, ...] = ()
    """The room that is kept for a gang before this one."""
    observed: bool = False
    """Whether the phase was observed: only then are the counts for the group's status right."""
    held_changed: bool = False
    bound: tuple[Placement, ...] = ()
    chosen: Mapping[Key, VolumeChoice] = field(default_factory=dict)
    evicted: tuple[GangKey, ...] = ()

    @cached_property
    def since(self) -> float:
        """Since when the gang has waited, if it waits: at the first look, by its pods."""
        known, before = self.known, self.record.rest.since
        if before is not None:
            return before
        times = (waits_since(pod) for pod in self.members.pending)
        first = min((time for time in times if time is not None), default=None)
        if first is None:
            return self.now
        # The API's times are cut to whole seconds, and so is this one for the next process.
        return min(self.now, first.timestamp() + 0.999 - known.wall_offset)

    def holds(self) -> tuple[Slot, ...]:
        """The slots held for the gang, in a fixed order."""
        return tuple(self.held[uid] for uid in sorted(self.held)) if self.held else ()

    def hold(self, slot: Slot) -> None:
        """Hold room."""
        self.held[slot.uid], self.held_changed = slot, True

    def drop_hold(self, slot: Slot) -> None:
        """Give up held room."""
        del self.held[slot.uid]
        self.held_changed = True

    def drop_holds(self) -> list[Hold]:
        """Give up all held room; returns the holds."""
        dropped = [slot.hold for slot in self.held.values() if slot.hold is not None]
        self.held_changed = self.held_changed or bool(self.held)
        self.held = {}
        return dropped

    @property
    def room(self) -> RoomChanges:
        """What a trial begins with: what has been decided so far, and what others must leave."""
        if not (self.held_changed or self.bound or self.chosen):
            return RoomChanges(kept=self.leaves_free) if self.leaves_free else NO_CHANGES
        before = self.known.snapshot.held_for.get(self.key, {})
        freed = [slot for uid, slot in before.items() if self.held.get(uid) is not slot]
        taken = [slot for uid, slot in self.held.items() if before.get(uid) is not slot]
        rooms = [(slot.cls, slot.node) for slot in taken]
        rooms += [(placement.cls, placement.node) for placement in self.bound]
        return RoomChanges(tuple(freed), tuple(rooms), self.chosen, self.leaves_free)


def apply(state: State, decision: Decision) -> None:
    """Write a decision into the state: nothing else does."""
    key, record = decision.gang, decision.record
    state.now, state.plans = decision.at, decision.plans
    if record is None:
        state.forget(key)
        return
    _apply_room(state, decision)
    if decision.earlier_run is not None:
        gang = state.index.gangs[key]
        gang.earlier_run, gang.sorted_members = decision.earlier_run, None
    if decision.priority is not None:
        before = state.record(key).evictable_above
        state.priority_seen(decision.priority, before, record.evictable_above)
    for action in decision.actions:
        if isinstance(action, Delete) and action.whole and action.gang != key:
            _begin_deletion(state, action)
    state.keep(key, decision.keeps)
    state.records[key] = record
    state.rest(key, record.rest, decision.timer)


def _apply_room(state: State, decision: Decision) -> None:
    for gang in decision.evicted:
        state.hold_only(gang, {})
        state.mark_due(gang)
    if decision.held is not None:
        state.hold_only(decision.gang, decision.held)
    if decision.bound:
        state.assume(decision.gang, decision.bound)
    if decision.chosen:
        state.snapshot.volumes.choose(decision.chosen)


def _begin_deletion(state: State, delete: Delete) -> None:
    """Move another gang, which is evicted whole, to Leaving: none of it is placed from now on."""
    if delete.gang in state.index.gangs:
        before, uids = state.record(delete.gang).phase, {pod.metadata.uid for pod in delete.pods}
        state.note(delete.gang, phase=phase.move(before, phase.leaving(before, uids)))
        state.mark_due(delete.gang)


# -- after an error --------------------------------------------------------------------------------

FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0
"""Seconds for which a gang waits whose decision raised."""


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
