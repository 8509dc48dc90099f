"""What to do about one gang: observe, decide, apply.

No await, no client; the clock is an argument. `decide` reads and changes nothing but caches. The
whole decision is written into the state at once (`decision.apply`: binds in flight occupy room,
holds begin or end), so that the next gang's decision builds on it, and is returned for the loop to
carry out.

Promises: a gang below its minimum gets binds only when all missing members were placed in one
trial; a member that dies leaves its room to its replacement; a half-bound gang that cannot be made
whole is released. A gang with pending members always has a reason, and an event or a time that will
wake it: `check_rest` looks at every decision.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from muster.contract.gang import LATE_ANNOTATION, PLACEMENT_ANNOTATION, GangTerms, topology_of
from muster.contract.gang_dialects import is_protected, role_of, unserved_mark
from muster.scheduler.decisions import (
    bind_failures,
    gang_deletion,
    reasons,
    starvation,
    unplaced_gang,
    volume_provisioning,
)
from muster.scheduler.decisions.decision import (
    Action,
    Bind,
    Decision,
    GangView,
    Known,
    Report,
    Verdict,
    apply,
)
from muster.scheduler.decisions.reasons import Reader, Reason
from muster.scheduler.gangs import holds, late_members, phase, plan_annotation
from muster.scheduler.gangs.members import (
    count_succeeded,
    find_missing,
    group_by_class,
    members_of,
    missing_pods,
    review_run,
    sort_members,
)
from muster.scheduler.gangs.phase import GangRecord
from muster.scheduler.gangs.waiting_line import Idle, InFlight, Parked, Wake
from muster.scheduler.placement.demand import Demand, DomainDemand, NodePreference, Plan, Unplaced
from muster.scheduler.placement.place import place, place_surplus

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kubekit.objects.core import Pod
    from muster.contract.gang import GangKey, Topology
    from muster.scheduler.cluster.snapshot import Hold, Placement, Slot
    from muster.scheduler.gangs.gang_index import Gang
    from muster.scheduler.gangs.members import Members
    from muster.scheduler.gangs.waiting_line import Rest
    from muster.scheduler.state import State


RETRY_AFTER_BROKEN_PROMISE = 30.0


def consider(state: State, key: GangKey, now: float) -> Decision:
    """Decide about one gang now, and write the decision; if deciding raises, nothing is changed."""
    decision = decide(known(state, now), key)
    apply(state, decision)
    return decision


def known(state: State, now: float) -> Known:
    """The parts of a state that decisions read."""
    return Known(
        now=now,
        settings=state.settings,
        one_user=state.one_user,
        wall_offset=state.wall_offset,
        snapshot=state.snapshot,
        index=state.index,
        records=state.records,
        assumed=state.assumed,
        kept=state.kept,
        place_of=state.place_of,
        lowest_priority=state.lowest_priority,
        process_id=state.process_id,
        plans=state.plans,
        events_seen=state.events_seen,
        failures=state.failures,
    )


def decide(known: Known, key: GangKey) -> Decision:
    """All that is to change about one gang now."""
    gang = known.index.gangs.get(key)
    if gang is None or (not gang.pods and gang.declared is None):
        return Decision(key, known.now, plans=known.plans)
    view, earlier_run = _view(known, gang)
    return _decision(view, _verdict(view), earlier_run)


def _view(known: Known, gang: Gang) -> tuple[GangView, frozenset[str] | None]:
    """The gang now, and the pods of its earlier run if that is over."""
    key, names = gang.key, known.index.names
    record, members = known.records.get(key) or GangRecord(), _members(known, gang)
    run, is_over = review_run(gang, members, record.run, known.now)
    earlier_run = None
    if is_over:
        earlier_run = frozenset(uid for uid, pod in gang.pods.items() if pod.finished)
        members = sort_members(gang, earlier_run, known.assumed, names)
    terms, annotations = gang.terms or GangTerms(), gang.annotations
    view = GangView(
        known=known,
        gang=gang,
        key=key,
        record=record,
        terms=terms,
        topology=topology_of(terms.topology, annotations, members.pending + members.bound),
        annotations=annotations,
        members=members,
        missing=find_missing(gang, members, run),
        started=any(pod.spec.scheduler_name in names for pod in members.bound),
        priority=known.index.priority(gang),
        now=known.now,
        reader=Reader(key.namespace, known.one_user),
        explained_at=record.rest.explained_at if isinstance(record.rest, Parked) else -math.inf,
        phase=record.phase,
        retry=record.retry,
        run=run,
        held=dict(known.snapshot.held_for.get(key, ())),
        plans=known.plans,
        keeps=known.kept if known.kept is not None and known.kept.gang == key else None,
    )
    if known.kept is not None:
        view.leaves_free = starvation.room_to_leave_free(view, known.kept)
    return view, earlier_run


def _members(known: Known, gang: Gang) -> Members:
    return members_of(gang, known.assumed, known.index.names)


def _verdict(view: GangView) -> Verdict:
    members = view.members
    leaving = gang_deletion.continue_deletion(view) if _may_be_leaving(view) else None
    if leaving is not None:
        return leaving
    if not members.ours and not view.held:
        return Verdict(Idle())
    if view.gang.terms is None:  # its pods name a group that does not exist
        view.drop_holds()
        no_group = Parked(reasons.no_group(view.key), Wake.OWN)
        return Verdict(no_group if members.pending else Idle())
    view.observed = True
    if isinstance(view.phase, phase.Unseen) and members.failed and not view.held:
        _recall_room(view)
    if phase.observe(view):
        view.drop_holds()
    if view.held and holds.review_holds(view):
        released = _holds_ended(view)
        if released is not None:
            return released
    pause = bind_failures.pause(view) if view.retry is not None else None
    return _fill(view) if pause is None else pause


def _recall_room(view: GangView) -> None:
    """Hold room again for a gang that was stopped before this process started, if there is any."""
    if not holds.all_come_back(view):
        return
    placeholders = tuple(holds.placeholders(view, missing_pods(view)))
    result = _trial(view, _demand(view, placeholders, ()))
    if not isinstance(result, Unplaced):
        _commit(view, result)
        view.phase = phase.move(view.phase, phase.Mending(interrupted=True))


def _may_be_leaving(view: GangView) -> bool:
    placed = (*view.members.bound, *view.members.leaving)
    marked = any(gang_deletion.DELETION_ANNOTATION in pod.metadata.annotations for pod in placed)
    return marked or isinstance(view.phase, phase.Leaving)


def _holds_ended(view: GangView) -> Verdict | None:
    view.phase = phase.end_holds(view.phase)
    if not holds.restarts_on_end(view.annotations):
        return None
    return gang_deletion.release(view, reasons.HOLDS_ENDED)


# -- the whole decision ----------------------------------------------------------------------------


def _decision(view: GangView, verdict: Verdict, earlier_run: frozenset[str] | None) -> Decision:
    """The decision that a verdict leads to, with the gang's record, timer and report."""
    key, record, run = view.key, view.record, view.run
    now_bound = {placement.pod.metadata.uid for placement in view.bound}
    waiting = tuple(pod for pod in view.members.pending if pod.metadata.uid not in now_bound)
    if verdict.phase is not None:
        view.phase = phase.move(view.phase, verdict.phase)
    if view.bound and run.met != view.terms.min:
        run = replace(run, met=view.terms.min)
    rest = _rest_since(view, verdict.rest)
    under_way = bool(now_bound) or (isinstance(rest, InFlight) and _awaits(view))
    problem = check_rest(rest, waiting=bool(waiting), under_way=under_way)
    if problem:
        phase.broken(f"{key}: {problem}")
        until = view.now + RETRY_AFTER_BROKEN_PROMISE
        rest = Parked(Reason(reasons.INTERNAL, problem), Wake.ALL, until=until, since=view.now)
    # The gang is due when a hold runs out, a replacement is no longer expected, or its rest ends.
    ends = [slot.hold.until for slot in view.held.values() if slot.hold]
    ends += [until for until in run.expects if until > view.now]
    ends += [rest.until] if rest.until is not None else []
    may_keep = isinstance(rest, Parked) and rest.wakes & Wake.NODES
    last, report = record.last_report, _report(view, rest.reason, waiting)
    # Fewer waiting pods need no new report: the pods that still wait have the same reason.
    same = report.reason == last.reason and report.counts == last.counts
    is_news = not (same and report.pods <= last.pods)
    declared = view.gang.declared
    protected = declared is not None and is_protected(declared.metadata)
    return Decision(
        gang=key,
        at=view.now,
        record=GangRecord(
            phase=view.phase,
            retry=view.retry,
            run=run,
            rest=rest,
            last_report=report,
            evictable_above=math.inf if protected else view.priority,
        ),
        actions=(*verdict.actions, Report(key, rest.reason)) if is_news else verdict.actions,
        timer=min(ends, default=None),
        held=view.held if view.held_changed else None,
        bound=view.bound,
        chosen=view.chosen,
        evicted=view.evicted,
        earlier_run=earlier_run,
        keeps=view.keeps if may_keep else None,
        priority=view.priority,
        plans=view.plans,
    )


def _rest_since(view: GangView, rest: Rest) -> Rest:
    """The rest, with the time since when the gang has waited."""
    if isinstance(rest, Parked):
        return replace(rest, since=view.since, explained_at=view.explained_at)
    if isinstance(rest, InFlight) and view.retry is not None and view.retry.failures:
        return replace(rest, since=view.record.rest.since)
    return rest


def _awaits(view: GangView) -> bool:
    """Whether binds in flight, or deletions, will make the gang due."""
    awaited = view.phase.awaited if isinstance(view.phase, phase.Leaving) else frozenset[str]()
    return any(uid in view.known.assumed or uid in awaited for uid in view.gang.pods)


def check_rest(rest: Rest, *, waiting: bool, under_way: bool) -> str:
    """The problem of a rest, if any: pending members must have a reason and be woken."""
    if not waiting:
        return ""
    if isinstance(rest, Idle):
        return "members wait and the gang is idle"
    if isinstance(rest, InFlight):
        return "" if under_way else "members wait for binds, and none is in flight"
    if not rest.reason.text:
        return "members wait without a reason"
    own_change = rest.reason.code in reasons.ENDED_BY_OWN_CHANGE
    wakes = rest.wakes & ~Wake.OWN or rest.until is not None or own_change
    return "" if wakes else f"members wait and nothing will wake them: {rest.reason.text}"


def _report(view: GangView, reason: Reason | None, waiting: Sequence[Pod]) -> phase.LastReport:
    """What is to be reported: why which pods wait, and the counts in the group's status."""
    last = view.record.last_report
    pods = frozenset(pod.metadata.uid for pod in waiting) if reason is not None else frozenset()
    counts = last.counts
    if view.observed and not view.gang.label_only:
        members = view.members
        whole, succeeded = not view.missing.total, count_succeeded(view.gang, members, view.run)
        counts = (view.started, whole, members.running, succeeded, len(members.failed))
    return phase.LastReport(reason, pods, counts)


# -- placing ---------------------------------------------------------------------------------------


def _fill(view: GangView) -> Verdict:
    """Place missing members, then surplus; members that no node could ever run are left out."""
    pending = view.members.pending
    unserved = _unserved(view) if pending else None
    if unserved is not None:
        return Verdict(Parked(unserved, Wake.OWN))
    # Only claims make a pod unplaceable: most gangs have none, and skip the check of each pod.
    if any(pod.spec.needs_storage or pod.spec.resource_claims for pod in pending):
        unplaceable = unplaced_gang.find_unplaceable(view)
        if unplaceable is not None:
            placeable = [pod for pod in pending if pod.metadata.uid not in unplaceable.pods]
            everyone = view.members
            view.members = replace(everyone, pending=tuple(placeable))
            verdict = _fill_placeable(view)
            view.members = everyone
            return unplaced_gang.with_unplaceable(verdict, unplaceable)
    return _fill_placeable(view)


def _unserved(view: GangView) -> Reason | None:
    """A required field that is not served, or a required topology that names no labels."""
    classes, pending = view.known.snapshot.classes, view.members.pending
    marks = (unserved_mark(pod) or classes.of(pod).excess for pod in pending)
    field = view.terms.unserved or next(filter(None, marks), "")
    if field:
        return reasons.unserved(field)
    invalid = view.topology.invalid if view.topology is not None else ""
    return reasons.invalid_topology(invalid) if invalid else None


def _fill_placeable(view: GangView) -> Verdict:
    pending, missing = view.members.pending, view.missing
    if not missing.total:
        if pending and view.members.being_bound and not phase.was_whole(view.phase):
            # Surplus bound now could stay with half of the minimum: after a restart nobody could
            # tell such a gang from one that was whole and lost a member.
            return Verdict(_in_flight(view))
        return _surplus(view) if pending else Verdict(Idle())
    if not pending and not view.started:
        return Verdict(Idle())
    absent = missing_pods(view)
    if not absent:
        return _place(view, pending)
    # Some members have no pod yet. A gang that runs holds room for them, by placeholders.
    if not view.started or phase.holds_ended(view.phase) or holds.holds_will_follow(view):
        too_few = reasons.too_few(view.terms, view.members, absent)
        return Verdict(Parked(too_few, Wake.OWN) if pending else Idle())
    if holds.exceeds_last_minimum(view) or holds.exceeds_cluster(view, absent):
        too_few = reasons.too_few(view.terms, view.members, absent)
        return gang_deletion.repair_or_release(view, Parked(too_few, Wake.NODES))
    placeholders = tuple(holds.placeholders(view, absent))
    if not pending and len(placeholders) <= len(view.held):
        return Verdict(Idle())
    return _place(view, (*pending, *placeholders))


def _place(view: GangView, pods: tuple[Pod, ...]) -> Verdict:
    demand = _demand(view, pods, view.holds())
    if view.terms.min_resources and not view.started:
        short = unplaced_gang.below_min_resources(view, demand)
        if short is not None:
            return Verdict(Parked(short, Wake.NODES | Wake.PODS))
    result = _trial(view, demand)
    if isinstance(result, Unplaced):
        return unplaced_gang.handle_unplaced(view, demand, result)
    if any(want.cls.claims for want in demand.wants):
        verdict = volume_provisioning.wait_for_volumes(view, result)
        if verdict is not None:
            return verdict
    return _bind(view, result)


def _trial(view: GangView, demand: Demand) -> Plan | Unplaced:
    """The result of a trial; not tried if known to fail and the gang's reason is recent."""
    known, failures = view.known, view.known.failures
    exact = view.now >= view.explained_at + known.settings.report_every
    if failures.known:
        failure = failures.find(demand, known.events_seen, known.snapshot, exact=exact)
        if failure is not None:
            view.explained_at = view.now if exact else view.explained_at
            return failure
    view.explained_at = view.now
    result = place(known.snapshot, demand)
    if isinstance(result, Unplaced):
        failures.add(demand, known.events_seen, result, known.snapshot)
    return result


def _demand(view: GangView, pods: tuple[Pod, ...], held: tuple[Slot, ...]) -> Demand:
    known, comes_late = view.known, LATE_ANNOTATION in view.annotations and not view.started
    late = late_members.by_role(view) if comes_late else {}
    domain = None
    if view.topology is not None:
        domain = _domain_demand(view, view.topology, held)
    return Demand(
        wants=group_by_class(known.snapshot.classes, (*pods, *late.values())),
        need=view.missing.total + len(late),
        roles={**view.missing.roles, **dict.fromkeys(late, 1)},
        holds=held,
        used_nodes=tuple(sorted({pod.spec.node_name for pod in view.members.bound} - {""})),
        preference=_preference(view),
        domain=domain,
        room=view.room,
    )


def _domain_demand(view: GangView, topology: Topology, held: Iterable[Slot]) -> DomainDemand:
    """The domain for the members to come, given the members that have or get a node.

    Nothing is remembered: the nodes of the members tell the domain, even after a restart of the
    scheduler, or if the topology changes while members run. Nobody is moved then; only the
    members to come are placed by the new topology.
    """
    assumed = view.known.assumed
    nodes = {pod.spec.node_name or assumed.get(pod.metadata.uid, "") for pod in view.members.bound}
    held_nodes = {slot.node for slot in held}
    return DomainDemand(topology, tuple(sorted(nodes - {""})), tuple(sorted(held_nodes)))


def _with_placements(
    domain: DomainDemand | None, placements: Iterable[Placement]
) -> DomainDemand | None:
    """The domain after more members were placed."""
    if domain is None:
        return None
    nodes = {*domain.members, *(placement.node for placement in placements)}
    return replace(domain, members=tuple(sorted(nodes)))


def _preference(view: GangView) -> NodePreference:
    """How to choose nodes for this gang: by its own annotation, else by the settings."""
    settings = view.known.settings
    pods = (pod.metadata.annotations for pod in view.members.pending[:1])
    annotated = (annotations.get(PLACEMENT_ANNOTATION) for annotations in (view.annotations, *pods))
    placement = next(filter(None, annotated), settings.placement)
    return NodePreference(settings.weights, settings.rack_label, placement == "spread")


# -- binding ---------------------------------------------------------------------------------------


def _bind(view: GangView, plan: Plan) -> Verdict:
    """Carry out a plan for the minimum; after one of placeholders alone, try the surplus."""
    resumes = phase.standing(view.phase)
    binds = _commit(view, plan, view.drop_holds())
    if not binds:
        return _surplus(view) if view.members.pending else Verdict(Idle())
    if not view.started:
        resumes = phase.Waiting()
    elif isinstance(resumes, phase.HalfBound) and view.retry is None:
        resumes = replace(resumes, release_at=None)
    return Verdict(_in_flight(view), binds, phase.Binding(resumes))


def _in_flight(view: GangView) -> InFlight:
    return InFlight(bind_failures.reason(view) if view.retry is not None else None)


def _commit(view: GangView, plan: Plan, former: Sequence[Hold] = ()) -> tuple[Action, ...]:
    """Occupy the room of a plan; returns the binds, none if all are placeholders."""
    real: list[Placement] = []
    placeholders: list[Placement] = []
    for placement in plan.placements:
        is_placeholder = placement.pod.metadata.uid.startswith(holds.PLACEHOLDER)
        (placeholders if is_placeholder else real).append(placement)
    if placeholders:
        holds.hold_placeholders(view, placeholders, former, late_members.by_role(view))
    if not real:
        return ()
    view.bound += tuple(real)
    view.plans += 1
    plan_id = f"{view.known.process_id}-{view.plans}"
    # Size 0 tells a restarted scheduler that the gang has been whole: it is mended, not released.
    was_whole = phase.was_whole(view.phase)
    size = 0 if was_whole else len(view.members.bound) + view.missing.total
    mark = plan_annotation.write(plan_id, size, [p.pod.metadata.uid for p in real])
    mends = view.started and bool(view.missing.total)
    pairs = tuple((p.pod, p.node) for p in real)
    return (Bind(view.key, plan_id, pairs, mark, view.now, mends),)


def _surplus(view: GangView) -> Verdict:
    """Bind members beyond the minimum, late ones first, as many as fit; the others wait."""
    snapshot, pods = view.known.snapshot, view.members.pending
    held: tuple[Slot, ...] = ()
    if view.held:
        held = late_members.rooms(view)
        late = {slot.hold.late for slot in held if slot.hold is not None}
        pods = tuple(sorted(pods, key=lambda pod: role_of(pod) not in late))
    demand = _demand(view, pods, held)
    plan = place_surplus(snapshot, demand)
    actions, parked = _bind_surplus(view, plan, held)
    placed = {p.pod.metadata.uid for p in plan.placements}
    left = tuple(pod for pod in pods if pod.metadata.uid not in placed)
    if left:
        # A second trial says why the others do not fit, or finds that they fit in another order.
        held = () if placed else held
        demand = replace(
            demand,
            wants=group_by_class(snapshot.classes, left),
            need=len(left),
            roles={},
            holds=held,
            domain=_with_placements(demand.domain, plan.placements),
            room=view.room,
        )
        result = place(snapshot, demand)
        if isinstance(result, Unplaced):
            short = unplaced_gang.park(view, demand, result)
            wakes = short.wakes | (parked.wakes if parked is not None else Wake.NONE)
            return Verdict(replace(short, wakes=wakes), actions)
        more, later = _bind_surplus(view, result, held)
        actions, parked = (*actions, *more), later or parked
    return Verdict(_in_flight(view) if parked is None else parked, actions)


def _bind_surplus(
    view: GangView, plan: Plan, held: tuple[Slot, ...]
) -> tuple[tuple[Action, ...], Parked | None]:
    """Bind the pods that wait for no volume; the others are tried again once theirs are bound."""
    if not plan.placements:
        return (), None
    for slot in held:
        view.drop_hold(slot)
    if not any(p.cls.claims for p in plan.placements):
        return _commit(view, plan), None
    ready, choices, actions = volume_provisioning.split_ready(view, plan.placements)
    parked = Parked(reasons.provisioning(len(choices)), Wake.STORAGE) if choices else None
    return (*(_commit(view, Plan(ready)) if ready else ()), *actions), parked
