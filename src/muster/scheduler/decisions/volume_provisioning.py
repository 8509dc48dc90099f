"""Claims that wait for a node: choose their volumes, hold the gang's room, and wait for the binds.

A claim gets an existing volume if one suits it; otherwise the chosen node is written to it, and the
provisioner of its class provisions a volume there. Until then the room of the whole plan is held.
If that takes longer than room is held, the gang yields to others for a moment and tries again.

Kept apart because together with it `gang_decision` would exceed 600 lines.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from muster.scheduler.cluster.volumes import VolumeChoice
from muster.scheduler.decisions import reasons
from muster.scheduler.decisions.bind_failures import BindRetry
from muster.scheduler.decisions.decision import Action, GangView, Provision, Verdict
from muster.scheduler.gangs import holds, phase
from muster.scheduler.gangs.waiting_line import Parked, Wake
from muster.scheduler.placement import volume_rules

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.objects.meta import Key
    from muster.scheduler.cluster.snapshot import Placement, Snapshot
    from muster.scheduler.cluster.volumes import Volumes
    from muster.scheduler.placement.demand import Plan

YIELD_SECONDS = 10.0
"""Seconds for which others may take the room of a gang whose volumes do not come."""


def wait_for_volumes(view: GangView, plan: Plan) -> Verdict | None:
    """The verdict to wait until the claims of a plan are bound; None if they all are."""
    snapshot, current = view.known.snapshot, view.phase
    choices = choose_volumes(snapshot, plan.placements)
    if not choices:
        return None
    held = {slot.pod.metadata.uid: slot.node for slot in view.held.values()}
    waits = Parked(reasons.provisioning(len(choices)), Wake.STORAGE)
    if held != {p.pod.metadata.uid: p.node for p in plan.placements}:
        if isinstance(current, phase.Provisioning) and not held:
            until = view.now + YIELD_SECONDS
            view.retry = replace(view.retry or BindRetry(), not_before=until)
            return Verdict(replace(waits, until=until), (), current.resumes)
        holds.hold_plan(view, plan.placements)
    provisioning = phase.Provisioning(phase.standing(current))
    return Verdict(waits, write_choices(view, choices), provisioning)


def write_choices(view: GangView, choices: dict[Key, VolumeChoice]) -> tuple[Action, ...]:
    """The action that writes the choices which are not written yet."""
    volumes = view.known.snapshot.volumes
    new = {key: choice for key, choice in choices.items() if not _written(volumes, key, choice)}
    if not new:
        return ()
    view.chosen = {**view.chosen, **new}
    return (Provision(view.key, tuple(new.items())),)


def split_ready(
    view: GangView, placements: tuple[Placement, ...]
) -> tuple[tuple[Placement, ...], dict[Key, VolumeChoice], tuple[Action, ...]]:
    """The placements that wait for no volume, the choices for the others, and their action."""
    snapshot = view.known.snapshot
    with snapshot.trial(view.room):
        choices = choose_volumes(snapshot, placements)
        actions = write_choices(view, choices)
    if not choices:
        return placements, {}, ()
    waiting = snapshot.volumes.waiting
    ready = tuple(p for p in placements if not waiting(p.cls.namespace, p.cls.claims))
    return ready, choices, actions


def choose_volumes(snapshot: Snapshot, placements: Iterable[Placement]) -> dict[Key, VolumeChoice]:
    """The node and the volume for every waiting claim of these pods."""
    rows = snapshot.nodes.rows
    nodes: dict[Key, str] = {}
    waiting: dict[Key, volume_rules.PendingClaim] = {}
    for pod, node, cls in placements:
        for claim in snapshot.volumes.waiting(pod.metadata.namespace, cls.claims):
            key = claim.metadata.key
            before = waiting[key].rows if key in waiting else ()
            waiting[key] = volume_rules.PendingClaim(claim, (*before, rows[node]))
            pinned = snapshot.volumes.pinned(claim)
            nodes.setdefault(key, pinned if pinned in rows else node)
    volumes = volume_rules.match_volumes(snapshot, waiting.values())
    return {key: VolumeChoice(nodes[key], volumes.get(key, "")) for key in waiting}


def _written(volumes: Volumes, key: Key, choice: VolumeChoice) -> bool:
    claim, volume = volumes.claims[key], volumes.volumes.get(choice.volume)
    if volumes.chosen.get(key) == choice:
        return True
    return volume.is_claimed_by(claim) if volume is not None else claim.selected == choice.node
