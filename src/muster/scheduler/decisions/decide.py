"""What to do about one gang: the scheduler's decision, taken on the state it finds.

Called by the loop for one gang at a time, first of the line first. No await, no client; the clock
is an argument. A decision is recorded in the state at once (binds in flight take their room,
holds are kept or given up) and returned as actions for the loop to carry out, so the next gang's
decision builds on it.

Promises: a gang below its minimum gets a bind only when all that it lacks was placed in one
trial; a member that dies leaves its room to its replacement; a gang that was bound by half and
cannot be made whole is released.
"""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

from muster.api.gang_dialects import GangKey, role_of
from muster.scheduler.cluster.pod_class import parse_resources
from muster.scheduler.cluster.snapshot import Slot
from muster.scheduler.decisions import bind_failures, reasons, shortage
from muster.scheduler.decisions import shortage as trouble
from muster.scheduler.decisions.decision import (
    PLAN_ANNOTATION,
    Action,
    Bind,
    GangView,
    PlanMark,
    Report,
    fingerprint,
    read_plan_mark,
    say,
    wait,
)
from muster.scheduler.decisions.provisioning import (
    choose_volumes,
    volumes_reason,
    wait_for_volumes,
    write_choices,
)
from muster.scheduler.decisions.shortage import (
    handle_unplaced,
    reason_for,
    release,
    repair_or_release,
    wakes_for,
)
from muster.scheduler.decisions.takedown import bound_at, continue_takedown
from muster.scheduler.gangs import holds
from muster.scheduler.gangs import holds as rooms
from muster.scheduler.gangs import members as runs
from muster.scheduler.gangs.line import Spot, Wake
from muster.scheduler.placement import known_failures
from muster.scheduler.placement.demand import ClassDemand, Demand, NodePreference, Plan, Unplaced
from muster.scheduler.placement.place import place, place_surplus

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster.api.core import Pod
    from muster.scheduler.cluster.pod_class import PodClass
    from muster.scheduler.decisions.reasons import Reason
    from muster.scheduler.gangs.roster import Members
    from muster.scheduler.state import State

PLACEMENT_ANNOTATION = "muster.dev/placement"
"""On a group or on its pods: `pack` or `spread`."""
MOST_TRIED = 100_000
"""Sets of waiting members that are compared with a plan's mark before it is taken at its word."""


def consider(state: State, key: GangKey, now: float) -> list[Action]:
    """Everything to be done about one gang now."""
    state.now = now
    state.parked.unpark(key)
    actions = _consider(state, key, now)
    shortage.review_starvation(state, key)
    return actions


def _consider(state: State, key: GangKey, now: float) -> list[Action]:
    gang = state.roster.gangs.get(key)
    if gang is None or (not gang.pods and gang.declared is None):
        state.forget(key)
        return []
    record = state.record(key)
    terms, members = gang.terms, state.members(gang)
    taken_down = continue_takedown(state, gang, members)
    if taken_down is not None:
        return taken_down
    if not members.ours and not record.holds:
        return []
    if terms is None:
        rooms.drop_holds(state, key)
        return say(state, key, reasons.no_group(key) if members.pending else None)
    runs.review_run(state, gang, terms, now)
    members = state.members(gang)
    view = GangView(state, gang, record, terms, members, state.missing(gang, members), now)
    _review_wholeness(view)
    actions: list[Action] = []
    if rooms.review_holds(view):
        record.gave_up = True
        if holds.restarts_on_end(view.annotations):
            actions += release(view, "the room kept for its missing members has run out")
    released = bind_failures.release_half_bound(view)
    if released or record.not_before > now:
        actions += [*released, *bind_failures.wait_for_retry(view)]
    else:
        actions += _fill(view)
    return [*actions, *_status_changed(view, actions)]


def _status_changed(view: GangView, actions: list[Action]) -> list[Action]:
    """A gang whose counts change has its object's status written, also without a reason."""
    members, succeeded = view.members, view.state.succeeded(view.gang, view.members)
    counts = (members.running, succeeded, len(members.failed))
    phase = (view.started, not view.missing.total, *counts)
    if phase == view.record.phase or view.gang.label_only:
        return []
    view.record.phase = phase
    said = any(isinstance(action, Report) for action in actions)
    return [] if said else [Report(view.key, view.record.reason)]


def _review_wholeness(view: GangView) -> None:
    """Whether the gang is or ever was whole."""
    record, members = view.record, view.members
    confirmed = all(pod.spec.node_name for pod in members.bound)
    if not view.missing.total:
        if confirmed:
            record.whole, record.gave_up, record.kept, record.release_at = True, False, False, None
        if confirmed and not members.pending:
            record.failures, record.releases, record.refused = 0, 0, ""
    elif not view.started and not record.holds:
        record.whole = False
    elif record.whole is None and confirmed:
        record.whole = not was_half_bound(members)
    record.half = view.started and bool(view.missing.total) and record.whole is False


def was_half_bound(members: Members) -> bool:
    """After a restart: whether binds were cut short, rather than a member lost since.

    After a plan that was cut short, fewer members are bound than make the gang whole, and those
    that the plan lacks wait: its mark names them or, if it has more than it can name, they are
    older than its binds, and the mark says that it is they and not others of the same second. Both
    times are the server's own.
    """
    plans: dict[str, list[Pod]] = {}
    for pod in members.bound:
        if mark := pod.metadata.annotations.get(PLAN_ANNOTATION):
            plans.setdefault(mark, []).append(pod)
    return any(
        len(members.bound) < read_plan_mark(mark).size
        and _was_cut_short(read_plan_mark(mark), pods, members)
        for mark, pods in plans.items()
    )


def _was_cut_short(plan: PlanMark, bound: list[Pod], members: Members) -> bool:
    if any(fingerprint([pod.metadata.uid]) in plan.last for pod in members.pending):
        return True  # also if members that were bound are lost since
    times = [when for pod in bound if (when := bound_at(pod)) is not None]
    old = [
        pod.metadata.uid
        for pod in members.pending
        if times and pod.metadata.creation_timestamp is not None
        if pod.metadata.creation_timestamp <= max(times)
    ]
    lack = plan.pods - len(bound)
    if lack <= 0:
        return False
    if comb(len(old), lack) > MOST_TRIED:
        return True
    who = plan.who ^ fingerprint(pod.metadata.uid for pod in bound)
    return any(fingerprint(uids) == who for uids in combinations(old, lack))


# -- placing -----------------------------------------------------------------------------------


def _fill(view: GangView) -> list[Action]:
    """Place what is missing, then what is beyond the minimum, but for what no node would do."""
    found = trouble.find_unplaceable(view)
    return (
        _fill_placeable(view)
        if found is None
        else trouble.decide_without(view, found, _fill_placeable)
    )


def _fill_placeable(view: GangView) -> list[Action]:
    pending, missing = view.members.pending, view.missing
    if not missing.total:
        return _surplus(view) if pending else say(view.state, view.key, None)
    if not pending and not view.started:
        return say(view.state, view.key, None)
    absent = rooms.missing_pods(view)
    if absent and (not view.started or view.record.gave_up or rooms.holds_will_follow(view)):
        return wait(view, _too_few(view, absent) if pending else None, Spot(Wake.NONE))
    if rooms.exceeds_cluster(view, absent):
        reason = _too_few(view, absent)
        return [*wait(view, reason, Spot(Wake.NODES)), *repair_or_release(view, reason)]
    phantoms = tuple(rooms.placeholders(view, absent))
    if not pending and len(phantoms) <= len(view.record.holds):
        return []
    return _place(view, (*pending, *phantoms))


def _too_few(view: GangView, absent: dict[str, int]) -> Reason:
    members = view.members
    there = len(members.bound) + len(members.succeeded) + len(members.pending)
    return reasons.too_few(view.terms, there, members, absent)


def _place(view: GangView, pods: tuple[Pod, ...]) -> list[Action]:
    demand = _demand(view, pods)
    short = _below_min_resources(view, demand)
    if short is not None:
        return wait(view, short, Spot(Wake.NODES | Wake.PODS))
    result = _trial(view, demand)
    if isinstance(result, Plan):
        waits = wait_for_volumes(view, result)
        return _commit(view, result) if waits is None else waits
    return handle_unplaced(view, demand, result)


def _trial(view: GangView, demand: Demand) -> Plan | Unplaced:
    """The trial, unless it is known to fail and what is said of that need not be as of now."""
    state, record = view.state, view.record
    alike = known_failures.signature(demand, state.events_seen)
    stale = view.now >= record.reasoned_at + state.settings.report_every
    exact = record.reason is None or stale
    known = state.failures.find(alike, state.snapshot, exact=exact)
    if exact or known is None:
        record.reasoned_at = view.now
    if known is not None:
        return known
    result = place(state.snapshot, demand)
    if isinstance(result, Unplaced):
        state.failures.add(alike, result, state.snapshot)
    return result


def _demand(view: GangView, pods: tuple[Pod, ...]) -> Demand:
    late = {} if view.started else rooms.late_members(view)
    return Demand(
        wants=group_by_class(view.state, (*pods, *late.values())),
        need=view.missing.total + len(late),
        roles={**view.missing.roles, **dict.fromkeys(late, 1)},
        holds=view.state.rooms(view.key),
        used_nodes=tuple(sorted({pod.spec.node_name for pod in view.members.bound} - {""})),
        reserved=shortage.reserved_nodes(view.state, view.key),
        preference=_manner(view),
    )


def _manner(view: GangView) -> NodePreference:
    """How this gang wants its nodes chosen: its own word, else the settings'."""
    settings = view.state.settings
    pods = (pod.metadata.annotations for pod in view.members.pending[:1])
    said = (marks.get(PLACEMENT_ANNOTATION) for marks in (view.annotations, *pods))
    wish = next(filter(None, said), settings.placement)
    return NodePreference(settings.weights, settings.rack_label, wish == "spread")


def group_by_class(state: State, pods: Iterable[Pod]) -> tuple[ClassDemand, ...]:
    """Pods by class and role, in the order of their first member."""
    classes, members = state.snapshot.classes, tuple(pods)
    groups: dict[tuple[PodClass, str], list[Pod]] = {}
    known = -1
    while known != len(classes.interesting):  # one's selector may tell others' labels apart
        known, groups = len(classes.interesting), {}
        for pod in members:
            groups.setdefault((classes.of(pod), role_of(pod)), []).append(pod)
    return tuple(ClassDemand(cls, role, tuple(members)) for (cls, role), members in groups.items())


def _below_min_resources(view: GangView, demand: Demand) -> Reason | None:
    """A group that asks for more than its members do waits until so much is free in all."""
    wanted = parse_resources(view.terms.min_resources)
    if not wanted or view.started:
        return None
    asked: dict[str, int] = {}
    for want in demand.wants:
        for name, each in want.cls.requests.items():
            asked[name] = asked.get(name, 0) + each * len(want.pods)
    nodes, resources = view.state.snapshot.nodes, view.state.snapshot.classes.resources
    lacks = {}
    for name, n in wanted.items():
        if n > asked.get(name, 0):
            column = resources.get(name, len(nodes.free))
            free = nodes.free[column][nodes.ready].clip(0) if column < len(nodes.free) else None
            lacks[name] = n - (int(free.sum()) if free is not None else 0)
    lacks = {name: n for name, n in lacks.items() if n > 0}
    return reasons.min_resources(lacks) if lacks else None


def _commit(view: GangView, plan: Plan) -> list[Action]:
    """Take the room now; the binds follow."""
    state, record, key = view.state, view.record, view.key
    kept = sorted(
        (one for one in record.holds.values() if not one.late),
        key=lambda one: one.until,
        reverse=True,
    )
    rooms.drop_holds(state, key)
    members = [p for p in plan.placements if not rooms.is_placeholder(p.pod)]
    state.assume(view.gang, members)
    until = view.now + state.hold_seconds(view.gang)
    late = rooms.late_members(view)
    for pod, node, cls in plan.placements:
        if rooms.is_placeholder(pod):
            role = role_of(pod) if role_of(pod) in late else ""
            again = kept.pop(0) if kept and not role else holds.Hold(until, True, role)
            state.keep_room(key, Slot(pod.metadata.uid, node, cls, pod), again)
    if not members:
        return []
    if not record.failures:
        record.release_at, record.waits_since = None, None
    record.preempts = False
    if not view.started:
        record.whole = False
    state.plans += 1
    pairs = tuple((p.pod, p.node) for p in members)
    size = 0 if record.whole else len(view.members.bound) + view.missing.total
    plan_id = f"{state.process_id}-{state.plans}"
    mends = view.started and bool(view.missing.total)
    return [
        Bind(key, plan_id, pairs, size, view.now, mends),
        *say(state, key, bind_failures.bind_failure_reason(view)),
    ]


def _surplus(view: GangView) -> list[Action]:
    """Members beyond the minimum: as many as fit, late ones first; the rest wait."""
    pods = sorted(view.members.pending, key=lambda pod: role_of(pod) not in _late_roles(view))
    demand = _demand(view, tuple(pods))
    plan = place_surplus(view.state.snapshot, demand)
    actions = _commit_surplus(view, plan) if plan.placements else []
    placed = {p.pod.metadata.uid for p in plan.placements}
    left = tuple(pod for pod in pods if pod.metadata.uid not in placed)
    if not left:
        return actions
    result = place(view.state.snapshot, Demand(group_by_class(view.state, left), len(left)))
    if isinstance(result, Plan):
        return actions
    reason = reason_for(view, result)
    return [*actions, *wait(view, reason, wakes_for(result))]


def _commit_surplus(view: GangView, plan: Plan) -> list[Action]:
    """Bind those that wait for no volume; the others are tried again once theirs are bound."""
    choices = choose_volumes(view.state.snapshot, plan.placements)
    if not choices:
        return _commit(view, plan)
    volumes = view.state.snapshot.volumes
    ready = [p for p in plan.placements if not volumes.waiting(p.cls.namespace, p.cls.claims)]
    told = [
        *write_choices(view, choices),
        *wait(view, volumes_reason(len(choices)), Spot(Wake.STORAGE)),
    ]
    return [*(_commit(view, Plan(tuple(ready))) if ready else []), *told]


def _late_roles(view: GangView) -> set[str]:
    return {kept.late for kept in view.record.holds.values()} - {""}
