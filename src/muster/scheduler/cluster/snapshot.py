"""The cluster as arrays, kept current by watch events; trial and undo.

A pod, a bind in flight, a hold and another scheduler's nomination all occupy room in the same way,
as a `Slot` keyed by UID; they differ in how the slot ends.

A gang is placed by trial: inside `with snapshot.trial()` each placement is written into the real
arrays, so the next one sees the room that is left, and into a log. Leaving the block plays the log
backwards. Nothing is copied, so a trial costs the rows that it touches and not the whole cluster;
`touched` names these rows, and caches recompute only them.

Promise: after any sequence of changes, `free` equals what a fresh count of the slots would give,
and leaving a trial restores it exactly.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from muster.scheduler.cluster.domains import NodeDomains
from muster.scheduler.cluster.nodes import NodeTable
from muster.scheduler.cluster.pod_class import PodClass, PodClasses, PodTerm
from muster.scheduler.cluster.pod_counts import PodCount, PodCounts, Use
from muster.scheduler.cluster.volumes import Volumes
from muster.scheduler.isolated_errors import isolated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Set

    from kubekit.objects.core import Namespace, Pod
    from kubekit.objects.meta import Key
    from muster.contract.gang import GangKey
    from muster.scheduler.cluster.volumes import VolumeChoice

K = TypeVar("K")


class SlotKind(Enum):
    """Why a slot occupies room, and so what ends it."""

    POD = "pod"  # a pod bound to the node; ends when it finishes or is gone
    ASSUMED = "assumed"  # our bind is in flight; ends by a watch event or a settled failure
    HOLD = "hold"  # held for a member to come; ends by the rules in `gangs.holds`
    NOMINATED = "nominated"  # another scheduler has nominated the node for a pod


class Hold(NamedTuple):
    """Until when a slot is held, and whether that is already the full time."""

    until: float
    promised: bool
    late: str = ""
    """The role of the late member that the room is for; empty for other members."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Room on one node occupied by one pod, or held for one."""

    uid: str
    node: str
    cls: PodClass
    pod: Pod
    kind: SlotKind = SlotKind.POD
    terminating: bool = False
    priority: int = 0
    owner: GangKey | None = None
    hold: Hold | None = None


class Placement(NamedTuple):
    """A pod, the node it gets, and the class it was placed as."""

    pod: Pod
    node: str
    cls: PodClass


@dataclass(frozen=True)
class KeptRoom:
    """Room on one node that others leave free for the pods of a gang that waits."""

    node: str
    pods: tuple[tuple[PodClass, int], ...]
    """The classes of these pods, and how many of each."""
    amounts: tuple[tuple[str, int], ...]
    """How much of each resource others leave free."""
    stand_ins: tuple[PodClass, ...] = field(default=(), compare=False)
    """What a trial places there: the classes of the pods, with these amounts."""


class RoomChanges(NamedTuple):
    """What a trial begins with, and undoes at its end."""

    freed: tuple[Slot, ...] = ()
    taken: tuple[tuple[PodClass, str], ...] = ()
    """The class of each pod to which the decision has given room so far, and its node."""
    chosen: Mapping[Key, VolumeChoice] | None = None
    kept: tuple[KeptRoom, ...] = ()
    """Room that is kept for a gang that is before this one in line."""


NO_CHANGES = RoomChanges()
MAX_TOUCHED = 65536
"""Rows remembered in `touched`; beyond it the list is emptied, and caches start again."""


class Snapshot:
    """Nodes, the slots on them, and the counts that couple pods."""

    def __init__(self) -> None:
        self.classes = PodClasses()
        self.nodes = NodeTable(self.classes)
        self.domains = NodeDomains(self.nodes)
        self.pod_counts = PodCounts()
        self.volumes = Volumes()
        self.slots: dict[str, Slot] = {}
        self.on_node: dict[str, dict[str, Slot]] = {}
        self.of_class: dict[PodClass, dict[str, Slot]] = {}
        self.held_for: dict[GangKey, dict[str, Slot]] = {}
        self.priorities: Counter[int] = Counter()
        self.touched: list[int] = []
        """Rows whose room changed since `log_generation` began, in order."""
        self.log_generation = 0
        self._interest: set[str] = set()
        self._columns = len(self.classes.resources)
        self._trial: Trial | None = None

    # -- watch events --------------------------------------------------------------------------

    def put_namespace(self, namespace: Namespace) -> None:
        name, labels = namespace.metadata.name, namespace.metadata.labels
        if self.pod_counts.namespaces.get(name) != labels:
            self.pod_counts.namespaces[name] = labels
            self.pod_counts.namespace_changed()

    def put_pod(self, pod: Pod) -> None:
        """Take over a pod as the API server has it now."""
        uid, node = pod.metadata.uid, pod.spec.node_name
        known = self.slots.get(uid)
        if pod.finished:
            self.remove(uid)
        elif node:
            self.put(self._slot(pod, node, SlotKind.POD))
        elif known is not None and known.kind is SlotKind.ASSUMED:
            return  # an event from before our bind: the bind still occupies its room
        elif pod.status.nominated_node_name:
            self.put(self._slot(pod, pod.status.nominated_node_name, SlotKind.NOMINATED))
        else:
            self.remove(uid)

    def assume(self, placements: Iterable[Placement], owner: GangKey | None = None) -> None:
        """Occupy the room of binds in flight."""
        copies: Counter[tuple[PodClass, str]] = Counter()
        for pod, node, cls in placements:
            uid = pod.metadata.uid
            self.remove(uid)
            slot = Slot(uid, node, cls, pod, SlotKind.ASSUMED, False, pod.spec.priority, owner)
            self._enter(slot)
            copies[cls, node] += 1
        # One `take` for all copies of a class on a node: most members of a gang are alike.
        for (cls, node), n in copies.items():
            row = self.nodes.rows.get(node)
            if row is not None:
                self.take(Use(cls, row, n))

    def put(self, slot: Slot) -> None:
        """Occupy room, or replace the slot of the same UID."""
        known = self.slots.get(slot.uid)
        if known is not None:
            if _same_room(known, slot):
                self._leave(known)
                self._enter(slot)
                return
            self.remove(slot.uid)
        self._enter(slot)
        self._count(slot, 1)

    def remove(self, uid: str) -> None:
        """Free the room of a slot, if there is one."""
        slot = self.slots.get(uid)
        if slot is not None:
            self._leave(slot)
            self._count(slot, -1)

    # -- reading -------------------------------------------------------------------------------

    def settle(self) -> None:
        """Merge added and deleted nodes, and classify again if needed; every trial begins so."""
        if self.classes.forget_labels():
            self._interest = set()
        # Classifying can itself make labels interesting, by selectors seen for the first time.
        while new := self.classes.interesting - self._interest:
            self._interest |= new
            self._classify(new)
        layout = self.nodes.layout
        for name in self.nodes.settle():
            row = self.nodes.rows[name]
            for slot in self.on_node.get(name, {}).values():
                self.nodes.free[slot.cls.columns, row] -= slot.cls.amounts
        if len(self.classes.resources) != self._columns:
            self._columns = len(self.classes.resources)
            self._recount_room()
        if self.nodes.layout != layout:
            self._recount()

    def uses(self, counts: Callable[[PodClass], bool] = lambda _: True) -> Iterator[Use]:
        """The uses of the chosen classes now: the slots, and the changes of the open trial."""
        rows = self.nodes.rows
        for cls, slots in self.of_class.items():
            if counts(cls):
                for slot in slots.values():
                    if slot.node in rows:
                        yield Use(cls, rows[slot.node], 1, slot.terminating)
        if self._trial is not None:
            yield from (use for use in self._trial.log if counts(use.cls))

    def matching(self, *terms: PodTerm, living: bool = False) -> PodCount:
        """Pods per node that match all these terms."""
        return self.pod_counts.matching(terms, self.uses, living=living)

    @contextmanager
    def trial(self, room: RoomChanges = NO_CHANGES) -> Iterator[Trial]:
        """Try placements, beginning with these changes; leaving the block undoes them all."""
        # Before the trial, because rows must not move while its log names them.
        self.settle()
        trial = self._trial = Trial(self)
        chosen = self.volumes.chosen
        try:
            if room is not NO_CHANGES:
                trial.enter(room)
            yield trial
        finally:
            trial.undo()
            self._trial = None
            if room.chosen:
                self.volumes.replace_choices(chosen)

    def take(self, use: Use) -> None:
        """Use up room, or free it where `n` is negative."""
        nodes, cls = self.nodes, use.cls
        nodes.free[cls.columns, use.row] -= cls.amounts * use.n
        if self.pod_counts.active or cls.coupled or cls.claims:
            self.pod_counts.take(use)
        self.touched.append(use.row)
        if len(self.touched) > MAX_TOUCHED:
            self.touched, self.log_generation = [], self.log_generation + 1

    # -- inside --------------------------------------------------------------------------------

    def _slot(self, pod: Pod, node: str, kind: SlotKind) -> Slot:
        return Slot(
            uid=pod.metadata.uid,
            node=node,
            cls=self.classes.of(pod),
            pod=pod,
            kind=kind,
            terminating=pod.metadata.deletion_timestamp is not None,
            priority=pod.spec.priority,
        )

    def _enter(self, slot: Slot) -> None:
        self.slots[slot.uid] = slot
        self.on_node.setdefault(slot.node, {})[slot.uid] = slot
        self.of_class.setdefault(slot.cls, {})[slot.uid] = slot
        self.priorities[slot.priority] += 1
        if slot.kind is SlotKind.HOLD and slot.owner is not None:
            self.held_for.setdefault(slot.owner, {})[slot.uid] = slot

    def _leave(self, slot: Slot) -> None:
        del self.slots[slot.uid]
        _drop(self.on_node, slot.node, slot.uid)
        _drop(self.of_class, slot.cls, slot.uid)
        self.priorities[slot.priority] -= 1
        if not self.priorities[slot.priority]:
            del self.priorities[slot.priority]
        if slot.kind is SlotKind.HOLD and slot.owner is not None:
            _drop(self.held_for, slot.owner, slot.uid)

    def _count(self, slot: Slot, n: int) -> None:
        row = self.nodes.rows.get(slot.node)
        if row is not None:
            self.take(Use(slot.cls, row, n, slot.terminating))

    def _classify(self, keys: Set[str]) -> None:
        """Classify slots again: selectors name these label keys, which no class held before."""
        known = [slot for slot in self.slots.values() if not keys.isdisjoint(_labels(slot))]
        for slot in known:
            with isolated("class", slot.pod.metadata.key):  # after an error it keeps its class
                cls = self.classes.of(slot.pod)
                if cls is not slot.cls:
                    self.put(replace(slot, cls=cls))
        if known:
            self._recount()

    def _recount_room(self) -> None:
        """Compute the free room again, after resources that shared a column got their own."""
        nodes = self.nodes
        nodes.free[:] = nodes.allocatable
        for use in self.uses():
            nodes.free[use.cls.columns, use.row] -= use.cls.amounts * use.n

    def _recount(self) -> None:
        self.touched, self.log_generation = [], self.log_generation + 1
        self.pod_counts.rebuild(len(self.nodes), self.uses())


class Trial:
    """The placements of a trial, in order, so that they can be undone."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.log: list[Use] = []
        self.began = 0
        """Where the log of the trial itself begins, after the changes that it began with."""

    def enter(self, room: RoomChanges) -> None:
        """Begin with these changes."""
        self.remove_slots(room.freed)
        rows = self.snapshot.nodes.rows
        for cls, node in room.taken:
            if node in rows:
                self.place(cls, rows[node])
        for kept in room.kept:
            if kept.node in rows:
                for cls in kept.stand_ins:
                    self.place(cls, rows[kept.node])
        if room.chosen:
            volumes = self.snapshot.volumes
            volumes.replace_choices({**volumes.chosen, **room.chosen})
        self.began = self.mark()

    @property
    def rows(self) -> set[int]:
        """The rows on which the trial has placed copies."""
        return {use.row for use in self.log[self.began :] if use.n > 0}

    def place(self, cls: PodClass, row: int, n: int = 1) -> None:
        """Put copies of a class on a row."""
        use = Use(cls, row, n)
        self.snapshot.take(use)
        self.log.append(use)

    def remove_slots(self, slots: Iterable[Slot]) -> None:
        """Remove slots for the length of the trial: the gang's own holds, or victims."""
        for slot in slots:
            row = self.snapshot.nodes.rows.get(slot.node)
            if row is not None:
                use = Use(slot.cls, row, -1, slot.terminating)
                self.snapshot.take(use)
                self.log.append(use)

    def mark(self) -> int:
        """A point to undo to."""
        return len(self.log)

    def undo(self, mark: int = 0) -> None:
        """Undo everything since the mark, last first."""
        while len(self.log) > mark:
            use = self.log.pop()
            self.snapshot.take(use._replace(n=-use.n))


def _drop(index: dict[K, dict[str, Slot]], key: K, uid: str) -> None:
    """Drop a slot from an index; its key goes with the last slot."""
    slots = index[key]
    del slots[uid]
    if not slots:
        del index[key]


def _labels(slot: Slot) -> Mapping[str, str]:
    return slot.pod.metadata.labels


def _same_room(slot: Slot, other: Slot) -> bool:
    return (
        slot.cls is other.cls and slot.node == other.node and slot.terminating == other.terminating
    )
