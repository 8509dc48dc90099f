"""Claims that wait for a node: choose their volumes, keep the gang's rooms, and wait for them.

Called by `decide` with a plan that stands. A claim gets an existing volume where one suits it, else
its node is written to it and whoever makes volumes makes one there. The rooms are kept meanwhile;
when that takes longer than rooms are kept, the gang gives way for a moment and then tries again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.scheduler.cluster.snapshot import Slot
from muster.scheduler.cluster.volumes import VolumeChoice
from muster.scheduler.decisions import reasons
from muster.scheduler.decisions.decision import Action, GangView, Provision, wait
from muster.scheduler.decisions.reasons import Reason
from muster.scheduler.gangs import holds
from muster.scheduler.gangs import holds as rooms
from muster.scheduler.gangs.line import Spot, Wake
from muster.scheduler.placement import volume_rules

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster.api.meta import Key
    from muster.scheduler.cluster.snapshot import Placement, Snapshot
    from muster.scheduler.cluster.volumes import Volumes
    from muster.scheduler.placement.demand import Plan

YIELD_SECONDS = 10.0
"""Seconds for which others may have the rooms of a gang whose volumes do not come."""


def wait_for_volumes(view: GangView, plan: Plan) -> list[Action] | None:
    """What to do before this plan can be carried out; None if nothing keeps it."""
    state, record = view.state, view.record
    choices = choose_volumes(state.snapshot, plan.placements)
    if not choices:
        record.told = False
        return None
    kept = {slot.pod.metadata.uid: slot.node for slot in state.rooms(view.key)}
    if kept != {p.pod.metadata.uid: p.node for p in plan.placements}:
        if record.told and not kept:
            return _yield_holds(view, len(choices))
        rooms.drop_holds(state, view.key)
        until = holds.Hold(view.now + state.hold_seconds(view.gang), promised=True)
        for pod, node, cls in plan.placements:
            state.keep_room(view.key, Slot(pod.metadata.uid, node, cls, pod), until)
        record.preempts = record.told = True
    return [
        *write_choices(view, choices),
        *wait(view, volumes_reason(len(choices)), Spot(Wake.STORAGE)),
    ]


def write_choices(view: GangView, choices: dict[Key, VolumeChoice]) -> list[Action]:
    """Have the choices written that are not written yet."""
    volumes = view.state.snapshot.volumes
    fresh = tuple((key, one) for key, one in choices.items() if not _written(volumes, key, one))
    if not fresh:
        return []
    volumes.choose(dict(fresh))
    return [Provision(view.key, fresh)]


def choose_volumes(snapshot: Snapshot, placements: Iterable[Placement]) -> dict[Key, VolumeChoice]:
    """For every claim of these pods that waits, the node and the volume it gets."""
    rows = snapshot.nodes.rows
    nodes: dict[Key, str] = {}
    asked: dict[Key, volume_rules.PendingClaim] = {}
    for pod, node, cls in placements:
        if not cls.claims:
            continue
        for claim in snapshot.volumes.waiting(pod.metadata.namespace, cls.claims):
            key = claim.metadata.key
            before = asked[key].rows if key in asked else ()
            asked[key] = volume_rules.PendingClaim(claim, (*before, rows[node]))
            pinned = snapshot.volumes.pinned(claim)
            nodes.setdefault(key, pinned if pinned in rows else node)
    if not asked:
        return {}
    volumes = volume_rules.match_volumes(snapshot, asked.values())
    return {key: VolumeChoice(nodes[key], volumes.get(key, "")) for key in asked}


def _written(volumes: Volumes, key: Key, choice: VolumeChoice) -> bool:
    claim, volume = volumes.claims[key], volumes.volumes.get(choice.volume)
    if volumes.chosen.get(key) == choice:
        return True
    return volume.is_claimed_by(claim) if volume is not None else claim.selected == choice.node


def _yield_holds(view: GangView, claims: int) -> list[Action]:
    """The rooms have run out: let others have them before they are kept again."""
    view.record.told = False
    view.record.not_before = view.now + YIELD_SECONDS
    view.state.wake_at(view.key, view.record.not_before)
    return wait(view, volumes_reason(claims), Spot(Wake.STORAGE))


def volumes_reason(claims: int) -> Reason:
    """So many claims have no volume yet."""
    what = "a volume" if claims == 1 else f"{claims} volumes"
    return Reason(reasons.PROVISIONING, f"waits for {what} to be bound to its claims")
