"""What to do about a gang that does not fit: make room, mend it, release it, or let it wait.

Called by `decide` with the demand that failed. A gang of higher priority may evict; a gang bound
by half looks for room a little longer and is then released, so that it does not sit on what it
cannot use; one that has waited too long gets its candidate nodes kept from those behind it.

Nodes that are kept for a gang which has waited too long, and from whom.

Asked by `decide` and `remedy`. Only the first in line of those gangs has nodes kept for it, and
only those behind it are kept away. `remedy` says who has waited too long.

Members for which no node would do, whatever it is: they are left out, and named.

Called by `decide`. A claim that is not there and a resource claim that nobody here understands
concern the pods that have them: the others are placed without them where the gang's terms allow it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from muster.api.gang_dialects import SINGLE_POD
from muster.scheduler.cluster.snapshot import Slot, SlotKind
from muster.scheduler.decisions import reasons, takedown
from muster.scheduler.decisions.decision import (
    PREEMPTED,
    RELEASED,
    Action,
    Delete,
    GangView,
    Report,
    say,
    wait,
)
from muster.scheduler.decisions.preemption import (
    disruptions_left,
    may_be_evicted,
    may_preempt,
    possible_victims,
    preempt,
)
from muster.scheduler.decisions.reasons import Reason
from muster.scheduler.gangs import holds as hold
from muster.scheduler.gangs.holds import drop_holds, missing_pods
from muster.scheduler.gangs.line import Spot, Wake
from muster.scheduler.placement import filters
from muster.scheduler.placement.demand import Plan
from muster.scheduler.placement.place import place

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from muster.api.core import Pod
    from muster.api.gang_dialects import GangKey
    from muster.api.meta import Key
    from muster.scheduler.cluster.nodes import Mask
    from muster.scheduler.cluster.snapshot import Snapshot
    from muster.scheduler.decisions.preemption import Victim
    from muster.scheduler.gangs.line import LinePosition
    from muster.scheduler.placement.demand import Demand, Unplaced
    from muster.scheduler.state import State


def starving_head(state: State) -> LinePosition | None:
    """The first in line of those that have waited too long."""
    return min(map(state.place_of, state.starving), default=None)


def review_starvation(state: State, key: GangKey) -> None:
    """Whoever does not wait for room any more has no nodes kept: others may need them."""
    spot = state.parked.spots.get(key)
    if key in state.starving and (spot is None or not spot.wakes & Wake.NODES):
        state.stop_starving(key)


def reserved_nodes(state: State, key: GangKey) -> Mask | None:
    """The nodes kept from this gang because one before it has waited too long."""
    first = starving_head(state)
    if first is None or key in state.starving or state.place_of(key) <= first:
        return None
    state.snapshot.settle()
    mask = np.zeros(len(state.snapshot.nodes), np.bool_)
    for cls in state.starving[first.key]:
        mask |= filters.fits_if_empty(state.snapshot, cls)
    return mask


CANNOT_DELETE = "bound by half and kept: its pods have no controller that would make them anew"


def handle_unplaced(view: GangView, demand: Demand, result: Unplaced) -> list[Action]:
    """Everything to be done when a trial failed."""
    reason = _reason(view, demand, result)
    if view.record.kept:
        reason = Reason(reason.code, f"{reason.text}; {CANNOT_DELETE}")
    evictions: list[Action] = []
    if not missing_pods(view):  # only members that exist may evict
        evictions, spared = _preempt(view, demand)
        reason = reasons.with_budgets(reason, spared) if spared else reason
    if view.record.victims:
        text = "waits for pods of lower priority to leave"
        text += takedown.failed_deletions(view.record, view.record.victims)
        reason = Reason(reasons.PREEMPTING, text)
    waits = wakes_for(result)
    if may_preempt(view.state, view.gang):
        waits.wakes |= Wake.BUDGETS
    actions = [*evictions, *wait(view, reason, waits), *repair_or_release(view, reason)]
    _reserve_if_starving(view, demand, result)
    return actions


def wakes_for(result: Unplaced) -> Spot:
    """The events that could help: room for what was short, a node, and for coupled pods any pod."""
    classes = tuple(short.want.cls for short in result.short)
    wakes = Wake.ROOM | Wake.NODES
    if not classes or not result.alone or any(cls.coupled or cls.claims for cls in classes):
        wakes |= Wake.PODS
    if any(cls.claims for cls in classes):
        wakes |= Wake.STORAGE
    return Spot(wakes, classes)


def reason_for(view: GangView, result: Unplaced) -> Reason:
    """Why a trial failed; room that is kept for others is not called full only."""
    state = view.state
    reason = reasons.unplaced(result, len(state.snapshot.nodes))
    mask = np.zeros(len(state.snapshot.nodes), np.bool_)
    for short in result.short:
        mask |= filters.fits_if_empty(state.snapshot, short.want.cls)
    kept = state.kept_rooms(mask)
    others = {key: holds for key, holds in sorted(kept.items()) if key != view.key}
    return reasons.with_holds(reason, others, state.wall_offset)


def _reason(view: GangView, demand: Demand, result: Unplaced) -> Reason:
    reason = reason_for(view, result)
    head = starving_head(view.state)
    if demand.reserved is None or head is None:
        return reason
    kept = f"{int(demand.reserved.sum())} nodes are kept for {head.key}, which waited too long"
    return Reason(reason.code, f"{reason.text}; {kept}")


def _preempt(view: GangView, demand: Demand) -> tuple[list[Action], list[Key]]:
    """Evict what makes room for this gang, if anything of lower priority does; keep that room.

    Gives the budgets too that alone are in the way.
    """
    state, record = view.state, view.record
    never = any(pod.spec.preemption_policy == "Never" for pod in view.members.pending)
    if never or record.victims:
        return [], []
    could, left = list(possible_victims(state, view.gang)), disruptions_left(state)
    found = preempt(state.snapshot, demand, could, left)
    if found is None:
        return [], _blocking_budgets(state.snapshot, demand, could, left)
    actions: list[Action] = []
    for victim in found.victims:
        pods = tuple(slot.pod for slot in victim.slots if slot.kind is SlotKind.POD)
        record.victims |= {pod.metadata.uid for pod in pods}
        if victim.whole and victim.gang in state.roster.gangs:
            state.record(victim.gang).gave_up = True
            drop_holds(state, victim.gang)
        why = f"makes room for {view.key}, which has a higher priority"
        actions += [Delete(victim.gang, pods, why, PREEMPTED, victim.whole)] if pods else []
    drop_holds(state, view.key)
    kept = hold.Hold(view.now + state.hold_seconds(view.gang), promised=True)
    for pod, node, cls in found.plan.placements:
        state.keep_room(view.key, Slot(pod.metadata.uid, node, cls, pod), kept)
    record.preempts = True
    if not record.victims:
        state.mark_due(view.key)
    return actions, []


def _blocking_budgets(
    snapshot: Snapshot, demand: Demand, could: Sequence[Victim], left: Mapping[Key, int]
) -> list[Key]:
    """The budgets that spare pods in whose place the gang would fit."""
    under = Counter(key for key, _ in {one for victim in could for one in victim.budgets})
    spent = sorted(key for key, n in under.items() if n > left.get(key, 0))
    if not spent:
        return []
    slots = {slot.uid: slot for victim in could for slot in victim.slots}
    found = place(snapshot, replace(demand, holds=(*demand.holds, *slots.values())))
    return spent if isinstance(found, Plan) else []


def repair_or_release(view: GangView, reason: Reason) -> list[Action]:
    """If it is bound by half: look for room a little longer, then release what is bound."""
    record = view.record
    half = view.started and record.whole is False
    if not half or record.kept or record.victims:
        return []
    if record.release_at is None:
        record.release_at = view.now + view.state.settings.repair_seconds
    if view.now < record.release_at:
        view.state.wake_at(view.key, record.release_at)
        return []
    return release(view, f"bound by half and cannot be made whole: {reason.text}")


def release(view: GangView, why: str) -> list[Action]:
    """Delete the members that have a node, if something will make them anew."""
    view.record.gave_up, view.record.release_at = True, None
    drop_holds(view.state, view.key)
    names = view.state.roster.names
    bound = (pod for pod in view.members.bound if pod.spec.node_name and pod.metadata.controller)
    pods = tuple(pod for pod in bound if pod.spec.scheduler_name in names)
    if pods:
        return [Delete(view.key, pods, why, RELEASED)]
    view.record.kept = view.record.whole is False
    if not view.record.kept or view.record.reason is None:
        return []
    return say(view.state, view.key, Reason(view.record.reason.code, f"{why}; {CANNOT_DELETE}"))


def _reserve_if_starving(view: GangView, demand: Demand, result: Unplaced) -> None:
    """After a long wait, keep those behind from the nodes this gang could use.

    Only if it would fit an empty cluster: an impossible gang must not block a possible one.
    """
    state, since = view.state, view.record.waits_since
    if since is None or view.started:
        return
    due = since + state.settings.starvation_after
    if view.now < due:
        if not view.record.guarded:
            view.record.guarded = True
            state.wake_at(view.key, due)
        return
    if _never_fits(view, demand):
        state.stop_starving(view.key)
    else:
        state.starving[view.key] = tuple(short.want.cls for short in result.short)
        state.parked.spots[view.key].wakes |= Wake.LOST


def _never_fits(view: GangView, demand: Demand) -> bool:
    """Whether it would not fit if all that can ever leave had left; kept until nodes change."""
    snapshot = view.state.snapshot
    stamp = (snapshot.nodes.version, snapshot.nodes.layout, snapshot.volumes.version)
    wants = tuple((want.cls, len(want.pods)) for want in demand.wants)
    if view.record.hopeless[0] != (stamp, wants):
        leave = tuple(slot for slot in snapshot.slots.values() if may_be_evicted(slot.pod))
        found = place(snapshot, replace(demand, holds=leave, reserved=None))
        view.record.hopeless = ((stamp, wants), not isinstance(found, Plan))
    return view.record.hopeless[1]


RESOURCE_CLAIMS_UNSUPPORTED = "asks for resourceClaims, which are not supported"


@dataclass(frozen=True)
class UnplaceablePods:
    """Pods that cannot be placed: how many, the words for it, and what would wake them."""

    pods: frozenset[str]
    reason: Reason
    wakes: int


def find_unplaceable(view: GangView) -> UnplaceablePods | None:
    """What keeps some of the gang's pending members from every node."""
    found: list[tuple[Pod, str]] = []
    storage = view.state.snapshot.volumes.trouble
    for pod in view.members.pending:
        says = RESOURCE_CLAIMS_UNSUPPORTED if pod.spec.resource_claims else storage(pod)
        if says:
            found.append((pod, says))
    if not found:
        return None
    pod, says = found[0]
    text = says if view.key.dialect == SINGLE_POD.name else f"{pod.metadata.name}: {says}"
    more = f"; and {len(found) - 1} more" if len(found) > 1 else ""
    supported = any(says is not RESOURCE_CLAIMS_UNSUPPORTED for _, says in found)
    code = reasons.UNSUPPORTED if says is RESOURCE_CLAIMS_UNSUPPORTED else reasons.NO_VOLUME
    uids = frozenset(pod.metadata.uid for pod, _ in found)
    return UnplaceablePods(
        uids, Reason(code, text + more), Wake.STORAGE if supported else Wake.NONE
    )


def decide_without(
    view: GangView, found: UnplaceablePods, fill: Callable[[GangView], list[Action]]
) -> list[Action]:
    """Place the others, then say what is the matter, unless they wait for something else."""
    record = view.record
    before, since, heard = record.reason, record.waits_since, record.heard
    able = tuple(pod for pod in view.members.pending if pod.metadata.uid not in found.pods)
    members = replace(view.members, pending=able)
    actions = fill(replace(view, members=members))
    spots = view.state.parked.spots
    if record.reason is None or record.reason.code == reasons.NOT_ENOUGH_MEMBERS:
        spot = spots.get(view.key) or Spot(Wake.NONE)
        wait(view, found.reason, Spot(spot.wakes | found.wakes, spot.classes))
    elif view.key in spots:
        spots[view.key].wakes |= found.wakes
    if before is not None:
        record.waits_since = since
    actions = [action for action in actions if not isinstance(action, Report)]
    if record.reason == before and record.heard <= heard:
        return actions
    return [*actions, Report(view.key, record.reason)]
