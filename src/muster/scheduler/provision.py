"""Claims that wait for a node: choose their volumes, keep the gang's rooms, and wait for them.

Called by `decide` with a plan that stands. A claim gets an existing volume where one suits it, else
its node is written to it and whoever makes volumes makes one there. The rooms are kept meanwhile;
when that takes longer than rooms are kept, the gang gives way for a moment and then tries again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.scheduler import explain, hold, pairing, rooms
from muster.scheduler.actions import Action, Provision
from muster.scheduler.case import Case, wait
from muster.scheduler.explain import Reason
from muster.scheduler.parked import Spot, Wake
from muster.scheduler.snapshot import Slot
from muster.scheduler.volumes import Choice

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster.api.meta import Key
    from muster.scheduler.demand import Plan
    from muster.scheduler.snapshot import Placement, Snapshot
    from muster.scheduler.volumes import Volumes

GIVES_WAY = 10.0
"""Seconds for which others may have the rooms of a gang whose volumes do not come."""


def provision(case: Case, plan: Plan) -> list[Action] | None:
    """What to do before this plan can be carried out; None if nothing keeps it."""
    state, entry = case.state, case.entry
    choices = choose(state.snapshot, plan.placements)
    if not choices:
        entry.told = False
        return None
    kept = {slot.pod.metadata.uid: slot.node for slot in state.rooms(case.key)}
    if kept != {p.pod.metadata.uid: p.node for p in plan.placements}:
        if entry.told and not kept:
            return _give_way(case, len(choices))
        rooms.give_up_rooms(state, case.key)
        until = hold.Hold(case.now + state.hold_seconds(case.gang), promised=True)
        for pod, node, cls in plan.placements:
            state.keep_room(case.key, Slot(pod.metadata.uid, node, cls, pod), until)
        entry.preempts = entry.told = True
    return [*tell(case, choices), *wait(case, waits_for(len(choices)), Spot(Wake.STORAGE))]


def tell(case: Case, choices: dict[Key, Choice]) -> list[Action]:
    """Have the choices written that are not written yet."""
    volumes = case.state.snapshot.volumes
    fresh = tuple((key, one) for key, one in choices.items() if not _written(volumes, key, one))
    if not fresh:
        return []
    volumes.choose(dict(fresh))
    return [Provision(case.key, fresh)]


def choose(snapshot: Snapshot, placements: Iterable[Placement]) -> dict[Key, Choice]:
    """For every claim of these pods that waits, the node and the volume it gets."""
    rows = snapshot.nodes.rows
    nodes: dict[Key, str] = {}
    asked: dict[Key, pairing.Asked] = {}
    for pod, node, cls in placements:
        if not cls.claims:
            continue
        for claim in snapshot.volumes.waiting(pod.metadata.namespace, cls.claims):
            key = claim.metadata.key
            before = asked[key].rows if key in asked else ()
            asked[key] = pairing.Asked(claim, (*before, rows[node]))
            pinned = snapshot.volumes.pinned(claim)
            nodes.setdefault(key, pinned if pinned in rows else node)
    if not asked:
        return {}
    volumes = pairing.pair(snapshot, asked.values())
    return {key: Choice(nodes[key], volumes.get(key, "")) for key in asked}


def _written(volumes: Volumes, key: Key, choice: Choice) -> bool:
    claim, volume = volumes.claims[key], volumes.volumes.get(choice.volume)
    if volumes.chosen.get(key) == choice:
        return True
    return volume.is_kept_for(claim) if volume is not None else claim.selected == choice.node


def _give_way(case: Case, claims: int) -> list[Action]:
    """The rooms have run out: let others have them before they are kept again."""
    case.entry.told = False
    case.entry.not_before = case.now + GIVES_WAY
    case.state.look_again(case.key, case.entry.not_before)
    return wait(case, waits_for(claims), Spot(Wake.STORAGE))


def waits_for(claims: int) -> Reason:
    """So many claims have no volume yet."""
    what = "a volume" if claims == 1 else f"{claims} volumes"
    return Reason(explain.PROVISIONING, f"waits for {what} to be bound to its claims")
