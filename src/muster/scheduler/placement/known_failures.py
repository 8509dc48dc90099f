"""Demands that failed since room was last freed, so that equal ones are not tried again.

Kept by `state`, which forgets them all when room is freed; asked by `decide`. Room that is taken
meanwhile leaves the answer as it is and makes its numbers false: a gang that was told nothing yet,
or not for a while, is tried anew, so that what it is told is true when it is said.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.scheduler.cluster.snapshot import Snapshot
    from muster.scheduler.placement.demand import Demand, Unplaced


@dataclass
class KnownFailures:
    """Failed demands by what makes two of them fail alike, each with the room there was."""

    known: dict[object, tuple[Unplaced, object]] = field(default_factory=dict)

    def find(self, signature: object, snapshot: Snapshot, *, exact: bool) -> Unplaced | None:
        """How an equal demand failed; `exact` if its numbers are to be those of now."""
        result, room = self.known.get(signature, (None, None))
        return None if result is None or (exact and room != _room(snapshot)) else result

    def add(self, signature: object, result: Unplaced, snapshot: Snapshot) -> None:
        if signature is not None:
            self.known[signature] = (result, _room(snapshot))

    def forget(self) -> None:
        """Room was freed, or nodes changed."""
        self.known.clear()


def signature(demand: Demand, moves: int) -> object:
    """What makes two demands fail alike; nothing where rooms of its own help one of them.

    `moves` counts all that happened: by any of it, what fails by other pods may succeed.
    """
    if demand.rooms or demand.barred is not None:
        return None
    wants = tuple((want.cls, want.role, len(want.pods)) for want in demand.wants)
    coupled = any(want.cls.coupled or want.cls.claims for want in demand.wants)
    since = moves if coupled else 0
    return (wants, demand.need, tuple(sorted(demand.roles.items())), since)


def _room(snapshot: Snapshot) -> object:
    """Differs after room was taken: between two frees, what is free in all can only shrink."""
    nodes = snapshot.nodes
    return (nodes.version, nodes.layout, int(nodes.free.sum()))
