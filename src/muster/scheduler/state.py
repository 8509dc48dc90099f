"""Everything the scheduler knows, kept current by watch events; no await, no client, no clock.

The service feeds it changes, `decide` reads it and records its decisions in it, the loop asks it
who is next. It joins the snapshot (room), the roster (membership), the parked gangs and the rooms
held.

Promise: when a member leaves its room and its gang still needs it, the room passes to a hold
within the same call, so there is no moment in which another gang could take it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.api.gang_dialects import SINGLE_POD, GangKey, role_of
from muster.scheduler.cluster.nodes import is_schedulable, scheduling_fields
from muster.scheduler.cluster.snapshot import Placement, Slot, SlotKind, Snapshot
from muster.scheduler.gangs import holds
from muster.scheduler.gangs.line import DueGangs, LinePosition, ParkedGangs, Wake, line_position
from muster.scheduler.gangs.phase import GangRecord
from muster.scheduler.gangs.roster import Gang, Members, Roster, sort_members
from muster.scheduler.placement.known_failures import KnownFailures

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from muster.api.core import Namespace, Node, Pod, PodDisruptionBudget, PriorityClass
    from muster.api.kinds import Kind
    from muster.api.meta import HasMetadata, Key
    from muster.api.storage import CsiNode, PersistentVolume, StorageClass, VolumeClaim
    from muster.scheduler.cluster.nodes import Mask
    from muster.scheduler.cluster.pod_class import PodClass
    from muster.scheduler.settings import Settings


NOBODY = GangKey("", "", "")


class State:
    """The scheduler's mind."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.snapshot = Snapshot()
        self.roster = Roster(settings.names)
        self.parked = ParkedGangs()
        self.records: dict[GangKey, GangRecord] = {}
        self.assumed: dict[str, str] = {}
        self.events = Wake.NONE
        self.freed: set[str] = set()
        self.failures = KnownFailures()
        self.events_seen = 0
        """Grows with every event: what fails by other pods may succeed after any of them."""
        self.now = 0.0
        self.wall_offset = 0.0
        """What the clock is behind the time of day, for words that name a time."""
        self.process_id = "plan"
        """Tells this process's plans from those of others."""
        self.plans = 0
        self.starving: dict[GangKey, tuple[PodClass, ...]] = {}
        """Gangs that have waited too long, with the classes that lack room."""
        self._keepers: dict[str, dict[str, GangKey]] = {}
        """Rooms held, by node: for whom."""
        self._due = DueGangs()

    # -- what the watches say ------------------------------------------------------------------

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """A pod came, changed or went."""
        pod = new or old
        assert pod is not None
        uid = pod.metadata.uid
        slot = self.snapshot.slots.get(uid)
        before = self.roster.of_pod.get(uid)
        key = self.roster.put_pod(new) if new is not None else self.roster.drop_pod(uid)
        if new is not None:
            self.snapshot.put_pod(new)
        else:
            self.snapshot.remove(uid)
        if new is None or new.spec.node_name or new.finished:
            self._not_assumed(uid)
        self._room_changed(slot, self.snapshot.slots.get(uid))
        if before == key and self._one_of_many(slot, new, key):
            return
        if before is None and key in self.records and self.records[key].expects:
            self.records[key].expects.pop(0)
        for gang in {before, key} - {None}:
            assert gang is not None
            self._member_changed(gang, pod, slot, gone=new is None)

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """A node came, changed or went; holds on a node that is lost or cordoned end."""
        if new is not None:
            self.snapshot.put_node(new)
        elif old is not None:
            self.snapshot.drop_node(old.metadata.name)
            self._happened(Wake.LOST | Wake.PODS)  # with a domain gone, spread may be even
        if old is not None and (new is None or not is_schedulable(new)):
            self._drop_holds_on(old.metadata.name)
        if new is not None and (old is None or scheduling_fields(old) != scheduling_fields(new)):
            self._happened(Wake.NODES)

    def group_changed(self, kind: Kind[Any], key: Key, new: HasMetadata | None) -> None:
        """An object that declares a gang came, changed or went."""
        for gang in self.roster.put_group(kind, key, new):
            self.mark_due(gang)

    def budget_changed(self, key: Key, new: PodDisruptionBudget | None) -> None:
        """A disruption budget came, changed or went."""
        before = self.roster.budgets.get(key)
        for gang in self.roster.put_budget(key, new):
            self.mark_due(gang)
        after = self.roster.budgets.get(key)
        if before is not None and (after is None or not after.is_no_milder(before)):
            self._happened(Wake.BUDGETS)

    def priority_class_changed(self, name: str, new: PriorityClass | None) -> None:
        """A priority class came, changed or went."""
        self.roster.put_priority_class(name, new)
        self._due.all_due()

    def namespace_changed(self, new: Namespace | None) -> None:
        """A namespace came or changed its labels."""
        if new is not None:
            self.snapshot.put_namespace(new)
            self._happened(Wake.PODS)

    def claim_changed(self, key: Key, new: VolumeClaim | None) -> None:
        """A claim came, changed or went."""
        self.snapshot.volumes.put_claim(key, new)
        self._happened(Wake.STORAGE)

    def volume_changed(self, name: str, new: PersistentVolume | None) -> None:
        """A volume came, changed or went."""
        self.snapshot.volumes.put_volume(name, new)
        self._happened(Wake.STORAGE)

    def storage_class_changed(self, name: str, new: StorageClass | None) -> None:
        """A storage class came, changed or went."""
        self.snapshot.volumes.put_class(name, new)
        self._happened(Wake.STORAGE)

    def csi_node_changed(self, name: str, new: CsiNode | None) -> None:
        """What a node can attach became known or changed."""
        self.snapshot.volumes.put_csi_node(name, new)
        self._happened(Wake.STORAGE)

    def not_provisioned(self, gang: GangKey, claim: Key, when: float) -> None:
        """A claim could not be told what it gets: look at the gang again at that time."""
        self.snapshot.volumes.not_chosen(claim)
        self.wake_at(gang, when)

    def begin_writing(self) -> None:
        """This process leads now: what it left unwritten when it last did is decided anew."""
        for claim in list(self.snapshot.volumes.chosen):
            self.snapshot.volumes.not_chosen(claim)
            self._happened(Wake.STORAGE)

    # -- who is next ---------------------------------------------------------------------------

    def mark_due(self, key: GangKey) -> None:
        """Something about this gang changed: look at it again."""
        self._due.add(key)

    def wake_at(self, key: GangKey, when: float) -> None:
        """Look at this gang again at that time, whatever happens."""
        self._due.wake_at(when, key)

    def next_timer(self) -> float | None:
        """When the next gang is due by time alone."""
        return self._due.next_timer()

    def due(self, now: float) -> Iterator[GangKey]:
        """Gangs to look at, first of the line first; changes between two steps are seen."""
        self.now = now
        while True:
            self._gather(now)
            key = self._due.next(self.place_of)
            if key is None:
                return
            yield key

    def _gather(self, now: float) -> None:
        """Add what timers and events have woken."""
        self._due.wake_due(now)
        if self.events:
            self.snapshot.settle()
            for key in self.parked.woken(self.snapshot, self.events, self.freed):
                self.mark_due(key)
            self.events, self.freed = Wake.NONE, set()

    def place_of(self, key: GangKey) -> LinePosition:
        """Where a gang stands in line."""
        gang = self.roster.gangs.get(key)
        if gang is None:
            return line_position(key, priority=0, half_bound=True, surplus=False, created=None)
        missing = self.missing(gang, self.members(gang))
        bound = any(p.spec.node_name and not p.finished for p in gang.pods.values())
        return line_position(
            key,
            priority=self.roster.priority(gang),
            half_bound=bool(missing.total) and (bound or bool(self.record(key).holds)),
            surplus=not missing.total,
            created=gang.created,
        )

    # -- reading -------------------------------------------------------------------------------

    def record(self, key: GangKey) -> GangRecord:
        return self.records.setdefault(key, GangRecord())

    def members(self, gang: Gang) -> Members:
        """The gang's members by what they are doing now."""
        if gang.sorted_members is None:
            gang.sorted_members = sort_members(gang, self.assumed, self.roster.names)
        return gang.sorted_members

    def missing(self, gang: Gang, members: Members) -> holds.Missing:
        """What the gang lacks; members that succeeded and are gone still count."""
        terms = gang.terms
        if terms is None:
            return holds.Missing(0, {})
        record = self.records.get(gang.key)
        if record is None or not (record.succeeded or record.recalled):
            return holds.missing(terms, members)
        return holds.missing(terms, members, self._gone(gang, record), record.recalled)

    def succeeded(self, gang: Gang, members: Members) -> int:
        """How many members succeeded in this run, or in the last one if no other has begun."""
        record = self.record(gang.key)
        now = len(members.succeeded) + len(self._gone(gang, record)) + record.recalled
        return now or record.done

    @staticmethod
    def _gone(gang: Gang, record: GangRecord) -> tuple[str, ...]:
        """The roles of members that succeeded in this run and whose objects are gone."""
        if not record.succeeded:
            return ()
        present = {pod.metadata.name for pod in gang.pods.values()}
        return tuple(role for name, role in record.succeeded.items() if name not in present)

    def rooms(self, key: GangKey) -> tuple[Slot, ...]:
        """The slots kept for a gang, in a fixed order."""
        found = (self.snapshot.slots.get(uid) for uid in sorted(self.record(key).holds))
        return tuple(slot for slot in found if slot is not None)

    def kept_rooms(self, nodes: Mask) -> dict[GangKey, list[holds.Hold]]:
        """The rooms kept on some nodes, by the gang that they are kept for."""
        found: dict[GangKey, list[holds.Hold]] = {}
        for node, kept in self._keepers.items():
            row = self.snapshot.nodes.rows.get(node)
            if row is not None and nodes[row]:
                for uid, key in kept.items():
                    found.setdefault(key, []).append(self.record(key).holds[uid])
        return found

    def no_longer_starving(self, key: GangKey) -> None:
        """It got what it waited for, or is gone: those behind it may look again."""
        self.record(key).guarded = False
        self.stop_starving(key)

    def stop_starving(self, key: GangKey) -> None:
        """No nodes are kept for it any more."""
        if self.starving.pop(key, None) is not None:
            self._happened(Wake.NODES)

    # -- rooms ---------------------------------------------------------------------------------

    def keep_room(self, key: GangKey, slot: Slot, kept: holds.Hold) -> None:
        """Keep the room of a slot for a gang."""
        uid = f"hold/{key.dialect}/{key}/{slot.uid}"
        priority = self.roster.priority(self.roster.gangs[key])
        self.snapshot.put(
            Slot(uid, slot.node, slot.cls, slot.pod, SlotKind.HOLD, False, priority, key)
        )
        self.record(key).holds[uid] = kept
        self._keepers.setdefault(slot.node, {})[uid] = key
        self.wake_at(key, kept.until)

    def drop_room(self, key: GangKey, uid: str) -> None:
        """Give a kept room up."""
        self.record(key).holds.pop(uid, None)
        slot = self.snapshot.remove(uid)
        if slot is not None:
            self._keepers[slot.node].pop(uid, None)
        self._room_changed(slot, None)

    def assume(self, gang: Gang, placements: Iterable[Placement]) -> None:
        """Binds are on their way: their rooms are taken from now on."""
        for placement in placements:
            self.assumed[placement.pod.metadata.uid] = placement.node
        self.snapshot.assume(placements, gang.key)
        gang.sorted_members = None

    def _not_assumed(self, uid: str) -> None:
        self.assumed.pop(uid, None)
        gang = self.roster.gangs.get(self.roster.of_pod.get(uid, NOBODY))
        if gang is not None:
            gang.sorted_members = None

    def unassume(self, uid: str) -> Slot | None:
        """A bind did not happen: give its room back. Gives the slot, for whoever keeps the room."""
        self._not_assumed(uid)
        slot = self.snapshot.slots.get(uid)
        if slot is None or slot.kind is not SlotKind.ASSUMED:
            return None
        self.snapshot.remove(uid)
        self._room_changed(slot, None)
        return slot

    def forget(self, key: GangKey) -> None:
        """A gang without members or declaration: nothing of it is kept."""
        for uid in list(self.record(key).holds):
            self.drop_room(key, uid)
        self.no_longer_starving(key)
        self.records.pop(key, None)
        self.roster.gangs.pop(key, None)
        self.parked.unpark(key)

    # -- inside --------------------------------------------------------------------------------

    def _member_changed(self, key: GangKey, pod: Pod, slot: Slot | None, *, gone: bool) -> None:
        self.mark_due(key)
        if pod.status.phase == "Succeeded":
            gang = self.roster.gangs.get(key)
            if gang is not None and not gone and pod.metadata.uid not in gang.earlier_run:
                self.record(key).succeeded[pod.metadata.name] = role_of(pod)
        elif not gone and not pod.finished:
            record = self.records.get(key)
            if record is not None:
                record.succeeded.pop(pod.metadata.name, None)
        was_there = slot is not None and slot.kind in (SlotKind.POD, SlotKind.ASSUMED)
        if slot is not None and was_there and pod.metadata.uid not in self.snapshot.slots:
            self._left_room(key, pod, slot, gone=gone)

    def _one_of_many(self, slot: Slot | None, new: Pod | None, key: GangKey | None) -> bool:
        """Whether a bind was confirmed while siblings' are still out: the last one tells all."""
        if slot is None or slot.kind is not SlotKind.ASSUMED or new is None or new.finished:
            return False
        gang = self.roster.gangs.get(key) if key is not None else None
        if gang is None or new.spec.node_name != slot.node or new.metadata.deletion_timestamp:
            return False
        return any(uid in self.assumed for uid in gang.pods)

    def _left_room(self, key: GangKey, pod: Pod, slot: Slot, *, gone: bool) -> None:
        gang = self.roster.gangs.get(key)
        if gang is None or key.dialect == SINGLE_POD.name or gang.ended or self.record(key).gave_up:
            return
        if pod.spec.scheduler_name not in self.roster.names:
            return
        node = self.snapshot.nodes.get(slot.node)
        left = holds.departure_of(slot.pod, None if gone else pod, node_lost=node is None)
        kept = holds.hold_after(left, self.now, self.hold_seconds(gang))
        if kept is not None:
            self.record(key).expects.append(kept.until)
            self.wake_at(key, kept.until)
        members = self.members(gang)
        if gang.label_only and not members.bound:
            return
        lacks = self.missing(gang, members).total > len(self.record(key).holds)
        if kept is not None and lacks and node is not None and is_schedulable(node):
            self.keep_room(key, slot, kept)

    def hold_seconds(self, gang: Gang) -> float:
        """How long rooms are kept for this gang."""
        annotations = gang.declared.metadata.annotations if gang.declared is not None else {}
        return holds.hold_seconds(annotations, self.settings.hold_seconds)

    def _drop_holds_on(self, node: str) -> None:
        for slot in list(self.snapshot.on_node.get(node, {}).values()):
            if slot.kind is SlotKind.HOLD and isinstance(slot.owner, GangKey):
                self.drop_room(slot.owner, slot.uid)
                self.mark_due(slot.owner)

    def _room_changed(self, old: Slot | None, new: Slot | None) -> None:
        if old is not None and (new is None or new.node != old.node or new.cls is not old.cls):
            self.freed.add(old.node)
            for key in self._keepers.get(old.node, {}).values():
                self.mark_due(key)  # room beside or inside what is kept for it
            self._happened(Wake.ROOM | Wake.PODS)
        elif new is not None and old is None:
            self._happened(Wake.PODS)

    def _happened(self, event: int) -> None:
        self.events |= event
        self.events_seen += 1
        if event & (Wake.ROOM | Wake.NODES | Wake.STORAGE):
            self.failures.forget()
