"""Everything the scheduler knows, kept current by watch events; no await, no client, no clock.

`State` joins the snapshot (room), the gang index (membership), the records of gangs and the line.
Watch events change it, and decisions once they are applied (`decisions.decision`); a decision
itself changes nothing of it but caches.

Promise: when a member leaves its room and its gang still needs it, the room passes to a hold
within the same call, so there is no moment in which another gang could take it.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from muster.contract.gang import GangKey
from muster.contract.gang_dialects import is_protected
from muster.scheduler.cluster.domains import NodeDomains
from muster.scheduler.cluster.nodes import NodeTable, is_schedulable, scheduling_fields
from muster.scheduler.cluster.pod_counts import PodCounts
from muster.scheduler.cluster.snapshot import Placement, Slot, SlotKind, Snapshot
from muster.scheduler.cluster.volumes import Volumes
from muster.scheduler.gangs import holds
from muster.scheduler.gangs.gang_index import Gang, GangIndex
from muster.scheduler.gangs.members import (
    Members,
    Missing,
    count_succeeded,
    find_missing,
    members_of,
    pod_seen,
)
from muster.scheduler.gangs.phase import GangRecord
from muster.scheduler.gangs.waiting_line import (
    END_OF_TIME,
    DueGangs,
    Idle,
    Kept,
    LinePosition,
    Parked,
    Rest,
    Wake,
    position,
    woken,
)
from muster.scheduler.isolated_errors import isolated
from muster.scheduler.placement.failed_demand_cache import KnownFailures

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kubekit.objects.core import Namespace, Node, Pod, PodDisruptionBudget, PriorityClass
    from kubekit.objects.kinds import Kind
    from kubekit.objects.meta import HasMetadata, Key
    from muster.contract.pod_groups import HyperNode
    from muster.scheduler.cluster.snapshot import Hold
    from muster.scheduler.settings import Settings


NO_GANG = GangKey("", "", "")
NEW_RECORD = GangRecord()


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
        self.kept: Kept | None = None
        """The room that is kept for the first gang in line that has waited too long."""
        self.lowest_priority = math.inf
        """The lowest priority of all gangs so far: a gang can rank below all its placed pods."""
        self.line = DueGangs()
        self.line_changed = False
        """Whether held room, or the gangs that exist, changed since this was last set to false."""

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
        if before is None and key in self.records and (run := self.records[key].run).expects:
            self.note(key, run=replace(run, expects=run.expects[1:]))
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
            for slot in list(self.snapshot.on_node.get(old.metadata.name, {}).values()):
                if slot.kind is SlotKind.HOLD and slot.owner is not None:
                    self.drop_hold(slot)
                    self.mark_due(slot.owner)  # it looks for room on other nodes
        if new is not None and (old is None or scheduling_fields(old) != scheduling_fields(new)):
            self._happened(Wake.NODES)

    def group_changed(self, kind: Kind[Any], key: Key, new: HasMetadata | None) -> None:
        """An object that declares a gang was created, changed or deleted."""
        for gang in self.index.put_group(kind, key, new):
            self._gang_changed(gang)

    def budget_changed(self, key: Key, new: PodDisruptionBudget | None) -> None:
        """A disruption budget was created, changed or deleted."""
        before = self.index.budgets.get(key)
        for gang in self.index.put_budget(key, new):
            self._gang_changed(gang)
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

        What it finds was there before: gangs that have members have had all of them. Since when
        a gang waits, its pods tell again: another process may have bound it and released it.
        """
        for key in list(self.parked):
            self.rest(key, Idle(), None)
            self.mark_due(key)
        for gang in self.index.gangs.values():
            run = self.record(gang.key).run
            self.note(gang.key, run=replace(run, inherited=gang.started))
        for claim in list(self.snapshot.volumes.chosen):
            self.snapshot.volumes.not_chosen(claim)
            self._happened(Wake.STORAGE)

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
        with isolated("place", key):
            return self._place_of(key)
        return LinePosition(True, sys.maxsize, True, END_OF_TIME, key)

    def _place_of(self, key: GangKey) -> LinePosition:
        gang = self.index.gangs.get(key)
        if gang is None:
            # Only to be forgotten: placed with the gangs that mend, because it may free held room.
            return LinePosition(False, 0, False, END_OF_TIME, key)
        missing, held = self.missing(gang).total, key in self.snapshot.held_for
        return position(gang, self.index.priority(gang), missing, held=held)

    def rest(self, key: GangKey, rest: Rest, timer: float | None) -> None:
        """Note the rest of a gang after a decision, and when it is considered again."""
        if self.record(key).rest is not rest:
            self.note(key, rest=rest)
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

    def note(self, key: GangKey, **changes: Any) -> None:
        """Change the record of a gang."""
        self.records[key] = replace(self.record(key), **changes)

    def members(self, gang: Gang) -> Members:
        """The gang's members, sorted by state."""
        return members_of(gang, self.assumed, self.index.names)

    def missing(self, gang: Gang) -> Missing:
        """The members that the gang lacks to reach its minimum."""
        record = self.records.get(gang.key, NEW_RECORD)
        return find_missing(gang, self.members(gang), record.run)

    def count_succeeded(self, gang: Gang) -> int:
        """How many members succeeded in this run, or in the last one until the next begins."""
        return count_succeeded(gang, self.members(gang), self.record(gang.key).run)

    def keep(self, key: GangKey, kept: Kept | None) -> None:
        """Keep this room for a gang and no other; None if no room is kept for this gang."""
        before = self.kept
        if kept is None:
            if before is not None and before.gang == key:
                self.kept = None
                self._happened(Wake.NODES)  # the next gang that starves is now the first
            return
        self.kept = kept
        if before is None:
            return
        if before.gang != key:
            self.mark_due(before.gang)
        if before.rooms != kept.rooms:
            self.freed |= {r.node for r in before.rooms if kept.nodes.get(r.node) != r}
            self._happened(Wake.ROOM | Wake.PODS)

    def priority_seen(self, priority: int, before: float | None, now: float | None) -> None:
        """Wake the gangs that may evict this one now: its priority fell, or its group allows it.

        `before` and `now` are the priorities above which gangs may evict it.
        """
        if priority < self.lowest_priority:  # gangs seen before this one judged by a higher one
            self.lowest_priority = priority
            self._happened(Wake.EVICTABLE)
        if before is not None and now is not None and now < before:
            self._happened(Wake.EVICTABLE)

    # -- held room -----------------------------------------------------------------------------

    def hold_room(self, gang: Gang, room: Slot, hold: Hold) -> None:
        """Hold the room that a pod has left."""
        self.line_changed = True
        self.snapshot.put(holds.new_hold(gang.key, self.index.priority(gang), room, hold))

    def drop_hold(self, slot: Slot) -> None:
        """Free held room."""
        self.line_changed = True
        self.snapshot.remove(slot.uid)
        self.room_changed(slot, None)

    def hold_only(self, key: GangKey, held: Mapping[str, Slot]) -> None:
        """Hold this room for a gang and no other."""
        before = dict(self.snapshot.held_for.get(key, ()))
        for uid, slot in before.items():
            if uid not in held:
                self.drop_hold(slot)
        for uid, slot in held.items():
            known = before.get(uid)
            if known is slot:
                continue
            self.line_changed = True
            if known is not None and known.pod is slot.pod and known.node == slot.node:
                self.snapshot.put(replace(known, priority=slot.priority, hold=slot.hold))
                continue
            self.snapshot.put(slot)
            self._look_at_kept(slot.node)
            if known is not None:
                self.room_changed(known, slot)

    # -- binds in flight -----------------------------------------------------------------------

    def assume(self, key: GangKey, placements: Sequence[Placement]) -> None:
        """Occupy the room of binds in flight."""
        for placement in placements:
            self.assumed[placement.pod.metadata.uid] = placement.node
        self._look_at_kept(*(placement.node for placement in placements))
        self.snapshot.assume(placements, key)
        self.index.gangs[key].sorted_members = None

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
        self.line_changed = self.line_changed or key in self.index.gangs
        self.hold_only(key, {})
        self.keep(key, None)
        self.failures.hopeless.pop(key, None)
        self.rest(key, Idle(), None)
        self.records.pop(key, None)
        self.index.gangs.pop(key, None)

    # -- inside --------------------------------------------------------------------------------

    def _retry_parked(self) -> None:
        for key in self.parked:
            self.mark_due(key)

    def _gang_changed(self, key: GangKey) -> Gang | None:
        """Consider a gang; one of which nothing is left is forgotten at once, and None returned.

        A process that does not lead decides nothing: without this, it would hold room for gangs
        that were deleted while it watched.
        """
        gang = self.index.gangs.get(key)
        if gang is None or not (gang.pods or gang.declared):
            if gang is not None or key in self.records:
                self.forget(key)
            return None
        self.mark_due(key)
        return gang

    def _member_changed(self, key: GangKey, pod: Pod, slot: Slot | None, *, gone: bool) -> None:
        gang = self._gang_changed(key)
        if gang is None:
            return
        before = self.record(key).run
        run = pod_seen(gang, before, pod, gone=gone)
        if run is not before:
            self.note(key, run=run)
        was_there = slot is not None and slot.kind in (SlotKind.POD, SlotKind.ASSUMED)
        if slot is None or not was_there or pod.metadata.uid in self.snapshot.slots:
            return
        hold = holds.after_member(self, gang, pod, slot, gone=gone)
        if hold is not None:
            self.note(key, run=replace(run, expects=(*run.expects, hold.until)))
            if holds.is_room_held_after(self, gang, slot):
                self.hold_room(gang, slot, hold)

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
        # Binds are confirmed about in the order of the pods: one in flight is found near the end.
        return any(uid in self.assumed for uid in reversed(gang.pods))

    def room_changed(self, old: Slot | None, new: Slot | None) -> None:
        """Note the events of a slot that was added, changed or removed."""
        self._look_at_kept(*(slot.node for slot in (old, new) if slot is not None))
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

    def _look_at_kept(self, *nodes: str) -> None:
        """Consider the gang for which room is kept: something changed on one of its nodes."""
        if self.kept is not None and any(node in self.kept.nodes for node in nodes):
            self.mark_due(self.kept.gang)

    def _happened(self, event: int) -> None:
        self.events |= event
        self.events_seen += 1
        if self.failures.known and event & (Wake.ROOM | Wake.NODES | Wake.STORAGE):
            self.failures.forget()


CACHES: Mapping[type, frozenset[str]] = {
    State: frozenset({"failures"}),
    Gang: frozenset({"sorted_members", "_terms", "_lowest_priority"}),
    Snapshot: frozenset(
        {"classes", "of_class", "touched", "log_generation", "_interest", "_columns"}
    ),
    Slot: frozenset({"cls"}),
    NodeTable: frozenset({"classes", "_labels", "_most_labels"}),
    NodeDomains: frozenset({"_stamp", "_by_labels", "_by_tier", "_members", "_patterns"}),
    PodCounts: frozenset({"active", "size", "forbidding", "liking", "_matching"}),
    Volumes: frozenset({"version", "_candidates", "reach"}),
}
"""What a decision may change although it is not applied: values that follow from the others, and
the stamps by which they are computed again. It may also call `Snapshot.settle`, which brings the
arrays and the classes of pods up to date.
"""
