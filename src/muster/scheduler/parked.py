"""Gangs that do not fit now, each with the events that would help it.

The loop parks a gang when its trial fails and wakes it only by an event that could change the
answer: room freed on a node where a class that was short now fits, a node that came or changed,
pods that came near. With nothing happening nothing is tried, however many gangs wait.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from muster.scheduler import filters

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster.scheduler.gangs import GangKey
    from muster.scheduler.podclass import PodClass
    from muster.scheduler.snapshot import Snapshot


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
class Parked:
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
