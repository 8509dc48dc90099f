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
    entry = state.entry(key)
    terms, muster = gang.terms, state.muster(gang)
    taken_down = continue_takedown(state, gang, muster)
    if taken_down is not None:
        return taken_down
    if not muster.ours and not entry.holds:
        return []
    if terms is None:
        rooms.drop_holds(state, key)
        return say(state, key, reasons.no_group(key) if muster.pending else None)
    runs.review_run(state, gang, terms, now)
    muster = state.muster(gang)
    case = GangView(state, gang, entry, terms, muster, state.missing(gang, muster), now)
    _review_wholeness(case)
    actions: list[Action] = []
    if rooms.review_holds(case):
        entry.gave_up = True
        if holds.restarts_on_end(case.annotations):
            actions += release(case, "the room kept for its missing members has run out")
    released = bind_failures.release_half_bound(case)
    if released or entry.not_before > now:
        actions += [*released, *bind_failures.wait_for_retry(case)]
    else:
        actions += _fill(case)
    return [*actions, *_status_changed(case, actions)]


def _status_changed(case: GangView, actions: list[Action]) -> list[Action]:
    """A gang whose counts change has its object's status written, also without a reason."""
    muster, succeeded = case.muster, case.state.succeeded(case.gang, case.muster)
    counts = (muster.running, succeeded, len(muster.failed))
    phase = (case.started, not case.missing.total, *counts)
    if phase == case.entry.phase or case.gang.label_only:
        return []
    case.entry.phase = phase
    said = any(isinstance(action, Report) for action in actions)
    return [] if said else [Report(case.key, case.entry.reason)]


def _review_wholeness(case: GangView) -> None:
    """Whether the gang is or ever was whole."""
    entry, muster = case.entry, case.muster
    confirmed = all(pod.spec.node_name for pod in muster.bound)
    if not case.missing.total:
        if confirmed:
            entry.whole, entry.gave_up, entry.kept, entry.release_at = True, False, False, None
        if confirmed and not muster.pending:
            entry.failures, entry.releases, entry.refused = 0, 0, ""
    elif not case.started and not entry.holds:
        entry.whole = False
    elif entry.whole is None and confirmed:
        entry.whole = not was_half_bound(muster)
    entry.half = case.started and bool(case.missing.total) and entry.whole is False


def was_half_bound(muster: Members) -> bool:
    """After a restart: whether binds were cut short, rather than a member lost since.

    After a plan that was cut short, fewer members are bound than make the gang whole, and those
    that the plan lacks wait: its mark names them or, if it has more than it can name, they are
    older than its binds, and the mark says that it is they and not others of the same second. Both
    times are the server's own.
    """
    plans: dict[str, list[Pod]] = {}
    for pod in muster.bound:
        if mark := pod.metadata.annotations.get(PLAN_ANNOTATION):
            plans.setdefault(mark, []).append(pod)
    return any(
        len(muster.bound) < read_plan_mark(mark).size
        and _was_cut_short(read_plan_mark(mark), pods, muster)
        for mark, pods in plans.items()
    )


def _was_cut_short(plan: PlanMark, bound: list[Pod], muster: Members) -> bool:
    if any(fingerprint([pod.metadata.uid]) in plan.last for pod in muster.pending):
        return True  # also if members that were bound are lost since
    times = [when for pod in bound if (when := bound_at(pod)) is not None]
    old = [
        pod.metadata.uid
        for pod in muster.pending
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


def _fill(case: GangView) -> list[Action]:
    """Place what is missing, then what is beyond the minimum, but for what no node would do."""
    found = trouble.find_unplaceable(case)
    return (
        _fill_placeable(case)
        if found is None
        else trouble.decide_without(case, found, _fill_placeable)
    )


def _fill_placeable(case: GangView) -> list[Action]:
    pending, missing = case.muster.pending, case.missing
    if not missing.total:
        return _surplus(case) if pending else say(case.state, case.key, None)
    if not pending and not case.started:
        return say(case.state, case.key, None)
    absent = rooms.missing_pods(case)
    if absent and (not case.started or case.entry.gave_up or rooms.holds_will_follow(case)):
        return wait(case, _too_few(case, absent) if pending else None, Spot(Wake.NONE))
    if rooms.exceeds_cluster(case, absent):
        reason = _too_few(case, absent)
        return [*wait(case, reason, Spot(Wake.NODES)), *repair_or_release(case, reason)]
    phantoms = tuple(rooms.placeholders(case, absent))
    if not pending and len(phantoms) <= len(case.entry.holds):
        return []
    return _place(case, (*pending, *phantoms))


def _too_few(case: GangView, absent: dict[str, int]) -> Reason:
    muster = case.muster
    there = len(muster.bound) + len(muster.succeeded) + len(muster.pending)
    return reasons.too_few(case.terms, there, muster, absent)


def _place(case: GangView, pods: tuple[Pod, ...]) -> list[Action]:
    demand = _demand(case, pods)
    short = _below_min_resources(case, demand)
    if short is not None:
        return wait(case, short, Spot(Wake.NODES | Wake.PODS))
    result = _trial(case, demand)
    if isinstance(result, Plan):
        waits = wait_for_volumes(case, result)
        return _commit(case, result) if waits is None else waits
    return handle_unplaced(case, demand, result)


def _trial(case: GangView, demand: Demand) -> Plan | Unplaced:
    """The trial, unless it is known to fail and what is said of that need not be as of now."""
    state, entry = case.state, case.entry
    alike = known_failures.signature(demand, state.moves)
    stale = case.now >= entry.reasoned_at + state.settings.report_every
    exact = entry.reason is None or stale
    known = state.failures.find(alike, state.snapshot, exact=exact)
    if exact or known is None:
        entry.reasoned_at = case.now
    if known is not None:
        return known
    result = place(state.snapshot, demand)
    if isinstance(result, Unplaced):
        state.failures.add(alike, result, state.snapshot)
    return result


def _demand(case: GangView, pods: tuple[Pod, ...]) -> Demand:
    late = {} if case.started else rooms.late_members(case)
    return Demand(
        wants=group_by_class(case.state, (*pods, *late.values())),
        need=case.missing.total + len(late),
        roles={**case.missing.roles, **dict.fromkeys(late, 1)},
        rooms=case.state.rooms(case.key),
        beside=tuple(sorted({pod.spec.node_name for pod in case.muster.bound} - {""})),
        barred=shortage.reserved_nodes(case.state, case.key),
        manner=_manner(case),
    )


def _manner(case: GangView) -> NodePreference:
    """How this gang wants its nodes chosen: its own word, else the settings'."""
    settings = case.state.settings
    pods = (pod.metadata.annotations for pod in case.muster.pending[:1])
    said = (marks.get(PLACEMENT_ANNOTATION) for marks in (case.annotations, *pods))
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


def _below_min_resources(case: GangView, demand: Demand) -> Reason | None:
    """A group that asks for more than its members do waits until so much is free in all."""
    wanted = parse_resources(case.terms.min_resources)
    if not wanted or case.started:
        return None
    asked: dict[str, int] = {}
    for want in demand.wants:
        for name, each in want.cls.requests.items():
            asked[name] = asked.get(name, 0) + each * len(want.pods)
    nodes, resources = case.state.snapshot.nodes, case.state.snapshot.classes.resources
    lacks = {}
    for name, n in wanted.items():
        if n > asked.get(name, 0):
            column = resources.get(name, len(nodes.free))
            free = nodes.free[column][nodes.ready].clip(0) if column < len(nodes.free) else None
            lacks[name] = n - (int(free.sum()) if free is not None else 0)
    lacks = {name: n for name, n in lacks.items() if n > 0}
    return reasons.min_resources(lacks) if lacks else None


def _commit(case: GangView, plan: Plan) -> list[Action]:
    """Take the room now; the binds follow."""
    state, entry, key = case.state, case.entry, case.key
    kept = sorted(
        (one for one in entry.holds.values() if not one.late),
        key=lambda one: one.until,
        reverse=True,
    )
    rooms.drop_holds(state, key)
    members = [p for p in plan.placements if not rooms.is_placeholder(p.pod)]
    state.assume(case.gang, members)
    until = case.now + state.hold_seconds(case.gang)
    late = rooms.late_members(case)
    for pod, node, cls in plan.placements:
        if rooms.is_placeholder(pod):
            role = role_of(pod) if role_of(pod) in late else ""
            again = kept.pop(0) if kept and not role else holds.Hold(until, True, role)
            state.keep_room(key, Slot(pod.metadata.uid, node, cls, pod), again)
    if not members:
        return []
    if not entry.failures:
        entry.release_at, entry.waits_since = None, None
    entry.preempts = False
    if not case.started:
        entry.whole = False
    state.plans += 1
    pairs = tuple((p.pod, p.node) for p in members)
    size = 0 if entry.whole else len(case.muster.bound) + case.missing.total
    plan_id = f"{state.run}-{state.plans}"
    mends = case.started and bool(case.missing.total)
    return [
        Bind(key, plan_id, pairs, size, case.now, mends),
        *say(state, key, bind_failures.bind_failure_reason(case)),
    ]


def _surplus(case: GangView) -> list[Action]:
    """Members beyond the minimum: as many as fit, late ones first; the rest wait."""
    pods = sorted(case.muster.pending, key=lambda pod: role_of(pod) not in _late_roles(case))
    demand = _demand(case, tuple(pods))
    plan = place_surplus(case.state.snapshot, demand)
    actions = _commit_surplus(case, plan) if plan.placements else []
    placed = {p.pod.metadata.uid for p in plan.placements}
    left = tuple(pod for pod in pods if pod.metadata.uid not in placed)
    if not left:
        return actions
    result = place(case.state.snapshot, Demand(group_by_class(case.state, left), len(left)))
    if isinstance(result, Plan):
        return actions
    reason = reason_for(case, result)
    return [*actions, *wait(case, reason, wakes_for(result))]


def _commit_surplus(case: GangView, plan: Plan) -> list[Action]:
    """Bind those that wait for no volume; the others are tried again once theirs are bound."""
    choices = choose_volumes(case.state.snapshot, plan.placements)
    if not choices:
        return _commit(case, plan)
    volumes = case.state.snapshot.volumes
    ready = [p for p in plan.placements if not volumes.waiting(p.cls.namespace, p.cls.claims)]
    told = [
        *write_choices(case, choices),
        *wait(case, volumes_reason(len(choices)), Spot(Wake.STORAGE)),
    ]
    return [*(_commit(case, Plan(tuple(ready))) if ready else []), *told]


def _late_roles(case: GangView) -> set[str]:
    return {kept.late for kept in case.entry.holds.values()} - {""}
