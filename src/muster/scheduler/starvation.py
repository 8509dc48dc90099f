"""Nodes that are kept for a gang which has waited too long, and from whom.

Asked by `decide` and `remedy`. Only the first in line of those gangs has nodes kept for it, and
only those behind it are kept away. `remedy` says who has waited too long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from muster.scheduler import filters
from muster.scheduler.parked import Wake

if TYPE_CHECKING:
    from muster.scheduler.gangs import GangKey
    from muster.scheduler.nodes import Mask
    from muster.scheduler.order import Place
    from muster.scheduler.state import State


def head(state: State) -> Place | None:
    """The first in line of those that have waited too long."""
    return min(map(state.place_of, state.starving), default=None)


def review(state: State, key: GangKey) -> None:
    """Whoever does not wait for room any more has no nodes kept: others may need them."""
    spot = state.parked.spots.get(key)
    if key in state.starving and (spot is None or not spot.wakes & Wake.NODES):
        state.stop_starving(key)


def barred(state: State, key: GangKey) -> Mask | None:
    """The nodes kept from this gang because one before it has waited too long."""
    first = head(state)
    if first is None or key in state.starving or state.place_of(key) <= first:
        return None
    state.snapshot.settle()
    mask = np.zeros(len(state.snapshot.nodes), np.bool_)
    for cls in state.starving[first.key]:
        mask |= filters.could_ever(state.snapshot, cls)
    return mask
