"""Which pods to evict so that a gang fits: surplus members first, then whole gangs, never half.

The answer is a plan that fits once the victims are gone, and the victims; nothing is evicted
unless such a plan exists.

Victims are sorted by harm, the least harmful first. Bisection finds the shortest prefix that makes
room; then each victim in it, the most harmful first, is spared if the gang fits without its room.
Both steps ask `place` itself, so every constraint is honoured.

Kept apart because it is the search for victims, which readers look for by this name; the decision
about a gang that does not fit only asks for its answer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from kubekit.objects.conditions import preemption_message
from muster.contract.gang import GangKey, GangTerms
from muster.contract.gang_dialects import is_protected, role_of, single_pod_gang
from muster.scheduler.cluster.snapshot import Slot, SlotKind, Snapshot
from muster.scheduler.decisions.decision import PREEMPTED, Delete
from muster.scheduler.decisions.reasons import Reader
from muster.scheduler.gangs.holds import hold_plan
from muster.scheduler.gangs.members import count_by_role
from muster.scheduler.gangs.phase import Leaving, Preempting
from muster.scheduler.gangs.waiting_line import END_OF_TIME, Wake
from muster.scheduler.placement import domain_search, filters
from muster.scheduler.placement.demand import Demand, Plan
from muster.scheduler.placement.place import place

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from kubekit.objects.core import Pod
    from kubekit.objects.meta import Key
    from muster.scheduler.decisions.decision import GangView, Known
    from muster.scheduler.gangs.gang_index import Gang, GangIndex
    from muster.scheduler.gangs.waiting_line import Parked

MAX_DOMAINS = 16
"""Domains that are tried one by one for a gang that budgets prevent from clearing the best one."""
MAX_SPARED = 64
"""How many victims are checked again, to be spared: each check is a trial."""


@dataclass(frozen=True)
class Victim:
    """Slots evicted together: one surplus member, or all of a gang, its holds included."""

    gang: GangKey
    slots: tuple[Slot, ...]
    priority: int
    whole: bool
    created: datetime
    budgets: tuple[tuple[Key, str], ...] = ()
    """The disruption budgets over its pods, each with the UID of the pod."""

    @property
    def harm(self) -> tuple[object, ...]:
        """Surplus before whole gangs, low priority before high, young before old.

        Among victims of one priority, pods under no budget go first.
        """
        young = -self.created.timestamp()
        return (self.whole, self.priority, bool(self.budgets), young, self.gang)


@dataclass(frozen=True)
class Preemption:
    """The victims, and the plan for the gang once they are gone."""

    plan: Plan
    victims: tuple[Victim, ...]

    @property
    def pods(self) -> frozenset[str]:
        """The UIDs of the pods that must be gone first."""
        slots = (slot for victim in self.victims for slot in victim.slots)
        return frozenset(slot.uid for slot in slots if slot.kind is SlotKind.POD)


def preempt(
    snapshot: Snapshot, demand: Demand, victims: Sequence[Victim], allowed: Mapping[Key, int]
) -> Preemption | None:
    """The least harmful way to make room, or None if there is none.

    `allowed` is how many evictions each disruption budget allows.
    """
    if not victims:
        return None
    chosen = _enough(snapshot, demand, victims, allowed)
    if demand.domain is not None and demand.domain.topology.is_required:
        demand, chosen = _in_one_domain(snapshot, demand, victims, allowed, chosen)
    if chosen is None:
        return None
    for victim in chosen[::-1][:MAX_SPARED]:
        others = [other for other in chosen if other is not victim]
        if _fits_without(snapshot, demand, others) is not None:
            chosen = others
    plan = _fits_without(snapshot, demand, chosen)
    return None if plan is None or not chosen else Preemption(plan, tuple(chosen))


def _in_one_domain(
    snapshot: Snapshot,
    demand: Demand,
    victims: Sequence[Victim],
    allowed: Mapping[Key, int],
    chosen: list[Victim] | None,
) -> tuple[Demand, list[Victim] | None]:
    """The demand within the domain that is cleared, and the victims in it."""
    plan = _fits_without(snapshot, demand, chosen) if chosen is not None else None
    if plan is not None:
        # Victims elsewhere, which came first by harm, are spared.
        inside = domain_search.around(snapshot, demand, plan)
        return inside, _enough(snapshot, inside, victims, allowed) or chosen
    if any(victim.budgets for victim in victims):
        # Budgets over several domains were spent on one that needs more than they allow.
        with snapshot.trial(demand.room) as trial:
            trial.remove_slots((*demand.holds, *_slots(victims)))
            demands = list(islice(domain_search.narrowed(trial, demand), MAX_DOMAINS))
        for inside in demands:
            chosen = _enough(snapshot, inside, victims, allowed)
            if chosen is not None:
                return inside, chosen
    return demand, None


def _enough(
    snapshot: Snapshot, demand: Demand, victims: Sequence[Victim], allowed: Mapping[Key, int]
) -> list[Victim] | None:
    """The shortest run of victims, the least harmful first, without which the gang fits."""
    every = sorted(_useful(snapshot, demand, victims), key=lambda victim: victim.harm)
    best = _fits_without(snapshot, demand, every)
    if best is None:
        return None
    useful = _affordable(every, allowed, {placement.node for placement in best.placements})
    if len(useful) < len(every) and _fits_without(snapshot, demand, useful) is None:
        return None
    fewest = bisect_left(
        range(len(useful)),
        True,
        key=lambda n: _fits_without(snapshot, demand, useful[:n]) is not None,
    )
    return useful[:fewest]


def _fits_without(snapshot: Snapshot, demand: Demand, victims: Sequence[Victim]) -> Plan | None:
    result = place(snapshot, replace(demand, holds=(*demand.holds, *_slots(victims))))
    return result if isinstance(result, Plan) else None


def _slots(victims: Iterable[Victim]) -> Iterable[Slot]:
    # A slot can be in two victims: as surplus by itself, and in its whole gang.
    return {slot.uid: slot for victim in victims for slot in victim.slots}.values()


def _affordable(
    victims: Sequence[Victim], allowed: Mapping[Key, int], nodes: Container[str]
) -> list[Victim]:
    """The victims that budgets allow together; spent first on the nodes where they would help."""
    left, chosen = dict(allowed), set()
    spent: set[tuple[Key, str]] = set()
    helpful = sorted(victims, key=lambda victim: not any(s.node in nodes for s in victim.slots))
    for victim in helpful:
        price = Counter(key for key, _ in {*victim.budgets} - spent)
        if all(left.get(key, 0) >= n for key, n in price.items()):
            chosen.add(id(victim))
            spent.update(victim.budgets)
            for key, n in price.items():
                left[key] -= n
    return [victim for victim in victims if id(victim) in chosen]


def _useful(snapshot: Snapshot, demand: Demand, victims: Iterable[Victim]) -> Iterator[Victim]:
    """The victims with room on some node that the gang could use."""
    snapshot.settle()
    usable = filters.fits_if_empty(snapshot, *(want.cls for want in demand.wants))
    if demand.reserved is not None:
        usable &= ~demand.reserved
    names = {snapshot.nodes.names[row] for row in np.flatnonzero(usable)}
    return (victim for victim in victims if any(slot.node in names for slot in victim.slots))


def _gang_victims(gang: Gang, priority: int, slots: Sequence[Slot]) -> Iterator[Victim]:
    """The victims in a gang of lower priority: its surplus one by one, then all of it.

    There are none in a gang with binds in flight: a bind cannot be called back.
    """
    if any(slot.kind is SlotKind.ASSUMED for slot in slots):
        return
    members = [slot for slot in slots if _is_running(slot)]
    terms = gang.terms or GangTerms(min=len(slots))  # undeclared: no member is surplus
    for slot in _surplus(terms, members) if not terms.evicted_whole else ():
        yield Victim(gang.key, (slot,), priority, False, _created(slot.pod))
    yield Victim(gang.key, tuple(slots), priority, True, gang.created or END_OF_TIME)


def _surplus(terms: GangTerms, members: Sequence[Slot]) -> list[Slot]:
    """Members beyond the minimum of the gang and of their role, youngest first."""
    spare = len(members) - terms.min
    by_role = count_by_role(slot.pod for slot in members)
    surplus: list[Slot] = []
    for slot in sorted(members, key=lambda s: (_created(s.pod), s.pod.metadata.name), reverse=True):
        role = role_of(slot.pod)
        if spare > len(surplus) and by_role[role] > terms.roles.get(role, 0):
            by_role[role] -= 1
            surplus.append(slot)
    return surplus


def may_be_evicted(pod: Pod) -> bool:
    """Whether evicting a pod frees room: DaemonSet and static pods come back to their node."""
    owner = pod.metadata.controller
    return owner is None or owner.kind not in ("DaemonSet", "Node")


def _may_be_victim(pod: Pod) -> bool:
    return may_be_evicted(pod) and not is_protected(pod.metadata)


def _is_protected_gang(gang: Gang, slots: Sequence[Slot]) -> bool:
    """Whether the gang, or a member, must not be evicted for others: gangs are evicted whole."""
    if gang.declared is not None and is_protected(gang.declared.metadata):
        return True
    return any(is_protected(slot.pod.metadata) for slot in slots)


def _created(pod: Pod) -> datetime:
    return pod.metadata.creation_timestamp or END_OF_TIME


def _possible_victims(view: GangView) -> Iterator[Victim]:
    """Everything of strictly lower priority, each with the disruption budgets over its pods.

    The budget that declares a gang does not protect that gang: it states a minimum, and the gang is
    evicted as a whole.
    """
    if not may_preempt(view):
        return
    index, ours = view.known.index, view.priority
    by_gang: dict[GangKey, list[Slot]] = {}
    for slot in view.known.snapshot.slots.values():
        key = slot.owner if slot.kind is SlotKind.HOLD else index.of_pod.get(slot.uid)
        if key is not None:
            by_gang.setdefault(key, []).append(slot)
        elif slot.priority < ours and _is_running(slot) and _may_be_victim(slot.pod):
            key, created = single_pod_gang(slot.pod), _created(slot.pod)
            yield _under_budgets(index, Victim(key, (slot,), slot.priority, True, created))
    for key, slots in by_gang.items():
        other = index.gangs.get(key)
        if other is None or key == view.key or index.priority(other) >= ours:
            continue
        if _is_protected_gang(other, slots):
            continue
        for victim in _gang_victims(other, index.priority(other), slots):
            yield _under_budgets(index, victim)


def may_preempt(view: GangView) -> bool:
    """Whether anything at all has a lower priority."""
    known = view.known
    pods, classes = known.snapshot.priorities, known.index.class_values()
    return known.settings.preempt and view.priority > min((known.lowest_priority, *pods, *classes))


def with_evictions(view: GangView, parked: Parked) -> Parked:
    """The rest of a gang that does not fit, with the events after which it could evict others."""
    if not view.known.settings.preempt:
        return parked
    wakes, below = parked.wakes | Wake.EVICTABLE, None
    if may_preempt(view):
        below = view.priority
        wakes |= Wake.BUDGETS | (Wake.BOUND if _has_binds_below(view, below) else Wake.NONE)
    return replace(parked, wakes=wakes, evicts_below=below)


def _has_binds_below(view: GangView, priority: int) -> bool:
    """Whether gangs of lower priority have binds in flight: such gangs cannot be evicted yet."""
    index = view.known.index
    keys = {index.of_pod[uid] for uid in view.known.assumed if uid in index.of_pod}
    return any(index.priority(index.gangs[key]) < priority for key in keys & index.gangs.keys())


def _is_running(slot: Slot) -> bool:
    return slot.kind is SlotKind.POD and not slot.terminating


def _under_budgets(index: GangIndex, victim: Victim) -> Victim:
    budgets = tuple(
        (key, slot.uid)
        for slot in victim.slots
        if _is_running(slot)
        for key in index.budgets_over(slot.pod, but=victim.gang)
    )
    return replace(victim, budgets=budgets) if budgets else victim


def _disruptions_left(view: GangView) -> dict[Key, int]:
    """How many evictions each budget still allows: its status does not show our latest ones yet."""
    index, slots = view.known.index, view.known.snapshot.slots
    left = index.allowed()
    if not left:
        return left
    others = (r.phase for key, r in view.known.records.items() if key != view.key)
    phases = [phase for phase in (view.phase, *others) if isinstance(phase, Preempting)]
    for uid in {uid for phase in phases for uid in phase.awaited} & slots.keys():
        for key in index.budgets_over(slots[uid].pod):
            left[key] -= 1
    return left


# -- for one gang ----------------------------------------------------------------------------------


def find_preemption(view: GangView, demand: Demand) -> tuple[Preemption | None, list[Key]]:
    """How to make room for a gang, or else the budgets that alone prevent it."""
    snapshot = view.known.snapshot
    pods_never = any(pod.spec.preemption_policy == "Never" for pod in view.members.pending)
    if pods_never or not view.terms.may_preempt:
        return None, []
    victims, left = list(_possible_victims(view)), _disruptions_left(view)
    preemption = preempt(snapshot, demand, victims, left)
    if preemption is not None:
        return preemption, []
    return None, _blocking_budgets(snapshot, demand, victims, left)


def _blocking_budgets(
    snapshot: Snapshot, demand: Demand, victims: Sequence[Victim], left: Mapping[Key, int]
) -> list[Key]:
    """The budgets that protect pods in whose place the gang would fit."""
    under = Counter(key for key, _ in {pair for victim in victims for pair in victim.budgets})
    spent = sorted(key for key, n in under.items() if n > left.get(key, 0))
    return spent if spent and _fits_without(snapshot, demand, victims) is not None else []


def evict(view: GangView, preemption: Preemption) -> tuple[Delete, ...]:
    """Hold the room of the plan, and delete the pods that use it and are not being deleted yet."""
    known, deletes = view.known, []
    under_way = _being_deleted(known)
    for victim in preemption.victims:
        if victim.whole and victim.gang in known.index.gangs:
            view.evicted += (victim.gang,)
        pods = tuple(s.pod for s in victim.slots if _is_running(s) and s.uid not in under_way)
        if pods:
            reader = Reader(victim.gang.namespace, known.one_user)
            why = preemption_message(reader.name_of(view.key))
            delete = Delete(victim.gang, pods, why, PREEMPTED, victim.whole, preemptor=view.key)
            deletes.append(delete)
    hold_plan(view, preemption.plan.placements)
    return tuple(deletes)


def _being_deleted(known: Known) -> set[str]:
    """The UIDs of the pods whose deletion was decided before and has not failed.

    A deletion that failed is ordered again, so that this gang too is told why.
    """
    uids: set[str] = set()
    for phase in (record.phase for record in known.records.values()):
        if isinstance(phase, Leaving | Preempting):
            uids |= phase.awaited - phase.failed_deletions.keys()
    return uids
