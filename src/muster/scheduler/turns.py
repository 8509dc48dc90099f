"""Whose turn it is: gangs that are to be looked at, the first in line first, and timers.

Part of the state. A gang's place is found again only when the gang was touched, so that a change to
one gang does not sort all the others anew.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster.scheduler.gangs import GangKey
    from muster.scheduler.order import Place


class Turns:
    """A heap of places; a gang's last place counts, whatever else of it is in there."""

    def __init__(self) -> None:
        self._heap: list[Place] = []
        self._places: dict[GangKey, Place] = {}
        self._moved: set[GangKey] = set()
        self._timers: list[tuple[float, GangKey]] = []

    def add(self, key: GangKey) -> None:
        """Look at this gang; its place may have changed."""
        self._moved.add(key)

    def all_moved(self) -> None:
        """Everybody's place may have changed."""
        self._moved.update(self._places)

    def at(self, when: float, key: GangKey) -> None:
        """Look at this gang at that time."""
        heapq.heappush(self._timers, (when, key))

    def next_timer(self) -> float | None:
        return self._timers[0][0] if self._timers else None

    def ring(self, now: float) -> None:
        """Add those whose time has come."""
        while self._timers and self._timers[0][0] <= now:
            self.add(heapq.heappop(self._timers)[1])

    def take(self, place_of: Callable[[GangKey], Place]) -> GangKey | None:
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
