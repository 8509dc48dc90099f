"""Whose turn it is: gangs that are to be looked at, the first in line first, and timers.

Part of the state. A gang's place is found again only when the gang was touched, so that a change to
one gang does not sort all the others anew.

Which gang goes first.

Called by the line. Pure. A gang that has members running but lacks some goes before everything:
its room is kept or was lost through no fault of its own, and until it is whole all it holds is
wasted. Then priority, then gangs that need their minimum before the surplus of gangs that have
it, then age, then name, so that the order never depends on the order of events.

Gangs that do not fit now, each with the events that would help it.

The loop parks a gang when its trial fails and wakes it only by an event that could change the
answer: room freed on a node where a class that was short now fits, a node that came or changed,
pods that came near. With nothing happening nothing is tried, however many gangs wait.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from muster.scheduler.placement import filters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from muster.api.gang_dialects import GangKey
    from muster.scheduler.cluster.pod_class import PodClass
    from muster.scheduler.cluster.snapshot import Snapshot


END_OF_TIME = datetime.max.replace(tzinfo=UTC)


class LinePosition(NamedTuple):
    """Sorts gangs in the order they are tried."""

    not_running: bool
    neg_priority: int
    surplus: bool
    created: datetime
    key: GangKey


def line_position(
    key: GangKey,
    *,
    priority: int,
    half_bound: bool,
    surplus: bool,
    created: datetime | None,
) -> LinePosition:
    """The place of a gang; the least comes first."""
    return LinePosition(not half_bound, -priority, surplus, created or END_OF_TIME, key)


class DueGangs:
    """A heap of places; a gang's last place counts, whatever else of it is in there."""

    def __init__(self) -> None:
        self._heap: list[LinePosition] = []
        self._places: dict[GangKey, LinePosition] = {}
        self._moved: set[GangKey] = set()
        self._timers: list[tuple[float, GangKey]] = []

    def add(self, key: GangKey) -> None:
        """Look at this gang; its place may have changed."""
        self._moved.add(key)

    def all_due(self) -> None:
        """Everybody's place may have changed."""
        self._moved.update(self._places)

    def wake_at(self, when: float, key: GangKey) -> None:
        """Look at this gang at that time."""
        heapq.heappush(self._timers, (when, key))

    def next_timer(self) -> float | None:
        return self._timers[0][0] if self._timers else None

    def wake_due(self, now: float) -> None:
        """Add those whose time has come."""
        while self._timers and self._timers[0][0] <= now:
            self.add(heapq.heappop(self._timers)[1])

    def next(self, place_of: Callable[[GangKey], LinePosition]) -> GangKey | None:
        """The first in line, who then has had its turn; None if nobody waits for one."""
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


class Wake:
    """Kinds of events, as bits, beside the gang's own changes, which always wake it."""

    NONE = 0
    ROOM = 1  # room was freed on some node
    NODES = 2  # a node came, or its labels, taints, readiness or size changed
    STORAGE = 8  # a claim, volume or storage class changed
    BUDGETS = 16  # a disruption budget allows more, or is gone
    LOST = 32  # a node is gone: what keeps nodes from others may be impossible now
    PODS = 4  # a pod was placed or left: what affinity and spread look at


@dataclass
class Spot:
    """A parked gang: what wakes it and the classes it lacks room for."""

    wakes: int
    classes: tuple[PodClass, ...] = ()


@dataclass
class ParkedGangs:
    """All parked gangs."""

    spots: dict[GangKey, Spot] = field(default_factory=dict)

    def park(self, key: GangKey, spot: Spot) -> None:
        self.spots[key] = spot

    def unpark(self, key: GangKey) -> None:
        self.spots.pop(key, None)

    def woken(self, snapshot: Snapshot, events: int, freed: Iterable[str]) -> list[GangKey]:
        """The gangs that these events could help; `freed` are the nodes that got room."""
        rows = snapshot.nodes.rows_of(freed)
        answers: dict[PodClass, bool] = {}

        def fits(cls: PodClass) -> bool:
            if cls not in answers:
                answers[cls] = bool(filters.copies(snapshot, cls)[rows].any())
            return answers[cls]

        return [
            key
            for key, spot in self.spots.items()
            if spot.wakes & events & ~Wake.ROOM
            or (spot.wakes & events & Wake.ROOM and any(map(fits, spot.classes)))
        ]
