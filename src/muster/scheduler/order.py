"""Which gang goes first.

Called by the line. Pure. A gang that has members running but lacks some goes before everything:
its room is kept or was lost through no fault of its own, and until it is whole all it holds is
wasted. Then priority, then gangs that need their minimum before the surplus of gangs that have
it, then age, then name, so that the order never depends on the order of events.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from muster.scheduler.gangs import GangKey

EVER = datetime.max.replace(tzinfo=UTC)


class Place(NamedTuple):
    """Sorts gangs in the order they are tried."""

    starting: bool
    lower: int
    surplus: bool
    created: datetime
    key: GangKey


def place_in_line(
    key: GangKey,
    *,
    priority: int,
    half_bound: bool,
    surplus: bool,
    created: datetime | None,
) -> Place:
    """The place of a gang; the least comes first."""
    return Place(not half_bound, -priority, surplus, created or EVER, key)
