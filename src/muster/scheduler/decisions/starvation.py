"""Starving gangs: a gang that has waited too long gets the nodes that it could use reserved.

The reserved nodes are closed to all gangs behind the first starving gang in line. An impossible
gang, which would not even fit an empty cluster, reserves nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from muster.scheduler.cluster.snapshot import NO_CHANGES
from muster.scheduler.decisions import preemption
from muster.scheduler.gangs.waiting_line import Wake, position
from muster.scheduler.placement import domain_search, filters
from muster.scheduler.placement.demand import Plan
from muster.scheduler.placement.place import place

if TYPE_CHECKING:
    from muster.contract.gang import GangKey
    from muster.scheduler.cluster.nodes import Mask
    from muster.scheduler.decisions.decision import GangView
    from muster.scheduler.gangs.waiting_line import LinePosition, Parked
    from muster.scheduler.placement.demand import Demand, Unplaced


def starving_head(view: GangView) -> LinePosition | None:
    """The first in line of the gangs that have waited too long."""
    return min((_place_of(view, key) for key in view.known.starving), default=None)


def _place_of(view: GangView, key: GangKey) -> LinePosition:
    if key != view.key:
        return view.known.place_of(key)
    return position(view.gang, view.priority, view.missing.total, held=bool(view.held))


def reserved_nodes(view: GangView) -> Mask | None:
    """The nodes closed to this gang because they are reserved for a starving gang before it."""
    starving, snapshot, first = view.known.starving, view.known.snapshot, starving_head(view)
    if first is None or view.key in starving or _place_of(view, view.key) <= first:
        return None
    snapshot.settle()
    demand, short = starving[first.key]
    mask = filters.fits_if_empty(snapshot, *short)
    return mask & domain_search.usable_nodes(snapshot, demand) if demand.domain else mask


def reserve_if_starving(view: GangView, demand: Demand, result: Unplaced, parked: Parked) -> Parked:
    """After a long wait, reserve the nodes this gang could use.

    Only if it would fit an empty cluster: an impossible gang must not block the others.
    """
    since = view.record.rest.since
    if view.started:
        return parked
    due = (view.now if since is None else since) + view.known.settings.starvation_after
    if view.now < due:
        return replace(parked, until=due)
    if _never_fits(view, demand):
        view.starving = None
        return parked
    view.starving = demand, tuple(short.want.cls for short in result.short)
    if demand.reserved is not None:  # closed to it until now: try again at once
        parked = replace(parked, until=view.now)
    return replace(parked, wakes=parked.wakes | Wake.LOST)


def _never_fits(view: GangView, demand: Demand) -> bool:
    """Whether the gang would not even fit an empty cluster; cached until nodes change."""
    snapshot, cache = view.known.snapshot, view.known.failures.hopeless
    stamp = (*snapshot.nodes.stamp, snapshot.volumes.version, snapshot.domains.version)
    wants = tuple((want.cls, len(want.pods)) for want in demand.wants)
    question = (stamp, wants, demand.domain)
    known = cache.get(view.key)
    if known is None or known[0] != question:
        slots = snapshot.slots.values()
        evictable = tuple(slot for slot in slots if preemption.may_be_evicted(slot.pod))
        result = place(snapshot, replace(demand, holds=evictable, reserved=None, room=NO_CHANGES))
        known = cache[view.key] = (question, not isinstance(result, Plan))
    return known[1]
