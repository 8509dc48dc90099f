"""A gang that does not fit: evict for it, repair it, release it, or let it wait and say why.

Members that no node could ever run (a claim that does not exist, an unsupported resource claim) are
named and left out; the others are placed without them if the minimum allows it.

Kept apart because a reader who asks why a gang waits looks here; with it, `gang_decision` would
exceed 600 lines.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from muster.contract.gang_dialects import SINGLE_POD
from muster.scheduler.cluster.pod_class import parse_resources
from muster.scheduler.decisions import gang_deletion, preemption, reasons, starvation
from muster.scheduler.decisions.decision import Delete, GangView, Verdict
from muster.scheduler.gangs import phase
from muster.scheduler.gangs.holds import holds_on
from muster.scheduler.gangs.members import missing_pods
from muster.scheduler.gangs.waiting_line import Parked, Wake
from muster.scheduler.placement import filters

if TYPE_CHECKING:
    from kubekit.objects.core import Pod
    from muster.scheduler.decisions.reasons import Reason
    from muster.scheduler.placement.demand import Demand, Unplaced


def handle_unplaced(view: GangView, demand: Demand, result: Unplaced) -> Verdict:
    """Decide about a gang whose trial failed."""
    parked, current = park(view, demand, result), view.phase
    parked = preemption.with_evictions(view, parked)
    deletes: tuple[Delete, ...] = ()
    if not (isinstance(current, phase.Preempting) and current.awaited):
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
        current = phase.Preempting(phase.standing(current), eviction.pods)
    if not current.awaited:  # only holds were in the way: try again at once
        return Verdict(replace(parked, until=view.now), deletes, current)
    failed = gang_deletion.failed_deletions(current)
    parked = replace(parked, reason=reasons.preempting(failed))
    return Verdict(starvation.keep_if_starving(view, demand, parked), deletes, current)


def _wait(view: GangView, demand: Demand, result: Unplaced, parked: Parked) -> Verdict:
    if view.started:
        return gang_deletion.repair_or_release(view, parked)
    parked = starvation.keep_if_starving(view, demand, parked)
    return Verdict(parked, (), phase.standing(view.phase))


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
    return Parked(_reason(view, result), wakes, classes)


def _reason(view: GangView, result: Unplaced) -> Reason:
    """Why a trial failed, with the gangs for which helpful room is held or kept."""
    snapshot, kept = view.known.snapshot, view.known.kept
    reason = reasons.unplaced(result, len(snapshot.nodes))
    if not snapshot.held_for and not view.leaves_free:
        return reason
    nodes = filters.fits_if_empty(snapshot, *(short.want.cls for short in result.short))
    if snapshot.held_for:
        held = holds_on(snapshot, nodes, dict(reason.short))
        others = {key: holds for key, holds in sorted(held.items()) if key != view.key}
        reason = reasons.with_holds(reason, others, view.known.wall_offset, view.reader)
    if view.leaves_free and kept is not None:
        useful = [row for row in snapshot.nodes.rows_of(kept.nodes) if nodes[row]]
        if useful:
            reason = reasons.with_kept_room(reason, len(useful), kept.gang, view.reader)
    return reason


def below_min_resources(view: GangView, demand: Demand) -> Reason | None:
    """Why a group waits whose minResources exceed its members' requests and are not free."""
    requested: Counter[str] = Counter()
    for want in demand.wants:
        for name, each in want.cls.requests.items():
            requested[name] += each * len(want.pods)
    snapshot, lacks = view.known.snapshot, Counter[str]()
    nodes = snapshot.nodes
    with snapshot.trial(view.room):
        for name, n in parse_resources(view.terms.min_resources).items():
            if n > requested[name]:
                free = nodes.free[snapshot.classes.column(name), nodes.ready]
                lacks[name] = n - int(free.clip(0).sum())
    lacks = +lacks
    return reasons.min_resources(lacks) if lacks else None


# -- unplaceable pods ------------------------------------------------------------------------------


@dataclass(frozen=True)
class UnplaceablePods:
    """Pods that no node could run: their UIDs, why, and the events that could help."""

    pods: frozenset[str]
    reason: Reason
    wakes: int


def find_unplaceable(view: GangView) -> UnplaceablePods | None:
    """The pending members that no node could run."""
    problem_of = view.known.snapshot.volumes.problem_of
    problems: list[tuple[Pod, str]] = []
    for pod in view.members.pending:
        unsupported = reasons.RESOURCE_CLAIMS_UNSUPPORTED if pod.spec.resource_claims else ""
        if problem := unsupported or problem_of(pod):
            problems.append((pod, problem))
    if not problems:
        return None
    pod, problem = problems[0]
    single = view.key.dialect == SINGLE_POD.name
    storage = any(problem != reasons.RESOURCE_CLAIMS_UNSUPPORTED for _, problem in problems)
    uids = frozenset(pod.metadata.uid for pod, _ in problems)
    reason = reasons.unplaceable("" if single else pod.metadata.name, problem, len(problems) - 1)
    return UnplaceablePods(uids, reason, Wake.STORAGE if storage else Wake.OWN)


def with_unplaceable(verdict: Verdict, unplaceable: UnplaceablePods) -> Verdict:
    """The verdict about the other members, with the unplaceable ones in the rest.

    The reason of members that do not fit is kept, unless it is only that members are missing.
    """
    rest = verdict.rest
    if not isinstance(rest, Parked):
        return replace(verdict, rest=Parked(unplaceable.reason, unplaceable.wakes))
    missing = rest.reason.code == reasons.NOT_ENOUGH_MEMBERS
    reason, wakes = unplaceable.reason if missing else rest.reason, rest.wakes | unplaceable.wakes
    return replace(verdict, rest=replace(rest, reason=reason, wakes=wakes))
