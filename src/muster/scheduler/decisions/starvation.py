"""Starving gangs: for a gang that has waited too long, room is kept on the nodes that it will get.

Room is kept for the first starving gang in line, from all behind it, whether they starve too or
not. Its nodes are chosen once: those of a plan for which as few nodes as possible must be left by
the pods that run there now. The choice stays until it is impossible, or a plan is found for which
fewer of the same nodes must be left: so freed rooms add up. An impossible gang, which would not
even fit an empty cluster, keeps nothing.

Promise: whatever others place beside the kept room, the gang starts at the latest when the awaited
pods have left; and a pod behind it waits for kept room only if the gang would have to wait for it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from muster.scheduler.cluster.snapshot import NO_CHANGES, KeptRoom
from muster.scheduler.decisions import preemption, reasons
from muster.scheduler.gangs.gang_index import SERVICE_CONTROLLERS
from muster.scheduler.gangs.waiting_line import END_OF_TIME, Kept, Wake, position
from muster.scheduler.placement import filters
from muster.scheduler.placement.demand import Plan
from muster.scheduler.placement.place import place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from muster.contract.gang import GangKey
    from muster.scheduler.cluster.pod_class import PodClass
    from muster.scheduler.cluster.snapshot import Slot
    from muster.scheduler.decisions.decision import GangView
    from muster.scheduler.gangs.waiting_line import Parked
    from muster.scheduler.placement.demand import Demand

    Leaving = Mapping[str, Sequence[Slot]]
    """The pods that are to leave, by node, in the order in which nodes are chosen."""


# -- gangs behind ----------------------------------------------------------------------------------


def room_to_leave_free(view: GangView, kept: Kept) -> tuple[KeptRoom, ...]:
    """The room that this gang leaves free for a starving gang before it in line."""
    place = position(view.gang, view.priority, view.missing.total, held=bool(view.held))
    return kept.rooms if view.known.place_of(kept.gang) < place else ()


# -- the gang itself -------------------------------------------------------------------------------


def keep_if_starving(view: GangView, demand: Demand, parked: Parked) -> Parked:
    """After a long wait, keep room for this gang, if it is the first in line that starves."""
    if view.started:
        return parked
    due = view.since + view.known.settings.starvation_after
    if view.now < due:
        return replace(parked, until=due)
    before, view.keeps = view.keeps, None
    if view.leaves_free or view.held:  # another gang is before it, or its room is held already
        return parked
    if _never_fits(view, demand):
        return parked
    parked = replace(parked, wakes=parked.wakes | Wake.LOST)
    view.keeps = _chosen_again(view, demand, before) or _chosen(view, demand)
    if view.keeps is None:
        return parked
    reason = reasons.with_own_room(parked.reason, sorted(view.keeps.nodes))
    return replace(parked, reason=reason)


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


def _chosen(view: GangView, demand: Demand) -> Kept | None:
    """The nodes for a gang for which no room is kept yet: those that pods leave soonest, we guess.

    Few gangs on a node are gone sooner than many, old ones sooner than young ones, and pods of a
    service may never go.
    """
    snapshot = view.known.snapshot
    snapshot.settle()
    useful = filters.fits_if_empty(snapshot, *(want.cls for want in demand.wants))
    rows, order = snapshot.nodes.rows, []
    for node, slots in snapshot.on_node.items():
        leaving = [slot for slot in slots.values() if preemption.may_be_evicted(slot.pod)]
        if leaving and node in rows:
            owners = sorted({str(_owner(view, slot)) for slot in leaving})
            services = sum(_is_service(slot) for slot in leaving)
            young = max(slot.pod.metadata.creation_timestamp or END_OF_TIME for slot in leaving)
            rank = (not useful[rows[node]], services, len(owners), young, owners, node)
            order.append((rank, node, leaving))
    order.sort(key=lambda row: row[0])
    leaving_by_node = {node: slots for _, node, slots in order}
    plan, n = _soonest(view, demand, leaving_by_node)
    if plan is None:
        return None
    nodes = {placement.node for placement in plan.placements}
    awaited = chain.from_iterable(slots for _, node, slots in order[:n] if node in nodes)
    return _kept(view, demand, plan, frozenset(_owner(view, slot) for slot in awaited))


def _chosen_again(view: GangView, demand: Demand, before: Kept | None) -> Kept | None:
    """The same nodes while they suffice, or fewer of them beside nodes that are free by now."""
    if before is None or before.gang != view.key:
        return None
    snapshot = view.known.snapshot
    snapshot.settle()
    leaving = {
        node: [
            slot
            for slot in snapshot.on_node.get(node, {}).values()
            if _owner(view, slot) in before.awaited and preemption.may_be_evicted(slot.pod)
        ]
        for node in before.nodes
    }
    leaving = {node: slots for node, slots in leaving.items() if slots}
    plan, n = _soonest(view, demand, leaving)
    if n >= len(leaving):
        slots = tuple(chain.from_iterable(leaving.values()))
        plan = _plan_on(view, demand, [*before.nodes], slots) or plan
    return None if plan is None else _kept(view, demand, plan, before.awaited)


def _soonest(view: GangView, demand: Demand, leaving: Leaving) -> tuple[Plan | None, int]:
    """A plan for which the pods leave as few of the first nodes as possible, and how many."""
    snapshot, nodes = view.known.snapshot, [*leaving]
    results: dict[int, Plan | None] = {}

    def plan(n: int) -> Plan | None:
        if n not in results:
            slots = chain.from_iterable(leaving[node] for node in nodes[:n])
            result = place(snapshot, replace(demand, holds=(*demand.holds, *slots)))
            results[n] = result if isinstance(result, Plan) else None
        return results[n]

    # Not the middle of all nodes first: a trial costs as much as the pods that leave.
    last, high = 0, min(1, len(nodes))
    while plan(high) is None:
        if high == len(nodes):
            return None, high
        last, high = high, min(2 * high, len(nodes))
    few = range(last + 1, high)
    n = last + 1 + bisect_left(few, True, key=lambda n: plan(n) is not None)
    return plan(n), n


def _plan_on(
    view: GangView, demand: Demand, nodes: Sequence[str], leaving: Iterable[Slot]
) -> Plan | None:
    """The plan on these nodes alone once these pods have left."""
    snapshot = view.known.snapshot
    closed = np.ones(len(snapshot.nodes), np.bool_)
    closed[snapshot.nodes.rows_of(nodes)] = False
    holds = (*demand.holds, *leaving)
    again = replace(demand, holds=holds, used_nodes=tuple(nodes), reserved=closed)
    result = place(snapshot, again)
    return result if isinstance(result, Plan) else None


def _owner(view: GangView, slot: Slot) -> GangKey | str:
    return slot.owner or view.known.index.of_pod.get(slot.uid) or slot.uid


def _is_service(slot: Slot) -> bool:
    owner = slot.pod.metadata.controller
    return owner is not None and owner.kind in SERVICE_CONTROLLERS


# -- the room on each node -------------------------------------------------------------------------


def _kept(view: GangView, demand: Demand, plan: Plan, awaited: frozenset[GangKey | str]) -> Kept:
    pods: dict[str, Counter[PodClass]] = {}
    for placement in plan.placements:
        pods.setdefault(placement.node, Counter())[placement.cls] += 1
    on_node = view.known.snapshot.on_node
    rooms = []
    for node in sorted(pods):
        slots = [s for s in on_node.get(node, {}).values() if _owner(view, s) in awaited]
        leaving = [slot.cls.requests for slot in slots if preemption.may_be_evicted(slot.pod)]
        rooms.append(_room(view, node, pods[node], leaving))
    return Kept(view.key, tuple(rooms), awaited)


def _room(
    view: GangView, node: str, pods: Counter[PodClass], leaving: Sequence[Mapping[str, int]]
) -> KeptRoom:
    """The room on one node that others leave free: what the pods that leave do not bring anyway."""
    snapshot = view.known.snapshot
    requested: Counter[str] = Counter()
    for cls, n in pods.items():
        requested.update({name: each * n for name, each in cls.requests.items()})
    free, columns = snapshot.nodes.free[:, snapshot.nodes.rows[node]], snapshot.classes.resources
    brought = _brought(requested, lambda name: int(free[columns[name]]), leaving)
    amounts = {name: max(0, n - brought[name]) for name, n in sorted(requested.items())}
    amounts = {name: n for name, n in amounts.items() if n}
    each = [amounts] + [{}] * (len(pods) - 1)
    stand_ins = [snapshot.classes.stand_in(cls, mine) for cls, mine in zip(pods, each, strict=True)]
    return KeptRoom(node, tuple(pods.items()), tuple(amounts.items()), tuple(stand_ins))


def _brought(
    requested: Mapping[str, int], free: Callable[[str], int], leaving: Sequence[Mapping[str, int]]
) -> Counter[str]:
    """How much of each resource is free, at least, by the pods that must leave for what lacks.

    A pod that leaves eight GPUs also leaves the CPUs that it uses with them: a gang that lacks the
    GPUs need not keep these CPUs from others.
    """
    brought: Counter[str] = Counter()
    for lacking, n in requested.items():
        short = n - max(0, free(lacking))
        pods = [pod for pod in leaving if pod.get(lacking)]
        if short <= 0 or not pods:
            continue
        for name in requested:
            least = min(short * pod.get(name, 0) // pod[lacking] for pod in pods)
            brought[name] = max(brought[name], least)
    return brought
