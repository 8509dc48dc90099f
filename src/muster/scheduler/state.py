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
        self.entries: dict[GangKey, GangRecord] = {}
        self.assumed: dict[str, str] = {}
        self.events = Wake.NONE
        self.freed: set[str] = set()
        self.failures = KnownFailures()
        self.moves = 0
        """Grows with every event: what fails by other pods may succeed after any of them."""
        self.now = 0.0
        self.epoch = 0.0
        """What the clock is behind the time of day, for words that name a time."""
        self.run = "plan"
        """Tells this process's plans from those of others."""
        self.plans = 0
        self.starving: dict[GangKey, tuple[PodClass, ...]] = {}
        """Gangs that have waited too long, with the classes that lack room."""
        self._keepers: dict[str, dict[str, GangKey]] = {}
        """Rooms held, by node: for whom."""
        self._turns = DueGangs()

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
        if before is None and key in self.entries and self.entries[key].expects:
            self.entries[key].expects.pop(0)
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
            self.touch(gang)

    def budget_changed(self, key: Key, new: PodDisruptionBudget | None) -> None:
        """A disruption budget came, changed or went."""
        before = self.roster.guarding.get(key)
        for gang in self.roster.put_budget(key, new):
            self.touch(gang)
        after = self.roster.guarding.get(key)
        if before is not None and (after is None or not after.is_no_milder(before)):
            self._happened(Wake.BUDGETS)

    def priority_class_changed(self, name: str, new: PriorityClass | None) -> None:
        """A priority class came, changed or went."""
        self.roster.put_priority_class(name, new)
        self._turns.all_moved()

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
        self.look_again(gang, when)

    def begin_writing(self) -> None:
        """This process leads now: what it left unwritten when it last did is decided anew."""
        for claim in list(self.snapshot.volumes.chosen):
            self.snapshot.volumes.not_chosen(claim)
            self._happened(Wake.STORAGE)

    # -- who is next ---------------------------------------------------------------------------

    def touch(self, key: GangKey) -> None:
        """Something about this gang changed: look at it again."""
        self._turns.add(key)

    def look_again(self, key: GangKey, when: float) -> None:
        """Look at this gang again at that time, whatever happens."""
        self._turns.at(when, key)

    def next_timer(self) -> float | None:
        """When the next gang is due by time alone."""
        return self._turns.next_timer()

    def due(self, now: float) -> Iterator[GangKey]:
        """Gangs to look at, first of the line first; changes between two steps are seen."""
        self.now = now
        while True:
            self._gather(now)
            key = self._turns.take(self.place_of)
            if key is None:
                return
            yield key

    def _gather(self, now: float) -> None:
        """Add what timers and events have woken."""
        self._turns.ring(now)
        if self.events:
            self.snapshot.settle()
            for key in self.parked.woken(self.snapshot, self.events, self.freed):
                self.touch(key)
            self.events, self.freed = Wake.NONE, set()

    def place_of(self, key: GangKey) -> LinePosition:
        """Where a gang stands in line."""
        gang = self.roster.gangs.get(key)
        if gang is None:
            return line_position(key, priority=0, half_bound=True, surplus=False, created=None)
        missing = self.missing(gang, self.muster(gang))
        bound = any(p.spec.node_name and not p.finished for p in gang.pods.values())
        return line_position(
            key,
            priority=self.roster.priority(gang),
            half_bound=bool(missing.total) and (bound or bool(self.entry(key).holds)),
            surplus=not missing.total,
            created=gang.created,
        )

    # -- reading -------------------------------------------------------------------------------

    def entry(self, key: GangKey) -> GangRecord:
        return self.entries.setdefault(key, GangRecord())

    def muster(self, gang: Gang) -> Members:
        """The gang's members by what they are doing now."""
        if gang.called is None:
            gang.called = sort_members(gang, self.assumed, self.roster.names)
        return gang.called

    def missing(self, gang: Gang, muster: Members) -> holds.Missing:
        """What the gang lacks; members that succeeded and are gone still count."""
        terms = gang.terms
        if terms is None:
            return holds.Missing(0, {})
        entry = self.entries.get(gang.key)
        if entry is None or not (entry.succeeded or entry.recalled):
            return holds.missing(terms, muster)
        return holds.missing(terms, muster, self._gone(gang, entry), entry.recalled)

    def succeeded(self, gang: Gang, muster: Members) -> int:
        """How many members succeeded in this run, or in the last one if no other has begun."""
        entry = self.entry(gang.key)
        now = len(muster.succeeded) + len(self._gone(gang, entry)) + entry.recalled
        return now or entry.done

    @staticmethod
    def _gone(gang: Gang, entry: GangRecord) -> tuple[str, ...]:
        """The roles of members that succeeded in this run and whose objects are gone."""
        if not entry.succeeded:
            return ()
        present = {pod.metadata.name for pod in gang.pods.values()}
        return tuple(role for name, role in entry.succeeded.items() if name not in present)

    def rooms(self, key: GangKey) -> tuple[Slot, ...]:
        """The slots kept for a gang, in a fixed order."""
        found = (self.snapshot.slots.get(uid) for uid in sorted(self.entry(key).holds))
        return tuple(slot for slot in found if slot is not None)

    def kept_rooms(self, nodes: Mask) -> dict[GangKey, list[holds.Hold]]:
        """The rooms kept on some nodes, by the gang that they are kept for."""
        found: dict[GangKey, list[holds.Hold]] = {}
        for node, kept in self._keepers.items():
            row = self.snapshot.nodes.rows.get(node)
            if row is not None and nodes[row]:
                for uid, key in kept.items():
                    found.setdefault(key, []).append(self.entry(key).holds[uid])
        return found

    def no_longer_starving(self, key: GangKey) -> None:
        """It got what it waited for, or is gone: those behind it may look again."""
        self.entry(key).guarded = False
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
        self.entry(key).holds[uid] = kept
        self._keepers.setdefault(slot.node, {})[uid] = key
        self.look_again(key, kept.until)

    def drop_room(self, key: GangKey, uid: str) -> None:
        """Give a kept room up."""
        self.entry(key).holds.pop(uid, None)
        slot = self.snapshot.remove(uid)
        if slot is not None:
            self._keepers[slot.node].pop(uid, None)
        self._room_changed(slot, None)

    def assume(self, gang: Gang, placements: Iterable[Placement]) -> None:
        """Binds are on their way: their rooms are taken from now on."""
        for placement in placements:
            self.assumed[placement.pod.metadata.uid] = placement.node
        self.snapshot.assume(placements, gang.key)
        gang.called = None

    def _not_assumed(self, uid: str) -> None:
        self.assumed.pop(uid, None)
        gang = self.roster.gangs.get(self.roster.of_pod.get(uid, NOBODY))
        if gang is not None:
            gang.called = None

    def unassume(self, uid: str) -> Slot | None:
        """A bind did not happen: give its room back. Gives the slot, for whoever keeps the room."""
        self._not_assumed(uid)
        slot = self.snapshot.slots.get(uid)
        if slot is None or slot.stay is not SlotKind.ASSUMED:
            return None
        self.snapshot.remove(uid)
        self._room_changed(slot, None)
        return slot

    def forget(self, key: GangKey) -> None:
        """A gang without members or declaration: nothing of it is kept."""
        for uid in list(self.entry(key).holds):
            self.drop_room(key, uid)
        self.no_longer_starving(key)
        self.entries.pop(key, None)
        self.roster.gangs.pop(key, None)
        self.parked.unpark(key)

    # -- inside --------------------------------------------------------------------------------

    def _member_changed(self, key: GangKey, pod: Pod, slot: Slot | None, *, gone: bool) -> None:
        self.touch(key)
        if pod.status.phase == "Succeeded":
            gang = self.roster.gangs.get(key)
            if gang is not None and not gone and pod.metadata.uid not in gang.past:
                self.entry(key).succeeded[pod.metadata.name] = role_of(pod)
        elif not gone and not pod.finished:
            entry = self.entries.get(key)
            if entry is not None:
                entry.succeeded.pop(pod.metadata.name, None)
        was_there = slot is not None and slot.stay in (SlotKind.POD, SlotKind.ASSUMED)
        if slot is not None and was_there and pod.metadata.uid not in self.snapshot.slots:
            self._left_room(key, pod, slot, gone=gone)

    def _one_of_many(self, slot: Slot | None, new: Pod | None, key: GangKey | None) -> bool:
        """Whether a bind was confirmed while siblings' are still out: the last one tells all."""
        if slot is None or slot.stay is not SlotKind.ASSUMED or new is None or new.finished:
            return False
        gang = self.roster.gangs.get(key) if key is not None else None
        if gang is None or new.spec.node_name != slot.node or new.metadata.deletion_timestamp:
            return False
        return any(uid in self.assumed for uid in gang.pods)

    def _left_room(self, key: GangKey, pod: Pod, slot: Slot, *, gone: bool) -> None:
        gang = self.roster.gangs.get(key)
        if gang is None or key.dialect == SINGLE_POD.name or gang.ended or self.entry(key).gave_up:
            return
        if pod.spec.scheduler_name not in self.roster.names:
            return
        node = self.snapshot.nodes.get(slot.node)
        left = holds.departure_of(slot.pod, None if gone else pod, node_lost=node is None)
        kept = holds.hold_after(left, self.now, self.hold_seconds(gang))
        if kept is not None:
            self.entry(key).expects.append(kept.until)
            self.look_again(key, kept.until)
        muster = self.muster(gang)
        if gang.label_only and not muster.bound:
            return
        lacks = self.missing(gang, muster).total > len(self.entry(key).holds)
        if kept is not None and lacks and node is not None and is_schedulable(node):
            self.keep_room(key, slot, kept)

    def hold_seconds(self, gang: Gang) -> float:
        """How long rooms are kept for this gang."""
        annotations = gang.declared.metadata.annotations if gang.declared is not None else {}
        return holds.hold_seconds(annotations, self.settings.hold_seconds)

    def _drop_holds_on(self, node: str) -> None:
        for slot in list(self.snapshot.on_node.get(node, {}).values()):
            if slot.stay is SlotKind.HOLD and isinstance(slot.owner, GangKey):
                self.drop_room(slot.owner, slot.uid)
                self.touch(slot.owner)

    def _room_changed(self, old: Slot | None, new: Slot | None) -> None:
        if old is not None and (new is None or new.node != old.node or new.cls is not old.cls):
            self.freed.add(old.node)
            for key in self._keepers.get(old.node, {}).values():
                self.touch(key)  # room beside or inside what is kept for it
            self._happened(Wake.ROOM | Wake.PODS)
        elif new is not None and old is None:
            self._happened(Wake.PODS)

    def _happened(self, event: int) -> None:
        self.events |= event
        self.moves += 1
        if event & (Wake.ROOM | Wake.NODES | Wake.STORAGE):
            self.failures.forget()
