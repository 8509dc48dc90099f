"""Demands that failed since room was last freed, so that equal demands are not tried again.

Room that is taken after that cannot make a failed demand succeed, but it makes the numbers in its
reason false. A gang that has not been given a reason for a while is therefore tried again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.contract.gang import GangKey
    from muster.scheduler.cluster.snapshot import Snapshot
    from muster.scheduler.placement.demand import Demand, Unplaced


@dataclass
class KnownFailures:
    """Failed demands by their signature, each with the result and the free room at that time."""

    known: dict[object, tuple[Unplaced, object]] = field(default_factory=dict)
    hopeless: dict[GangKey, tuple[object, bool]] = field(default_factory=dict)
    """Whether a gang would not even fit an empty cluster, and for which nodes and pods."""

    def find(
        self, demand: Demand, events_seen: int, snapshot: Snapshot, *, exact: bool
    ) -> Unplaced | None:
        """How an equal demand failed; `exact` if its numbers must be true now."""
        result, room = self.known.get(_signature(demand, events_seen), (None, None))
        return None if result is None or (exact and room != _room(snapshot)) else result

    def add(self, demand: Demand, events_seen: int, result: Unplaced, snapshot: Snapshot) -> None:
        signature = _signature(demand, events_seen)
        if signature is not None:
            self.known[signature] = (result, _room(snapshot))

    def forget(self) -> None:
        """Room was freed, or nodes changed."""
        self.known.clear()


def _signature(demand: Demand, events_seen: int) -> object:
    """The same for demands that fail for the same reason.

    None for a demand with holds or closed nodes, or in the middle of a decision.

    `events_seen` counts all events: after any of them, a demand that depends on other pods may
    succeed.
    """
    room = demand.room
    if demand.holds or demand.reserved is not None or room.freed or room.taken or room.chosen:
        return None
    wants = tuple((want.cls, want.role, len(want.pods)) for want in demand.wants)
    coupled = any(want.cls.coupled or want.cls.claims for want in demand.wants)
    since = events_seen if coupled else 0
    roles = tuple(sorted(demand.roles.items()))
    return (wants, demand.need, roles, since, demand.domain, room.kept)


def _room(snapshot: Snapshot) -> object:
    """Differs after room was taken: between two frees, what is free in all can only shrink."""
    nodes = snapshot.nodes
    return (nodes.version, nodes.layout, int(nodes.free.sum()))
