"""A gang that does not fit: evict for it, repair it, release it, or let it wait.

A gang of higher priority may evict. A half-bound gang looks for room a little longer and is then
released, so that it does not occupy room that it cannot use. A gang that has waited too long
starves: the nodes it could use are reserved, and closed to all gangs behind the first starving gang
in line. Members that no node could ever run (a claim that does not exist, an unsupported resource
claim) are named and left out; the others are placed without them if the minimum allows it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from muster.contract.gang_dialects import SINGLE_POD
from muster.scheduler.cluster.pod_class import parse_resources
from muster.scheduler.decisions import gang_deletion, preemption, reasons
from muster.scheduler.decisions.decision import RELEASED, Decision, Delete, GangView
from muster.scheduler.decisions.reasons import Reason
from muster.scheduler.gangs import phase
from muster.scheduler.gangs.holds import drop_holds, holds_on
from muster.scheduler.gangs.members import missing_pods
from muster.scheduler.gangs.waiting_line import Parked, Wake
from muster.scheduler.placement import domain_search, filters
from muster.scheduler.placement.demand import Plan
from muster.scheduler.placement.place import place

if TYPE_CHECKING:
    from kubekit.objects.core import Pod
    from muster.contract.gang import GangKey
    from muster.scheduler.cluster.nodes import Mask
    from muster.scheduler.gangs.waiting_line import LinePosition
    from muster.scheduler.placement.demand import Demand, Unplaced
    from muster.scheduler.state import State


CANNOT_DELETE = "partly running; not deleted, because no controller would recreate its pods"


def handle_unplaced(view: GangView, demand: Demand, result: Unplaced) -> Decision:
    """Decide about a gang whose trial failed."""
    parked, current = park(view, demand, result), view.record.phase
    parked = preemption.with_evictions(view.state, view.gang, parked)
    deletes: tuple[Delete, ...] = ()
    if not (isinstance(current, phase.Preempting) and current.victims):
        # Only members that exist may evict, and not while a bind in flight may still fail.
        if missing_pods(view) or view.members.being_bound:
            return _wait(view, demand, result, parked)
        eviction, budgets = preemption.find_preemption(view, demand)
        if eviction is None:
            if budgets:
                reason = reasons.with_budgets(parked.reason, budgets, view.reader)
                parked = replace(parked, reason=reason)
            return _wait(view, demand, result, parked)
        deletes = preemption.evict(view, eviction)
        victims = frozenset(pod.metadata.uid for delete in deletes for pod in delete.pods)
        current = phase.Preempting(phase.standing(current), victims)
    if not current.victims:  # only holds were in the way: try again at once
        return Decision(replace(parked, until=view.now), deletes, current)
    text = "waits for pods of lower priority to leave"
    text += gang_deletion.failed_deletions(current, current.victims)
    parked = replace(parked, reason=Reason(reasons.PREEMPTING, text))
    return Decision(_reserve_if_starving(view, demand, result, parked), deletes, current)


def _wait(view: GangView, demand: Demand, result: Unplaced, parked: Parked) -> Decision:
    if view.started:
        return repair_or_release(view, parked)
    parked = _reserve_if_starving(view, demand, result, parked)
    return Decision(parked, (), phase.standing(view.record.phase))


def park(view: GangView, demand: Demand, result: Unplaced) -> Parked:
    """Why a trial failed, and the events that could help."""
    classes = tuple(short.want.cls for short in result.short)
    if result.domain is not None:  # another domain may lack another class
        classes = tuple(want.cls for want in demand.wants)
    wakes = Wake.ROOM | Wake.NODES
    if not classes or not result.alone or any(cls.coupled or cls.claims for cls in classes):
        wakes |= Wake.PODS
    if any(cls.claims for cls in classes):
        wakes |= Wake.STORAGE
    return Parked(_reason(view, demand, result), wakes, classes)


def _reason(view: GangView, demand: Demand, result: Unplaced) -> Reason:
    """Why a trial failed, with the gangs for which helpful room is held or reserved."""
    state = view.state
    reason = reasons.unplaced(result, len(state.snapshot.nodes))
    if state.snapshot.held_for:
        nodes = filters.fits_if_empty(state.snapshot, *(short.want.cls for short in result.short))
        held = holds_on(state.snapshot, nodes)
        others = {key: holds for key, holds in sorted(held.items()) if key != view.key}
        reason = reasons.with_holds(reason, others, state.wall_offset, view.reader)
    head = starving_head(state)
    if demand.reserved is None or head is None:
        return reason
    return reasons.with_reserved(reason, int(demand.reserved.sum()), head.key, view.reader)


def below_min_resources(view: GangView, demand: Demand) -> Reason | None:
    """Why a group waits whose minResources exceed its members' requests and are not free."""
    requested: Counter[str] = Counter()
    for want in demand.wants:
        for name, each in want.cls.requests.items():
            requested[name] += each * len(want.pods)
    nodes, resources = view.state.snapshot.nodes, view.state.snapshot.classes.resources
    lacks: Counter[str] = Counter()
    for name, n in parse_resources(view.terms.min_resources).items():
        if n > requested[name]:
            column = resources.get(name, len(nodes.free))
            free = nodes.free[column : column + 1, nodes.ready]  # empty if no node has the resource
            lacks[name] = n - int(free.clip(0).sum())
    lacks = +lacks
    return reasons.min_resources(lacks) if lacks else None


# -- half-bound gangs ------------------------------------------------------------------------------


def repair_or_release(view: GangView, parked: Parked) -> Decision:
    """A half-bound gang looks for room a little longer; then its bound members are deleted."""
    current = phase.standing(view.record.phase)
    if isinstance(current, phase.Mending):
        return Decision(parked, (), current)
    current = current if isinstance(current, phase.HalfBound) else phase.HalfBound()
    if not current.undeletable:
        repair = view.state.settings.repair_seconds
        release_at = view.now + repair if current.release_at is None else current.release_at
        if view.now < release_at:
            waits = replace(parked, until=release_at)
            return Decision(waits, (), replace(current, release_at=release_at))
        why = f"half-bound and cannot be made whole: {parked.reason.text}"
        released = release(view, why)
        if released is not None:
            return released
        if view.members.being_bound:  # released once they have landed
            return Decision(parked, (), current)
        current = phase.HalfBound(undeletable=True, holds_ended=True)
    reason = replace(parked.reason.and_also(CANNOT_DELETE), short=())
    return Decision(replace(parked, reason=reason), (), current)


def release(view: GangView, why: str) -> Decision | None:
    """Delete the bound members that a controller will recreate; None if there are none (yet)."""
    drop_holds(view.state, view.key)
    names = view.state.index.names
    bound = (pod for pod in view.members.bound if pod.spec.node_name and pod.metadata.controller)
    pods = tuple(pod for pod in bound if pod.spec.scheduler_name in names)
    if pods:
        return gang_deletion.decide_deletion(view, (Delete(view.key, pods, why, RELEASED),))
    if not view.members.being_bound:
        phase.cannot_release(view.record)
    return None


# -- starving gangs --------------------------------------------------------------------------------


def starving_head(state: State) -> LinePosition | None:
    """The first in line of the gangs that have waited too long."""
    return min(map(state.place_of, state.starving), default=None)


def reserved_nodes(state: State, key: GangKey) -> Mask | None:
    """The nodes closed to this gang because they are reserved for a starving gang before it."""
    first = starving_head(state)
    if first is None or key in state.starving or state.place_of(key) <= first:
        return None
    state.snapshot.settle()
    demand, short = state.starving[first.key]
    mask = filters.fits_if_empty(state.snapshot, *short)
    return mask & domain_search.usable_nodes(state.snapshot, demand) if demand.domain else mask


def _reserve_if_starving(
    view: GangView, demand: Demand, result: Unplaced, parked: Parked
) -> Parked:
    """After a long wait, reserve the nodes this gang could use.

    Only if it would fit an empty cluster: an impossible gang must not block the others.
    """
    state, since = view.state, view.record.rest.since
    if view.started:
        return parked
    due = (view.now if since is None else since) + state.settings.starvation_after
    if view.now < due:
        return replace(parked, until=due)
    if _never_fits(view, demand):
        state.stop_starving(view.key)
        return parked
    state.starving[view.key] = demand, tuple(short.want.cls for short in result.short)
    if demand.reserved is not None:  # closed to it until now: try again at once
        parked = replace(parked, until=view.now)
    return replace(parked, wakes=parked.wakes | Wake.LOST)


def _never_fits(view: GangView, demand: Demand) -> bool:
    """Whether the gang would not even fit an empty cluster; cached until nodes change."""
    snapshot, cache = view.state.snapshot, view.state.failures.hopeless
    stamp = (*snapshot.nodes.stamp, snapshot.volumes.version, snapshot.domains.version)
    wants = tuple((want.cls, len(want.pods)) for want in demand.wants)
    question = (stamp, wants, demand.domain)
    known = cache.get(view.key)
    if known is None or known[0] != question:
        slots = snapshot.slots.values()
        evictable = tuple(slot for slot in slots if preemption.may_be_evicted(slot.pod))
        result = place(snapshot, replace(demand, holds=evictable, reserved=None))
        known = cache[view.key] = (question, not isinstance(result, Plan))
    return known[1]


# -- unplaceable pods ------------------------------------------------------------------------------

RESOURCE_CLAIMS_UNSUPPORTED = "uses resourceClaims, which are not supported"


@dataclass(frozen=True)
class UnplaceablePods:
    """Pods that no node could run: their UIDs, why, and the events that could help."""

    pods: frozenset[str]
    reason: Reason
    wakes: int


def find_unplaceable(view: GangView) -> UnplaceablePods | None:
    """The pending members that no node could run."""
    problem_of = view.state.snapshot.volumes.problem_of
    problems: list[tuple[Pod, str]] = []
    for pod in view.members.pending:
        unsupported = RESOURCE_CLAIMS_UNSUPPORTED if pod.spec.resource_claims else ""
        if problem := unsupported or problem_of(pod):
            problems.append((pod, problem))
    if not problems:
        return None
    pod, problem = problems[0]
    single = view.key.dialect == SINGLE_POD.name
    text = problem if single else f"{pod.metadata.name}: {problem}"
    more = f"; and {len(problems) - 1} more" if len(problems) > 1 else ""
    storage = any(problem != RESOURCE_CLAIMS_UNSUPPORTED for _, problem in problems)
    unsupported_first = problem == RESOURCE_CLAIMS_UNSUPPORTED
    code = reasons.UNSUPPORTED if unsupported_first else reasons.NO_VOLUME
    uids = frozenset(pod.metadata.uid for pod, _ in problems)
    return UnplaceablePods(uids, Reason(code, text + more), Wake.STORAGE if storage else Wake.OWN)


def with_unplaceable(decision: Decision, unplaceable: UnplaceablePods) -> Decision:
    """The decision about the other members, with the unplaceable ones in the rest.

    The reason of members that do not fit is kept, unless it is only that members are missing.
    """
    rest = decision.rest
    if not isinstance(rest, Parked):
        return replace(decision, rest=Parked(unplaceable.reason, unplaceable.wakes))
    missing = rest.reason.code == reasons.NOT_ENOUGH_MEMBERS
    reason, wakes = unplaceable.reason if missing else rest.reason, rest.wakes | unplaceable.wakes
    return replace(decision, rest=replace(rest, reason=reason, wakes=wakes))
