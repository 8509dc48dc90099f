"""What to do about a gang that does not fit: make room, mend it, release it, or let it wait.

Called by `decide` with the demand that failed. A gang of higher priority may evict; a gang bound
by half looks for room a little longer and is then released, so that it does not sit on what it
cannot use; one that has waited too long gets its candidate nodes kept from those behind it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from muster.scheduler import explain, filters, hold, marks, starvation
from muster.scheduler.actions import PREEMPTED, RELEASED, Action, Delete
from muster.scheduler.case import Case, say, wait
from muster.scheduler.demand import Plan
from muster.scheduler.explain import Reason
from muster.scheduler.parked import Spot, Wake
from muster.scheduler.place import place
from muster.scheduler.preempt import allowed, may_be_evicted, may_preempt, preempt, victims
from muster.scheduler.rooms import absent, give_up_rooms
from muster.scheduler.snapshot import Slot, Stay

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from muster.api.meta import Key
    from muster.scheduler.demand import Demand, Unplaced
    from muster.scheduler.preempt import Victim
    from muster.scheduler.snapshot import Snapshot

KEPT = "bound by half and kept: its pods have no controller that would make them anew"


def unplaced(case: Case, demand: Demand, result: Unplaced) -> list[Action]:
    """Everything to be done when a trial failed."""
    reason = _reason(case, demand, result)
    if case.entry.kept:
        reason = Reason(reason.code, f"{reason.text}; {KEPT}")
    evictions: list[Action] = []
    if not absent(case):  # only members that exist may evict
        evictions, spared = _preempt(case, demand)
        reason = explain.spared(reason, spared) if spared else reason
    if case.entry.victims:
        text = "waits for pods of lower priority to leave"
        text += marks.obstacle(case.entry, case.entry.victims)
        reason = Reason(explain.PREEMPTING, text)
    waits = spot(result)
    if may_preempt(case.state, case.gang):
        waits.wakes |= Wake.BUDGETS
    actions = [*evictions, *wait(case, reason, waits), *repair(case, reason)]
    _guard(case, demand, result)
    return actions


def spot(result: Unplaced) -> Spot:
    """The events that could help: room for what was short, a node, and for coupled pods any pod."""
    classes = tuple(short.want.cls for short in result.short)
    wakes = Wake.ROOM | Wake.NODES
    if not classes or not result.alone or any(cls.coupled or cls.claims for cls in classes):
        wakes |= Wake.PODS
    if any(cls.claims for cls in classes):
        wakes |= Wake.STORAGE
    return Spot(wakes, classes)


def why(case: Case, result: Unplaced) -> Reason:
    """Why a trial failed; room that is kept for others is not called full only."""
    state = case.state
    reason = explain.unplaced(result, len(state.snapshot.nodes))
    mask = np.zeros(len(state.snapshot.nodes), np.bool_)
    for short in result.short:
        mask |= filters.could_ever(state.snapshot, short.want.cls)
    kept = state.kept_rooms(mask)
    others = {key: holds for key, holds in sorted(kept.items()) if key != case.key}
    return explain.kept_for(reason, others, state.epoch)


def _reason(case: Case, demand: Demand, result: Unplaced) -> Reason:
    reason = why(case, result)
    head = starvation.head(case.state)
    if demand.barred is None or head is None:
        return reason
    kept = f"{int(demand.barred.sum())} nodes are kept for {head.key}, which waited too long"
    return Reason(reason.code, f"{reason.text}; {kept}")


def _preempt(case: Case, demand: Demand) -> tuple[list[Action], list[Key]]:
    """Evict what makes room for this gang, if anything of lower priority does; keep that room.

    Gives the budgets too that alone are in the way.
    """
    state, entry = case.state, case.entry
    never = any(pod.spec.preemption_policy == "Never" for pod in case.muster.pending)
    if never or entry.victims:
        return [], []
    could, left = list(victims(state, case.gang)), allowed(state)
    found = preempt(state.snapshot, demand, could, left)
    if found is None:
        return [], _in_the_way(state.snapshot, demand, could, left)
    actions: list[Action] = []
    for victim in found.victims:
        pods = tuple(slot.pod for slot in victim.slots if slot.stay is Stay.POD)
        entry.victims |= {pod.metadata.uid for pod in pods}
        if victim.whole and victim.gang in state.roster.gangs:
            state.entry(victim.gang).gave_up = True
            give_up_rooms(state, victim.gang)
        why = f"makes room for {case.key}, which has a higher priority"
        actions += [Delete(victim.gang, pods, why, PREEMPTED, victim.whole)] if pods else []
    give_up_rooms(state, case.key)
    kept = hold.Hold(case.now + state.hold_seconds(case.gang), promised=True)
    for pod, node, cls in found.plan.placements:
        state.keep_room(case.key, Slot(pod.metadata.uid, node, cls, pod), kept)
    entry.preempts = True
    if not entry.victims:
        state.touch(case.key)
    return actions, []


def _in_the_way(
    snapshot: Snapshot, demand: Demand, could: Sequence[Victim], left: Mapping[Key, int]
) -> list[Key]:
    """The budgets that spare pods in whose place the gang would fit."""
    under = Counter(key for key, _ in {one for victim in could for one in victim.budgets})
    spent = sorted(key for key, n in under.items() if n > left.get(key, 0))
    if not spent:
        return []
    slots = {slot.uid: slot for victim in could for slot in victim.slots}
    found = place(snapshot, replace(demand, rooms=(*demand.rooms, *slots.values())))
    return spent if isinstance(found, Plan) else []


def repair(case: Case, reason: Reason) -> list[Action]:
    """If it is bound by half: look for room a little longer, then release what is bound."""
    entry = case.entry
    half = case.started and entry.whole is False
    if not half or entry.kept or entry.victims:
        return []
    if entry.release_at is None:
        entry.release_at = case.now + case.state.settings.repair_seconds
    if case.now < entry.release_at:
        case.state.look_again(case.key, entry.release_at)
        return []
    return release(case, f"bound by half and cannot be made whole: {reason.text}")


def release(case: Case, why: str) -> list[Action]:
    """Delete the members that have a node, if something will make them anew."""
    case.entry.gave_up, case.entry.release_at = True, None
    give_up_rooms(case.state, case.key)
    names = case.state.roster.names
    bound = (pod for pod in case.muster.bound if pod.spec.node_name and pod.metadata.controller)
    pods = tuple(pod for pod in bound if pod.spec.scheduler_name in names)
    if pods:
        return [Delete(case.key, pods, why, RELEASED)]
    case.entry.kept = case.entry.whole is False
    if not case.entry.kept or case.entry.reason is None:
        return []
    return say(case.state, case.key, Reason(case.entry.reason.code, f"{why}; {KEPT}"))


def _guard(case: Case, demand: Demand, result: Unplaced) -> None:
    """After a long wait, keep those behind from the nodes this gang could use.

    Only if it would fit an empty cluster: an impossible gang must not block a possible one.
    """
    state, since = case.state, case.entry.waits_since
    if since is None or case.started:
        return
    due = since + state.settings.starvation_after
    if case.now < due:
        if not case.entry.guarded:
            case.entry.guarded = True
            state.look_again(case.key, due)
        return
    if _is_hopeless(case, demand):
        state.stop_starving(case.key)
    else:
        state.starving[case.key] = tuple(short.want.cls for short in result.short)
        state.parked.spots[case.key].wakes |= Wake.LOST


def _is_hopeless(case: Case, demand: Demand) -> bool:
    """Whether it would not fit if all that can ever leave had left; kept until nodes change."""
    snapshot = case.state.snapshot
    stamp = (snapshot.nodes.version, snapshot.nodes.layout, snapshot.volumes.version)
    wants = tuple((want.cls, len(want.pods)) for want in demand.wants)
    if case.entry.hopeless[0] != (stamp, wants):
        leave = tuple(slot for slot in snapshot.slots.values() if may_be_evicted(slot.pod))
        found = place(snapshot, replace(demand, rooms=leave, barred=None))
        case.entry.hopeless = ((stamp, wants), not isinstance(found, Plan))
    return case.entry.hopeless[1]
