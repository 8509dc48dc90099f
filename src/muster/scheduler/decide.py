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

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from muster.api.meta import condition
from muster.scheduler import explain, hold
from muster.scheduler.actions import PLAN_ANNOTATION, Action, Bind, Delete, Say, planned
from muster.scheduler.explain import Reason
from muster.scheduler.gangs import GangKey, Terms, role_of
from muster.scheduler.parked import Spot, Wake
from muster.scheduler.place import Demand, Plan, Unplaced, Want, place, place_surplus
from muster.scheduler.preempt import preempt
from muster.scheduler.roster import Gang, Muster, per_role
from muster.scheduler.snapshot import Slot, Stay

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from muster.api.core import Pod
    from muster.scheduler.podclass import PodClass
    from muster.scheduler.state import Entry, State

PHANTOM = "phantom/"


@dataclass
class Case:
    """One gang as it stands now."""

    state: State
    gang: Gang
    entry: Entry
    terms: Terms
    muster: Muster
    missing: hold.Missing
    now: float

    @property
    def key(self) -> GangKey:
        return self.gang.key

    @property
    def started(self) -> bool:
        return bool(self.muster.bound)


def consider(state: State, key: GangKey, now: float) -> list[Action]:
    """Everything to be done about one gang now."""
    state.now = now
    gang = state.roster.gangs.get(key)
    if gang is None or (not gang.pods and gang.declared is None):
        state.forget(key)
        return []
    entry = state.entry(key)
    if entry.not_before > now:
        state.look_again(key, entry.not_before)
        return []
    terms, muster = gang.terms, state.muster(gang)
    if terms is None:
        _give_up_rooms(state, key)
        return _say(state, key, explain.no_group(key) if muster.pending else None)
    case = Case(state, gang, entry, terms, muster, state.missing(gang, muster), now)
    _remember(case)
    return [*_tend_rooms(case), *_fill(case)]


# -- memory and rooms --------------------------------------------------------------------------


def _remember(case: Case) -> None:
    """Whether the gang is or ever was whole."""
    entry, muster = case.entry, case.muster
    confirmed = all(pod.spec.node_name for pod in muster.bound)
    if not case.missing.total:
        if confirmed:
            entry.whole, entry.gave_up = True, False
        entry.release_at, entry.failures = None, 0
    elif not case.started and not entry.holds:
        entry.whole = False
    elif entry.whole is None and confirmed:
        entry.whole = not was_half_bound(muster)


def was_half_bound(muster: Muster) -> bool:
    """After a restart: whether binds were cut short, rather than a member lost since.

    Of a plan that was cut short fewer pods are bound than it says, and a member that waited then is
    older than its siblings' binding; a replacement is younger. Both times are the server's own.
    """
    created = [
        pod.metadata.creation_timestamp
        for pod in muster.pending
        if pod.metadata.creation_timestamp is not None
    ]
    plans: dict[str, list[datetime]] = {}
    for pod in muster.bound:
        scheduled = condition(pod.status.conditions, "PodScheduled")
        plan = pod.metadata.annotations.get(PLAN_ANNOTATION)
        if plan and scheduled is not None and scheduled.last_transition_time is not None:
            plans.setdefault(plan, []).append(scheduled.last_transition_time)
    return any(
        created and len(bound_at) < planned(plan) and min(created) <= max(bound_at)
        for plan, bound_at in plans.items()
    )


def _tend_rooms(case: Case) -> list[Action]:
    """End holds that are not needed or have run out; lengthen those whose replacement has come."""
    state, entry = case.state, case.entry
    entry.victims &= state.snapshot.slots.keys()
    orphaned = case.gang.label_only and not case.started and not entry.preempts
    if case.gang.ended or orphaned:
        _give_up_rooms(state, case.key)
    for uid in sorted(entry.holds)[case.missing.total :]:
        state.drop_room(case.key, uid)
    if case.muster.pending:
        seconds = state.hold_seconds(case.gang)
        for uid, kept in entry.holds.items():
            entry.holds[uid] = hold.prolonged(kept, case.now, seconds)
            state.look_again(case.key, entry.holds[uid].until)
    ended = [uid for uid, kept in entry.holds.items() if kept.until <= case.now]
    for uid in ended:
        state.drop_room(case.key, uid)
    if not ended:
        return []
    entry.gave_up = True
    annotations = case.gang.declared.metadata.annotations if case.gang.declared else {}
    if hold.restarts_on_end(annotations):
        return _release(case, "the room kept for its missing members has run out")
    return []


def _give_up_rooms(state: State, key: GangKey) -> None:
    for uid in list(state.entry(key).holds):
        state.drop_room(key, uid)


# -- placing -----------------------------------------------------------------------------------


def _fill(case: Case) -> list[Action]:
    """Place what is missing, then what is beyond the minimum."""
    pending, missing = case.muster.pending, case.missing
    if any(pod.spec.resource_claims for pod in pending):
        reason = Reason(explain.UNSUPPORTED, "asks for resourceClaims, which are not supported")
        return _wait(case, reason, Spot(Wake.NONE))
    if not missing.total:
        return _surplus(case) if pending else _say(case.state, case.key, None)
    if not pending and not case.started:
        return _say(case.state, case.key, None)
    absent = _absent(case)
    if absent and (not case.started or case.entry.gave_up or _rooms_come_back(case)):
        there = len(case.muster.bound) + len(case.muster.succeeded) + len(pending)
        reason = explain.too_few(case.terms, there, case.muster.gated, absent)
        return _wait(case, reason if pending else None, Spot(Wake.NONE))
    phantoms = tuple(_phantoms(case, absent))
    if not pending and len(phantoms) <= len(case.entry.holds):
        return []
    return _place(case, (*pending, *phantoms))


def _absent(case: Case) -> dict[str, int]:
    """Members that are missing and have no pod yet, by role; `""` for those of any role."""
    waiting = per_role(case.muster.pending)
    roles = {role: n - waiting.get(role, 0) for role, n in case.missing.roles.items()}
    absent = {role: n for role, n in roles.items() if n > 0}
    rest = case.missing.total - len(case.muster.pending) - sum(absent.values())
    return {**absent, "": rest} if rest > 0 else absent


def _rooms_come_back(case: Case) -> bool:
    """Whether members that are being deleted still sit in the rooms that will be held."""
    return (
        len(case.entry.holds) + len(case.muster.leaving)
        >= case.missing.total
        > len(case.entry.holds)
    )


def _phantoms(case: Case, absent: dict[str, int]) -> Iterable[Pod]:
    """Stand-ins for members that have no pod yet, in the likeness of a sibling of their role."""
    number = 0
    for role, n in sorted(absent.items()):
        siblings = [pod for pod in case.gang.pods.values() if not role or role_of(pod) == role]
        likeness = min(siblings or case.muster.bound, key=lambda pod: pod.metadata.name)
        for _ in range(n):
            number += 1
            yield phantom(likeness, number)


def phantom(likeness: Pod, number: int) -> Pod:
    """A pod that does not exist, for the sake of its room."""
    uid = f"{PHANTOM}{likeness.metadata.uid}/{number}"
    return msgspec.structs.replace(
        likeness,
        metadata=msgspec.structs.replace(likeness.metadata, uid=uid, deletion_timestamp=None),
        spec=msgspec.structs.replace(likeness.spec, node_name=""),
        status=type(likeness.status)(),
    )


def _is_phantom(pod: Pod) -> bool:
    return pod.metadata.uid.startswith(PHANTOM)


def _place(case: Case, pods: tuple[Pod, ...]) -> list[Action]:
    demand = _demand(case, pods)
    signature = _signature(demand)
    result = case.state.failed.get(signature) if signature else None
    if not isinstance(result, Unplaced):
        result = place(case.state.snapshot, demand)
    if isinstance(result, Plan):
        return _commit(case, result)
    if signature:
        case.state.failed[signature] = result
    return _unplaced(case, demand, result)


def _demand(case: Case, pods: tuple[Pod, ...]) -> Demand:
    return Demand(
        wants=group(case.state, pods),
        need=case.missing.total,
        roles=case.missing.roles,
        rooms=case.state.rooms(case.key),
        beside=tuple(sorted({pod.spec.node_name for pod in case.muster.bound} - {""})),
    )


def group(state: State, pods: Iterable[Pod]) -> tuple[Want, ...]:
    """Pods by class and role, in the order of their first member."""
    groups: dict[tuple[PodClass, str], list[Pod]] = {}
    for pod in pods:
        groups.setdefault((state.snapshot.classes.of(pod), role_of(pod)), []).append(pod)
    return tuple(Want(cls, role, tuple(members)) for (cls, role), members in groups.items())


def _signature(demand: Demand) -> object:
    """What makes two demands fail alike; nothing where rooms of its own help one of them."""
    if demand.rooms or demand.barred is not None:
        return None
    wants = tuple((want.cls, want.role, len(want.pods)) for want in demand.wants)
    return (wants, demand.need, tuple(sorted(demand.roles.items())))


def _commit(case: Case, plan: Plan) -> list[Action]:
    """Take the room now; the binds follow."""
    state, entry, key = case.state, case.entry, case.key
    kept = sorted(entry.holds.values(), key=lambda one: one.until, reverse=True)
    _give_up_rooms(state, key)
    pairs = tuple((p.pod, p.node) for p in plan.placements if not _is_phantom(p.pod))
    state.assume(case.gang, [p for p in plan.placements if not _is_phantom(p.pod)])
    fresh = hold.Hold(case.now + state.hold_seconds(case.gang), promised=True)
    for number, (pod, node, cls) in enumerate(p for p in plan.placements if _is_phantom(p.pod)):
        slot = Slot(pod.metadata.uid, node, cls, pod)
        state.keep_room(key, slot, kept[number] if number < len(kept) else fresh)
    if not pairs:
        return []
    entry.release_at, entry.waits_since, entry.preempts = None, None, False
    if not case.started:
        entry.whole = False
    state.plans += 1
    bind = Bind(key, f"{state.run}-{state.plans}", pairs)
    return [bind, *_say(state, key, None)]


def _surplus(case: Case) -> list[Action]:
    """Members beyond the minimum: as many as fit; the rest wait."""
    pods = case.muster.pending
    plan = place_surplus(case.state.snapshot, _demand(case, pods))
    actions = _commit(case, plan) if plan.placements else []
    placed = {p.pod.metadata.uid for p in plan.placements}
    left = tuple(pod for pod in pods if pod.metadata.uid not in placed)
    if not left:
        return actions
    wants = group(case.state, left)
    result = place(case.state.snapshot, Demand(wants, len(left)))
    if isinstance(result, Plan):
        return actions
    reason = explain.unplaced(result, len(case.state.snapshot.nodes))
    return [*actions, *_wait(case, reason, _spot(result))]


# -- when it does not fit ----------------------------------------------------------------------


def _unplaced(case: Case, demand: Demand, result: Unplaced) -> list[Action]:
    reason = explain.unplaced(result, len(case.state.snapshot.nodes))
    evictions = _preempt(case, demand)
    if evictions:
        reason = Reason(explain.PREEMPTING, "waits for pods of lower priority to leave")
    actions = [*evictions, *_wait(case, reason, _spot(result))]
    if case.started and case.entry.whole is False and not case.entry.victims:
        actions += _repair(case, reason)
    return actions


def _preempt(case: Case, demand: Demand) -> list[Action]:
    """Evict what makes room for this gang, if anything of lower priority does; keep that room."""
    state, entry = case.state, case.entry
    never = any(pod.spec.preemption_policy == "Never" for pod in case.muster.pending)
    if never or entry.victims or not state.settings.preempt:
        return []
    found = preempt(state.snapshot, demand, state.victims(case.gang))
    if found is None:
        return []
    actions: list[Action] = []
    for victim in found.victims:
        pods = tuple(slot.pod for slot in victim.slots if slot.stay is Stay.POD)
        entry.victims |= {pod.metadata.uid for pod in pods}
        if victim.whole and victim.gang in state.roster.gangs:
            state.entry(victim.gang).gave_up = True
            _give_up_rooms(state, victim.gang)
        why = f"makes room for {case.key}, which has a higher priority"
        actions += [Delete(victim.gang, pods, why, "Preempted")] if pods else []
    _give_up_rooms(state, case.key)
    kept = hold.Hold(case.now + state.hold_seconds(case.gang), promised=True)
    for pod, node, cls in found.plan.placements:
        state.keep_room(case.key, Slot(pod.metadata.uid, node, cls, pod), kept)
    entry.preempts = True
    if not entry.victims:
        state.touch(case.key)
    return actions


def _repair(case: Case, reason: Reason) -> list[Action]:
    """Bound by half: look for room a little longer, then release what is bound."""
    entry = case.entry
    if entry.release_at is None:
        entry.release_at = case.now + case.state.settings.repair_seconds
    if case.now < entry.release_at:
        case.state.look_again(case.key, entry.release_at)
        return []
    return _release(case, f"bound by half and cannot be made whole: {reason.text}")


def _release(case: Case, why: str) -> list[Action]:
    """Delete the members that have a node, if something will make them anew."""
    case.entry.gave_up, case.entry.release_at = True, None
    _give_up_rooms(case.state, case.key)
    pods = tuple(pod for pod in case.muster.bound if pod.spec.node_name and pod.metadata.controller)
    return [Delete(case.key, pods, why, "Released")] if pods else []


def _spot(result: Unplaced) -> Spot:
    classes = tuple(short.want.cls for short in result.short)
    wakes = Wake.ROOM | Wake.NODES
    if not classes or any(cls.coupled for cls in classes):
        wakes |= Wake.PODS
    return Spot(wakes, classes)


def _wait(case: Case, reason: Reason | None, spot: Spot) -> list[Action]:
    if case.entry.waits_since is None and reason is not None:
        case.entry.waits_since = case.now
    case.state.parked.park(case.key, spot)
    return _say(case.state, case.key, reason)


def _say(state: State, key: GangKey, reason: Reason | None) -> list[Action]:
    entry = state.entry(key)
    if reason is None:
        entry.waits_since = None
    if entry.reason == reason:
        return []
    entry.reason = reason
    return [Say(key, reason)]


# -- what became of a bind ---------------------------------------------------------------------


def bind_failed(state: State, key: GangKey, pod: Pod, now: float, *, gone: bool) -> None:
    """A bind settled without success: the room stays with the gang, which goes first in line."""
    state.now = now
    entry = state.entry(key)
    if gone:
        state.roster.drop_pod(pod.metadata.uid)
    slot = state.unassume(pod.metadata.uid)
    gang = state.roster.gangs.get(key)
    if gang is None:
        return
    others = state.missing(gang, state.muster(gang)).total
    if slot is not None and gang.terms is not None and gang.terms.min > 1 and others:
        seconds = hold.AFTER_DELETION if gone else state.hold_seconds(gang)
        kept = hold.Hold(now + seconds, promised=not gone)
        state.keep_room(key, _as_pod(slot), kept)
    entry.failures += 1
    if not gone and entry.failures > 1:
        entry.not_before = now + min(5.0, 0.1 * 2.0 ** min(entry.failures, 10))
    state.touch(key)


def _as_pod(slot: Slot) -> Slot:
    return Slot(slot.uid, slot.node, slot.cls, slot.pod, Stay.POD)
