"""What to do about one gang: observe, decide, apply.

No await, no client; the clock is an argument. `consider` decides about one gang. Its decision is
recorded in the state at once (binds in flight occupy room, holds begin or end), so that the next
gang's decision builds on it, and is returned for the loop to carry out.

Promises: a gang below its minimum gets binds only when all missing members were placed in one
trial; a member that dies leaves its room to its replacement; a half-bound gang that cannot be made
whole is released. A gang with pending members always has a reason, and an event or a time that will
wake it: `apply` checks that after every decision.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from muster.contract.gang import LATE_ANNOTATION, PLACEMENT_ANNOTATION, GangTerms, topology_of
from muster.contract.gang_dialects import role_of, unserved_mark
from muster.scheduler.decisions import (
    bind_failures,
    gang_deletion,
    gang_domain,
    reasons,
    shortage,
    volume_provisioning,
)
from muster.scheduler.decisions.decision import Action, Bind, Decision, Delete, GangView, Report
from muster.scheduler.decisions.reasons import Reader, Reason
from muster.scheduler.gangs import holds, phase, plan_annotation
from muster.scheduler.gangs.members import (
    count_succeeded,
    find_missing,
    group_by_class,
    missing_pods,
    review_run,
)
from muster.scheduler.gangs.waiting_line import Idle, InFlight, Parked, Wake
from muster.scheduler.placement.demand import Demand, NodePreference, Plan, Unplaced
from muster.scheduler.placement.place import place, place_surplus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubekit.objects.core import Pod
    from muster.contract.gang import GangKey
    from muster.scheduler.cluster.snapshot import Hold, Placement, Slot
    from muster.scheduler.gangs.gang_index import Gang
    from muster.scheduler.gangs.waiting_line import Rest
    from muster.scheduler.state import State

RETRY_AFTER_BROKEN_PROMISE = 30.0


def consider(state: State, key: GangKey, now: float) -> Decision:
    """Decide about one gang now; if that raises, the state is as before."""
    state.now = now
    gang = state.index.gangs.get(key)
    if gang is None or (not gang.pods and gang.declared is None):
        state.forget(key)
        return Decision(Idle())
    with state.decision(key):
        review_run(state, gang, now)
        view = _view(state, gang, now)
        return apply(view, _decide(view))


def _view(state: State, gang: Gang, now: float) -> GangView:
    record, members, names = state.record(gang.key), state.members(gang), state.index.names
    terms, annotations = gang.terms or GangTerms(), gang.annotations
    return GangView(
        state=state,
        gang=gang,
        key=gang.key,
        record=record,
        terms=terms,
        topology=topology_of(terms.topology, annotations, members.pending + members.bound),
        annotations=annotations,
        members=members,
        missing=find_missing(state, gang),
        started=any(pod.spec.scheduler_name in names for pod in members.bound),
        now=now,
        explained_at=record.rest.explained_at if isinstance(record.rest, Parked) else -math.inf,
        reader=Reader(gang.key.namespace, state.one_user),
    )


def _decide(view: GangView) -> Decision:
    state, record, members = view.state, view.record, view.members
    leaving = gang_deletion.continue_deletion(view) if _may_be_leaving(view) else None
    if leaving is not None:
        return leaving
    if not members.ours and view.key not in state.snapshot.held_for:
        return Decision(Idle())
    if view.gang.terms is None:  # its pods name a group that does not exist
        holds.drop_holds(state, view.key)
        no_group = Parked(reasons.no_group(view.key), Wake.OWN)
        return Decision(no_group if members.pending else Idle())
    view.observed = True
    if phase.observe(view):
        holds.drop_holds(state, view.key)
    if view.key in state.snapshot.held_for and holds.review_holds(view):
        released = _holds_ended(view)
        if released is not None:
            return released
    pause = bind_failures.pause(view) if record.retry is not None else None
    return _fill(view) if pause is None else pause


def _may_be_leaving(view: GangView) -> bool:
    placed = (*view.members.bound, *view.members.leaving)
    marked = any(gang_deletion.DELETION_ANNOTATION in pod.metadata.annotations for pod in placed)
    return marked or isinstance(view.record.phase, phase.Leaving)


def _holds_ended(view: GangView) -> Decision | None:
    phase.end_holds(view.record)
    if not holds.restarts_on_end(view.annotations):
        return None
    return shortage.release(view, "the room held for its missing members has run out")


# -- applying --------------------------------------------------------------------------------------


def apply(view: GangView, decision: Decision) -> Decision:
    """Record a decision: its phase, rest and timer."""
    state, key, record = view.state, view.key, view.record
    state.review_priority(view.gang)
    if decision.phase is not None:
        phase.move(record, decision.phase)
    for action in decision.actions:
        if isinstance(action, Delete) and action.whole and action.gang != key:
            gang_deletion.begin_deletion(state, action)
    rest = _rest_since(view, decision.rest)
    problem = check_rest(state, view.gang, rest)
    if problem:
        phase.broken(f"{key}: {problem}")
        until = view.now + RETRY_AFTER_BROKEN_PROMISE
        rest = Parked(Reason(reasons.INTERNAL, problem), Wake.ALL, until=until, since=view.now)
    # The gang is due when a hold runs out, a replacement is no longer expected, or its rest ends.
    ends = [slot.hold.until for slot in state.snapshot.held_for.get(key, {}).values() if slot.hold]
    ends += [until for until in record.run.expects if until > view.now]
    ends += [rest.until] if rest.until is not None else []
    state.rest(key, rest, min(ends, default=None))
    record.errors = 0
    if key in state.starving and not (isinstance(rest, Parked) and rest.wakes & Wake.NODES):
        state.stop_starving(key)
    return Decision(rest, (*decision.actions, *_report(view)), record.phase)


def _rest_since(view: GangView, rest: Rest) -> Rest:
    """The rest, with the time since when the gang has waited."""
    before, retry = view.record.rest.since, view.record.retry
    if isinstance(rest, Parked):
        since = view.now if before is None else before
        return replace(rest, since=since, explained_at=view.explained_at)
    if isinstance(rest, InFlight) and retry is not None and retry.failures:
        return replace(rest, since=before)
    return rest


def check_rest(state: State, gang: Gang, rest: Rest) -> str:
    """The problem of a rest, if any: pending members must have a reason and be woken."""
    if not state.members(gang).pending:
        return ""
    if isinstance(rest, Idle):
        return "members wait and the gang is idle"
    if isinstance(rest, InFlight):
        current = state.record(gang.key).phase
        awaited = current.pods if isinstance(current, phase.Leaving) else frozenset[str]()
        under_way = any(uid in state.assumed or uid in awaited for uid in gang.pods)
        return "" if under_way else "members wait for binds, and none is in flight"
    if not rest.reason.text:
        return "members wait without a reason"
    own_change = rest.reason.code in reasons.ENDED_BY_OWN_CHANGE
    wakes = rest.wakes & ~Wake.OWN or rest.until is not None or own_change
    return "" if wakes else f"members wait and nothing will wake them: {rest.reason.text}"


def _report(view: GangView) -> tuple[Action, ...]:
    """A report if the reason, the pods that wait, or the counts in the group's status changed."""
    last, reason = view.record.last_report, view.record.rest.reason
    pending = view.state.members(view.gang).pending if reason is not None else ()
    pods = frozenset(pod.metadata.uid for pod in pending)
    counts = last.counts
    if view.observed and not view.gang.label_only:
        members = view.members
        whole, succeeded = not view.missing.total, count_succeeded(view.state, view.gang)
        counts = (view.started, whole, members.running, succeeded, len(members.failed))
    # Fewer waiting pods need no new report: the pods that still wait have the same reason.
    same = reason == last.reason and pods <= last.pods and counts == last.counts
    view.record.last_report = phase.LastReport(reason, pods, counts)
    return () if same else (Report(view.key, reason),)


# -- placing ---------------------------------------------------------------------------------------


def _fill(view: GangView) -> Decision:
    """Place missing members, then surplus; members that no node could ever run are left out."""
    pending = view.members.pending
    unserved = _unserved(view) if pending else None
    if unserved is not None:
        return Decision(Parked(unserved, Wake.OWN))
    # Only claims make a pod unplaceable: most gangs have none, and skip the check of each pod.
    if any(pod.spec.needs_storage or pod.spec.resource_claims for pod in pending):
        unplaceable = shortage.find_unplaceable(view)
        if unplaceable is not None:
            placeable = [pod for pod in pending if pod.metadata.uid not in unplaceable.pods]
            others = replace(view, members=replace(view.members, pending=tuple(placeable)))
            decision = _fill_placeable(others)
            view.explained_at = others.explained_at
            return shortage.with_unplaceable(decision, unplaceable)
    return _fill_placeable(view)


def _unserved(view: GangView) -> Reason | None:
    """A required field that is not served, or a required topology that names no labels."""
    marks = map(unserved_mark, view.members.pending)
    field = view.terms.unserved or next(filter(None, marks), "")
    if field:
        return reasons.unserved(field)
    invalid = view.topology.invalid if view.topology is not None else ""
    return reasons.invalid_topology(invalid) if invalid else None


def _fill_placeable(view: GangView) -> Decision:
    pending, missing = view.members.pending, view.missing
    if not missing.total:
        return _surplus(view) if pending else Decision(Idle())
    if not pending and not view.started:
        return Decision(Idle())
    absent = missing_pods(view)
    if not absent:
        return _place(view, pending)
    # Some members have no pod yet. A gang that runs holds room for them, by placeholders.
    if not view.started or phase.holds_ended(view.record.phase) or holds.holds_will_follow(view):
        too_few = reasons.too_few(view.terms, view.members, absent)
        return Decision(Parked(too_few, Wake.OWN) if pending else Idle())
    if holds.exceeds_last_minimum(view) or holds.exceeds_cluster(view, absent):
        too_few = reasons.too_few(view.terms, view.members, absent)
        return shortage.repair_or_release(view, Parked(too_few, Wake.NODES))
    placeholders = tuple(holds.placeholders(view, absent))
    if not pending and len(placeholders) <= len(view.state.snapshot.held_for.get(view.key, ())):
        return Decision(Idle())
    return _place(view, (*pending, *placeholders))


def _place(view: GangView, pods: tuple[Pod, ...]) -> Decision:
    held = view.key in view.state.snapshot.held_for
    own = holds.holds_of(view.state.snapshot, view.key) if held else ()
    demand = _demand(view, pods, own)
    if view.terms.min_resources and not view.started:
        short = shortage.below_min_resources(view, demand)
        if short is not None:
            return Decision(Parked(short, Wake.NODES | Wake.PODS))
    result = _trial(view, demand)
    if isinstance(result, Unplaced):
        return shortage.handle_unplaced(view, demand, result)
    if any(want.cls.claims for want in demand.wants):
        decision = volume_provisioning.wait_for_volumes(view, result)
        if decision is not None:
            return decision
    return _bind(view, result)


def _trial(view: GangView, demand: Demand) -> Plan | Unplaced:
    """The result of a trial; not tried if known to fail and the gang's reason is recent."""
    state, failures = view.state, view.state.failures
    exact = view.now >= view.explained_at + state.settings.report_every
    if failures.known:
        known = failures.find(demand, state.events_seen, state.snapshot, exact=exact)
        if known is not None:
            view.explained_at = view.now if exact else view.explained_at
            return known
    view.explained_at = view.now
    result = place(state.snapshot, demand)
    if isinstance(result, Unplaced):
        failures.add(demand, state.events_seen, result, state.snapshot)
    return result


def _demand(view: GangView, pods: tuple[Pod, ...], held: tuple[Slot, ...]) -> Demand:
    state, comes_late = view.state, LATE_ANNOTATION in view.annotations and not view.started
    late = holds.late_members(view) if comes_late else {}
    domain = None
    if view.topology is not None:
        domain = gang_domain.domain_demand(view, view.topology, held)
    return Demand(
        wants=group_by_class(state, (*pods, *late.values())),
        need=view.missing.total + len(late),
        roles={**view.missing.roles, **dict.fromkeys(late, 1)},
        holds=held,
        used_nodes=tuple(sorted({pod.spec.node_name for pod in view.members.bound} - {""})),
        reserved=shortage.reserved_nodes(state, view.key) if state.starving else None,
        preference=_preference(view),
        domain=domain,
    )


def _preference(view: GangView) -> NodePreference:
    """How to choose nodes for this gang: by its own annotation, else by the settings."""
    settings = view.state.settings
    pods = (pod.metadata.annotations for pod in view.members.pending[:1])
    annotated = (annotations.get(PLACEMENT_ANNOTATION) for annotations in (view.annotations, *pods))
    placement = next(filter(None, annotated), settings.placement)
    return NodePreference(settings.weights, settings.rack_label, placement == "spread")


# -- binding ---------------------------------------------------------------------------------------


def _bind(view: GangView, plan: Plan) -> Decision:
    """Carry out a plan for the minimum; after one of placeholders alone, try the surplus."""
    held = view.key in view.state.snapshot.held_for
    resumes = phase.standing(view.record.phase)
    former = holds.drop_holds(view.state, view.key) if held else []
    binds = _commit(view, plan, former)
    if not binds:
        return _surplus(view) if view.members.pending else Decision(Idle())
    if not view.started:
        resumes = phase.Waiting()
    elif isinstance(resumes, phase.HalfBound) and view.record.retry is None:
        resumes = replace(resumes, release_at=None)
    return Decision(_in_flight(view), binds, phase.Binding(resumes))


def _in_flight(view: GangView) -> InFlight:
    return InFlight(bind_failures.reason(view) if view.record.retry is not None else None)


def _commit(view: GangView, plan: Plan, former: Sequence[Hold] = ()) -> tuple[Action, ...]:
    """Occupy the room of a plan now; returns the binds, none if all are placeholders."""
    state = view.state
    real: list[Placement] = []
    placeholders: list[Placement] = []
    for placement in plan.placements:
        is_placeholder = placement.pod.metadata.uid.startswith(holds.PLACEHOLDER)
        (placeholders if is_placeholder else real).append(placement)
    if placeholders:
        holds.hold_placeholders(view, placeholders, former)
    if not real:
        return ()
    state.assume(view.gang, real)
    state.plans += 1
    plan_id = f"{state.process_id}-{state.plans}"
    # Size 0 tells a restarted scheduler that the gang has been whole: it is mended, not released.
    was_whole = phase.was_whole(view.record.phase)
    size = 0 if was_whole else len(view.members.bound) + view.missing.total
    mark = plan_annotation.write(plan_id, size, [p.pod.metadata.uid for p in real])
    mends = view.started and bool(view.missing.total)
    pairs = tuple((p.pod, p.node) for p in real)
    return (Bind(view.key, plan_id, pairs, mark, view.now, mends),)


def _surplus(view: GangView) -> Decision:
    """Bind members beyond the minimum, late ones first, as many as fit; the others wait."""
    state, pods = view.state, view.members.pending
    held: tuple[Slot, ...] = ()
    if view.key in state.snapshot.held_for:
        held = holds.late_holds(view)
        late = {slot.hold.late for slot in held if slot.hold is not None}
        pods = tuple(sorted(pods, key=lambda pod: role_of(pod) not in late))
    demand = _demand(view, pods, held)
    plan = place_surplus(state.snapshot, demand)
    actions, parked = _bind_surplus(view, plan, held)
    placed = {p.pod.metadata.uid for p in plan.placements}
    left = tuple(pod for pod in pods if pod.metadata.uid not in placed)
    if left:
        # A second trial says why the others do not fit, or finds that they fit in another order.
        held = () if placed else held
        wants = group_by_class(state, left)
        domain = gang_domain.with_placements(demand.domain, plan.placements)
        demand = replace(demand, wants=wants, need=len(left), roles={}, holds=held, domain=domain)
        result = place(state.snapshot, demand)
        if isinstance(result, Unplaced):
            short = shortage.park(view, demand, result)
            wakes = short.wakes | (parked.wakes if parked is not None else Wake.NONE)
            return Decision(replace(short, wakes=wakes), actions)
        more, later = _bind_surplus(view, result, held)
        actions, parked = (*actions, *more), later or parked
    return Decision(_in_flight(view) if parked is None else parked, actions)


def _bind_surplus(
    view: GangView, plan: Plan, held: tuple[Slot, ...]
) -> tuple[tuple[Action, ...], Parked | None]:
    """Bind the pods that wait for no volume; the others are tried again once theirs are bound."""
    if not plan.placements:
        return (), None
    for slot in held:
        holds.drop_hold(view.state, slot)
    if not any(p.cls.claims for p in plan.placements):
        return _commit(view, plan), None
    ready, choices = volume_provisioning.split_ready(view.state.snapshot, plan.placements)
    actions = volume_provisioning.write_choices(view, choices)
    parked = Parked(volume_provisioning.reason(len(choices)), Wake.STORAGE) if choices else None
    return (*(_commit(view, Plan(ready)) if ready else ()), *actions), parked
