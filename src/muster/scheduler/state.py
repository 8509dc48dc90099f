"""Everything the scheduler knows, kept current by watch events; no await, no client, no clock.

`State` joins the snapshot (room), the gang index (membership), the records of gangs and the line.
Decisions are recorded here at once, so that the next gang's decision builds on them.

Promise: when a member leaves its room and its gang still needs it, the room passes to a hold
within the same call, so there is no moment in which another gang could take it.
"""

from __future__ import annotations

import math
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from muster.contract.gang import GangKey
from muster.contract.gang_dialects import is_protected
from muster.scheduler.cluster.nodes import is_schedulable, scheduling_fields
from muster.scheduler.cluster.snapshot import Placement, Slot, SlotKind, Snapshot
from muster.scheduler.gangs import holds, phase
from muster.scheduler.gangs.gang_index import Gang, GangIndex
from muster.scheduler.gangs.members import Members, find_missing, pod_seen, sort_members
from muster.scheduler.gangs.phase import GangRecord
from muster.scheduler.gangs.waiting_line import (
    END_OF_TIME,
    DueGangs,
    Idle,
    LinePosition,
    Parked,
    Rest,
    Wake,
    woken,
)
from muster.scheduler.placement.failed_demand_cache import KnownFailures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kubekit.objects.core import Namespace, Node, Pod, PodDisruptionBudget, PriorityClass
    from kubekit.objects.kinds import Kind
    from kubekit.objects.meta import HasMetadata, Key
    from muster.contract.pod_groups import HyperNode
    from muster.scheduler.cluster.pod_class import PodClass
    from muster.scheduler.placement.demand import Demand
    from muster.scheduler.settings import Settings


NO_GANG = GangKey("", "", "")


class State:
    """Nodes, pods and gangs, and the scheduler's memory of each gang."""

    def __init__(
        self, settings: Settings, process_id: str = "plan", *, one_user: bool = False
    ) -> None:
        self.settings, self.one_user = settings, one_user
        """`one_user`: all namespaces are those of one person, so reasons name their gangs."""
        self.snapshot = Snapshot()
        self.index = GangIndex(settings.names)
        self.parked: dict[GangKey, Parked] = {}
        self.records: dict[GangKey, GangRecord] = {}
        self.assumed: dict[str, str] = {}
        """The UIDs of pods whose binds are in flight, and their nodes."""
        self.events = Wake.NONE
        self.freed: set[str] = set()
        self.failures = KnownFailures()
        self.events_seen = 0
        """Grows with every event: a placement that depends on other pods may succeed after any."""
        self.now = 0.0
        self.wall_offset = 0.0
        """The time of day minus the clock's time, for reasons that name a time of day."""
        self.process_id = process_id
        """Tells the plans of this process from the plans of other processes."""
        self.plans = 0
        self.starving: dict[GangKey, tuple[Demand, tuple[PodClass, ...]]] = {}
        """Gangs that have waited too long, with their demand and the classes that lack room."""
        self.lowest_priority = math.inf
        """The lowest priority of all gangs so far: a gang can rank below all its placed pods."""
        self.line = DueGangs()
        self._undo: list[Callable[[], object]] | None = None

    # -- watch events --------------------------------------------------------------------------

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """A pod was created, changed or deleted."""
        pod = new or old
        assert pod is not None
        uid = pod.metadata.uid
        slot = self.snapshot.slots.get(uid)
        before = self.index.of_pod.get(uid)
        key = self.index.put_pod(new) if new is not None else self.index.drop_pod(uid)
        if new is not None:
            self.snapshot.put_pod(new)
        else:
            self.snapshot.remove(uid)
        if new is None or new.spec.node_name or new.finished:
            self._not_assumed(uid)
        self.room_changed(slot, self.snapshot.slots.get(uid))
        if before == key and self._one_of_many(slot, new, key):
            return
        if slot is not None and slot.kind is SlotKind.ASSUMED:
            self.events |= Wake.BOUND
        if before is None and key in self.records and self.records[key].run.expects:
            self.records[key].run.expects.pop(0)
        for gang in {before, key} - {None}:
            assert gang is not None
            self._member_changed(gang, pod, slot, gone=new is None)

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """A node was created, changed or deleted; holds on a lost or cordoned node end."""
        if new is not None:
            self.snapshot.nodes.put(new)
        elif old is not None:
            self.snapshot.nodes.drop(old.metadata.name)
            self._happened(Wake.LOST | Wake.PODS)  # with a domain gone, spread may be even
        if old is not None and (new is None or not is_schedulable(new)):
            holds.drop_holds_on(self, old.metadata.name)
        if new is not None and (old is None or scheduling_fields(old) != scheduling_fields(new)):
            self._happened(Wake.NODES)

    def group_changed(self, kind: Kind[Any], key: Key, new: HasMetadata | None) -> None:
        """An object that declares a gang was created, changed or deleted."""
        for gang in self.index.put_group(kind, key, new):
            self.mark_due(gang)

    def budget_changed(self, key: Key, new: PodDisruptionBudget | None) -> None:
        """A disruption budget was created, changed or deleted."""
        before = self.index.budgets.get(key)
        for gang in self.index.put_budget(key, new):
            self.mark_due(gang)
        after = self.index.budgets.get(key)
        if before is not None and (after is None or not after.is_no_milder(before)):
            self._happened(Wake.BUDGETS)

    def priority_class_changed(self, key: Key, new: PriorityClass | None) -> None:
        """A priority class was created, changed or deleted."""
        self.index.put_priority_class(key.name, new)
        self.line.places_changed()
        self._retry_parked()

    def settings_changed(self, settings: Settings) -> None:
        """The settings were reloaded: gangs that wait may start, or preempt, by the new ones."""
        self.settings = settings
        self._retry_parked()

    def namespace_changed(self, new: Namespace | None) -> None:
        """A namespace was created, or its labels changed."""
        if new is not None:
            self.snapshot.put_namespace(new)
            self._happened(Wake.PODS)

    def storage_changed(self, kind: Kind[Any], key: Key, new: HasMetadata | None) -> None:
        """A claim, a volume, a storage class or a CSINode was created, changed or deleted."""
        self.snapshot.volumes.put(kind, key, new)
        self._happened(Wake.STORAGE)

    def hyper_node_changed(self, key: Key, new: HyperNode | None) -> None:
        """One of Volcano's HyperNodes was created, changed or deleted."""
        if self.snapshot.domains.put_hyper_node(key.name, new):
            self._happened(Wake.NODES)

    def not_provisioned(self, gang: GangKey, claim: Key, when: float) -> None:
        """A volume choice could not be written: consider the gang again at that time."""
        self.snapshot.volumes.not_chosen(claim)
        self.line.wake_at(when, gang)

    def begin_writing(self) -> None:
        """This process leads now: choices that its last term left unwritten are decided again.

        What it finds was there before: gangs that have members have had all of them.
        """
        for gang in self.index.gangs.values():
            self.record(gang.key).run.inherited = gang.started
        for claim in list(self.snapshot.volumes.chosen):
            self.snapshot.volumes.not_chosen(claim)
            self._happened(Wake.STORAGE)

    # -- decisions -----------------------------------------------------------------------------

    @contextmanager
    def decision(self, key: GangKey) -> Iterator[None]:
        """Decide about a gang; if the block raises, everything that it changed is undone.

        Binds and deletions of a decision that raised are never sent: room that they occupy would
        stay occupied, and gangs that they evict would wait for their end.
        """
        self._undo = [self.record(key).saved()] if key in self.index.gangs else []
        try:
            yield
        except BaseException:
            steps, self._undo = self._undo, None
            for undo in reversed(steps):
                undo()
            raise
        finally:
            self._undo = None

    def undone_by(self, undo: Callable[[], object]) -> None:
        """Note how to undo a change, if it is made by a decision."""
        if self._undo is not None:
            self._undo.append(undo)

    # -- who is next ---------------------------------------------------------------------------

    def mark_due(self, key: GangKey) -> None:
        """Consider this gang: something about it changed."""
        self.line.add(key)

    def due(self, now: float) -> Iterator[GangKey]:
        """The gangs to consider, first in line first; changes between two steps are seen."""
        self.now = now
        while True:
            self._gather(now)
            key = self.line.next(self.place_of)
            if key is None:
                return
            yield key

    def _gather(self, now: float) -> None:
        """Add the gangs that timers and events have woken."""
        self.line.wake_due(now)
        if self.events:
            self.snapshot.settle()
            events, freed = self.events, self.freed
            for key in woken(self.parked, self.snapshot, events, freed, self._evictable_above):
                self.mark_due(key)
            self.events, self.freed = Wake.NONE, set()

    def _evictable_above(self, slot: Slot) -> float:
        record = self.records.get(slot.owner or self.index.of_pod.get(slot.uid, NO_GANG))
        known = record.evictable_above if record is not None else None
        return slot.priority if known is None else known

    def place_of(self, key: GangKey) -> LinePosition:
        """The place of a gang in line; the last one for a gang about which no decision is made."""
        try:
            return self._place_of(key)
        except Exception:
            # The decision about this gang raises too, and is reported. The line is for all gangs.
            if phase.STRICT:
                raise
            return LinePosition(True, sys.maxsize, True, END_OF_TIME, key)

    def _place_of(self, key: GangKey) -> LinePosition:
        gang = self.index.gangs.get(key)
        if gang is None:
            # Only to be forgotten: placed with the gangs that mend, because it may free held room.
            return LinePosition(False, 0, False, END_OF_TIME, key)
        missing = find_missing(self, gang).total
        mending = missing and (gang.started or key in self.snapshot.held_for)
        priority, created = self.index.priority(gang), gang.created or END_OF_TIME
        return LinePosition(not mending, -priority, not missing, created, key)

    def rest(self, key: GangKey, rest: Rest, timer: float | None) -> None:
        """Record the rest of a gang after a decision, and when it is considered again."""
        self.record(key).rest = rest
        self.parked.pop(key, None)
        if isinstance(rest, Parked):
            self.parked[key] = rest
        self.line.set_timer(key, timer)

    # -- reading -------------------------------------------------------------------------------

    def record(self, key: GangKey) -> GangRecord:
        """The record of a gang; a new one for a gang without."""
        record = self.records.get(key)
        if record is None:
            record = self.records[key] = GangRecord()
        return record

    def members(self, gang: Gang) -> Members:
        """The gang's members, sorted by state."""
        if gang.sorted_members is None:
            gang.sorted_members = sort_members(gang, self.assumed, self.index.names)
        return gang.sorted_members

    def stop_starving(self, key: GangKey) -> None:
        """Reserve no more nodes for this gang: other gangs may try them."""
        if self.starving.pop(key, None) is not None:
            self._happened(Wake.NODES)

    def review_priority(self, gang: Gang) -> None:
        """Wake the gangs that may evict this one now: its priority fell, or its group allows it."""
        record, priority = self.record(gang.key), self.index.priority(gang)
        if priority < self.lowest_priority:  # gangs seen before this one judged by a higher one
            self.lowest_priority = priority
            self._happened(Wake.EVICTABLE)
        protected = gang.declared is not None and is_protected(gang.declared.metadata)
        before, record.evictable_above = record.evictable_above, math.inf if protected else priority
        if before is not None and record.evictable_above < before:
            self._happened(Wake.EVICTABLE)

    # -- binds in flight -----------------------------------------------------------------------

    def assume(self, gang: Gang, placements: Sequence[Placement]) -> None:
        """Occupy the room of binds in flight."""
        uids = [placement.pod.metadata.uid for placement in placements]
        self.undone_by(lambda: [self.unassume(uid) for uid in uids])
        for placement in placements:
            self.assumed[placement.pod.metadata.uid] = placement.node
        self.snapshot.assume(placements, gang.key)
        gang.sorted_members = None
        self.record(gang.key).run.met = gang.terms.min if gang.terms is not None else 0

    def _not_assumed(self, uid: str) -> None:
        self.assumed.pop(uid, None)
        gang = self.index.gangs.get(self.index.of_pod.get(uid, NO_GANG))
        if gang is not None:
            gang.sorted_members = None

    def unassume(self, uid: str) -> Slot | None:
        """Free the room of a bind that failed; returns the slot, so that it can be held."""
        self._not_assumed(uid)
        slot = self.snapshot.slots.get(uid)
        if slot is None or slot.kind is not SlotKind.ASSUMED:
            return None
        self.snapshot.remove(uid)
        self.room_changed(slot, None)
        self._happened(Wake.BOUND)
        return slot

    def forget(self, key: GangKey) -> None:
        """Drop everything known of a gang that has no members and no declaration."""
        if key in self.snapshot.held_for:
            holds.drop_holds(self, key)
        self.stop_starving(key)
        self.failures.hopeless.pop(key, None)
        self.rest(key, Idle(), None)
        self.records.pop(key, None)
        self.index.gangs.pop(key, None)

    # -- inside --------------------------------------------------------------------------------

    def _retry_parked(self) -> None:
        for key in self.parked:
            self.mark_due(key)

    def _member_changed(self, key: GangKey, pod: Pod, slot: Slot | None, *, gone: bool) -> None:
        self.mark_due(key)
        gang = self.index.gangs.get(key)
        if gang is None:
            return
        pod_seen(gang, self.record(key).run, pod, gone=gone)
        was_there = slot is not None and slot.kind in (SlotKind.POD, SlotKind.ASSUMED)
        if slot is not None and was_there and pod.metadata.uid not in self.snapshot.slots:
            holds.member_left(self, gang, pod, slot, gone=gone)

    def _one_of_many(self, slot: Slot | None, new: Pod | None, key: GangKey | None) -> bool:
        """Whether a bind was confirmed while siblings' binds are in flight.

        Only the last confirmation makes the gang due: a gang of 1000 is considered once, not 1000
        times.
        """
        if slot is None or slot.kind is not SlotKind.ASSUMED or new is None or new.finished:
            return False
        gang = self.index.gangs.get(key) if key is not None else None
        if gang is None or new.spec.node_name != slot.node or new.metadata.deletion_timestamp:
            return False
        return any(uid in self.assumed for uid in gang.pods)

    def room_changed(self, old: Slot | None, new: Slot | None) -> None:
        """Note the events of a slot that was added, changed or removed."""
        if old is not None and (new is None or new.node != old.node or new.cls is not old.cls):
            self.freed.add(old.node)
            if self.snapshot.held_for:
                for slot in self.snapshot.on_node.get(old.node, {}).values():
                    if slot.kind is SlotKind.HOLD and slot.owner is not None:
                        self.mark_due(slot.owner)  # the missing member may fit beside its hold
            self._happened(Wake.ROOM | Wake.PODS)
        elif new is not None and old is None:
            self._happened(Wake.PODS)
        was_protected = old is not None and is_protected(old.pod.metadata)
        if was_protected and (new is None or not is_protected(new.pod.metadata)):
            self._happened(Wake.EVICTABLE)

    def _happened(self, event: int) -> None:
        self.events |= event
        self.events_seen += 1
        if self.failures.known and event & (Wake.ROOM | Wake.NODES | Wake.STORAGE):
            self.failures.forget()
