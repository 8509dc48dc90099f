"""Whose turn it is: the order of gangs, the events each one waits for, and one timer per gang.

A gang with running members that lacks others goes first: until it is whole, the room it occupies is
wasted. Then priority decides, then gangs that need their minimum before the surplus of gangs that
have it, then age, then name, so that the order never depends on the order of events.

After each decision a gang rests: `Idle`, `InFlight` or `Parked`. A parked gang is tried again only
after an event that could change the answer: room freed on a node where a class that was short now
fits, a node that was added or changed, pods placed on nodes nearby. While nothing happens nothing
is tried, however many gangs wait.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, cached_property
from typing import TYPE_CHECKING, NamedTuple

from muster.scheduler.isolated_errors import isolated
from muster.scheduler.placement import filters

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from muster.contract.gang import GangKey
    from muster.scheduler.cluster.pod_class import PodClass
    from muster.scheduler.cluster.snapshot import KeptRoom, Slot, Snapshot
    from muster.scheduler.decisions.reasons import Reason
    from muster.scheduler.gangs.gang_index import Gang


END_OF_TIME = datetime.max.replace(tzinfo=UTC)


class Wake:
    """Kinds of events, as bits."""

    NONE = 0
    ROOM = 1  # room was freed on some node
    NODES = 2  # a node was added, or its labels, taints, readiness or size changed
    PODS = 4  # a pod was placed or left: affinity and spread look at it
    STORAGE = 8  # a claim, volume or storage class changed
    BUDGETS = 16  # a disruption budget allows more, or was deleted
    LOST = 32  # a node was deleted: a gang that starves may have become impossible
    BOUND = 64  # the last bind in flight of a gang was answered: the gang can be evicted now
    OWN = 128  # the gang's own pods, group or budget changed: a gang is always due after that
    EVICTABLE = 256  # a gang's priority fell, or a mark that protected pods from eviction is gone
    ALL = ROOM | NODES | PODS | STORAGE | BUDGETS | LOST | BOUND | OWN | EVICTABLE


@dataclass(frozen=True)
class Idle:
    """No member waits for a node from us."""

    reason: None = None
    since: None = None
    until: float | None = None


@dataclass(frozen=True)
class InFlight:
    """Binds or deletions are under way: their end makes the gang due."""

    reason: Reason | None = None
    """Why earlier binds failed, until the gang has all its nodes."""
    since: float | None = None
    """Since when the gang has waited, if earlier binds failed."""
    until: float | None = None


@dataclass(frozen=True)
class Parked:
    """Members wait: why, and the events that wake the gang."""

    reason: Reason
    wakes: int
    classes: tuple[PodClass, ...] = ()
    """The classes that lack room: freed room wakes the gang only if one of them fits there."""
    evicts_below: int | None = None
    """The priority below which it may evict: freed room also helps together with an eviction."""
    until: float | None = None
    """When the gang is tried again at the latest."""
    since: float = 0.0
    explained_at: float = 0.0
    """When the numbers in the reason were last computed."""


Rest = Idle | InFlight | Parked


class LinePosition(NamedTuple):
    """The place of a gang in line: the gang with the least position is tried first."""

    not_mending: bool
    neg_priority: int
    surplus: bool
    created: datetime
    key: GangKey


def position(gang: Gang, priority: int, missing: int, *, held: bool) -> LinePosition:
    """The place of a gang that lacks so many members; `held` if room is held for it."""
    mending = missing and (held or gang.started)
    created = gang.created or END_OF_TIME
    return LinePosition(not mending, -priority, not missing, created, gang.key)


@dataclass(frozen=True)
class Kept:
    """The room that is kept for the first starving gang in line, from all behind it."""

    gang: GangKey
    rooms: tuple[KeptRoom, ...]
    awaited: frozenset[GangKey | str] = frozenset()
    """What must leave these nodes: gangs, and the UIDs of pods that are in none."""

    @cached_property
    def nodes(self) -> Mapping[str, KeptRoom]:
        return {room.node: room for room in self.rooms}


class DueGangs:
    """The gangs to consider, in order, and one timer per gang.

    Both heaps are lazy: an entry counts only if it is the gang's last place, or its current timer.
    A gang's place is computed only when the gang was marked, so a change to one gang does not sort
    all the others again.
    """

    def __init__(self) -> None:
        self._heap: list[LinePosition] = []
        self._places: dict[GangKey, LinePosition] = {}
        self._moved: set[GangKey] = set()
        self._timers: list[tuple[float, GangKey]] = []
        self._when: dict[GangKey, float] = {}

    def add(self, key: GangKey) -> None:
        """Consider this gang; its place may have changed."""
        self._moved.add(key)

    def places_changed(self) -> None:
        """Compute the place of every due gang again."""
        self._moved.update(self._places)

    def set_timer(self, key: GangKey, when: float | None) -> None:
        """Replace the gang's timer."""
        if when is None:
            self._when.pop(key, None)
        elif self._when.get(key) != when:
            self._when[key] = when
            heapq.heappush(self._timers, (when, key))
            # Replaced timers stay in the heap: rebuild it once most entries are stale.
            if len(self._timers) > 2 * len(self._when) + 64:
                self._timers = [(at, gang) for gang, at in self._when.items()]
                heapq.heapify(self._timers)

    def wake_at(self, when: float, key: GangKey) -> None:
        """Consider this gang at that time, or earlier if its timer is earlier."""
        if when < self._when.get(key, math.inf):
            self.set_timer(key, when)

    def timer_of(self, key: GangKey) -> float | None:
        return self._when.get(key)

    def next_timer(self) -> float | None:
        while self._timers and self._when.get(self._timers[0][1]) != self._timers[0][0]:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def wake_due(self, now: float) -> None:
        """Add the gangs whose timers have run out."""
        while (when := self.next_timer()) is not None and when <= now:
            key = heapq.heappop(self._timers)[1]
            del self._when[key]
            self.add(key)

    def next(self, place_of: Callable[[GangKey], LinePosition]) -> GangKey | None:
        """Take the first in line; None if no gang is due."""
        for key in self._moved:
            place = place_of(key)
            if self._places.get(key) != place:
                self._places[key] = place
                heapq.heappush(self._heap, place)
        self._moved.clear()
        while self._heap:
            place = heapq.heappop(self._heap)
            if self._places.get(place.key) is place:
                del self._places[place.key]
                return place.key
        return None


def woken(
    parked: Mapping[GangKey, Parked],
    snapshot: Snapshot,
    events: int,
    freed: Collection[str],
    evictable_above: Callable[[Slot], float],
) -> list[GangKey]:
    """The parked gangs that these events could help; `freed` are the nodes with freed room.

    `evictable_above` is the priority above which gangs may evict a slot.
    """
    rows = snapshot.nodes.rows_of(freed)

    @cache
    def fits(cls: PodClass, evicts_below: int | None) -> bool:
        if filters.copies(snapshot, cls)[rows].any():
            return True
        return evicts_below is not None and any(
            filters.fits_without(snapshot, cls, node, below(node, evicts_below)) for node in freed
        )

    @cache
    def below(node: str, priority: int) -> list[Slot]:
        slots = snapshot.on_node.get(node, {}).values()
        return [slot for slot in slots if evictable_above(slot) < priority]

    def may_fit(key: GangKey, rest: Parked) -> bool:
        with isolated("wake", key):
            return any(fits(cls, rest.evicts_below) for cls in rest.classes)
        return True  # the decision about this gang meets the error too, and reports it

    return [
        key
        for key, rest in parked.items()
        if rest.wakes & events & ~Wake.ROOM
        or (rest.wakes & events & Wake.ROOM and may_fit(key, rest))
    ]
