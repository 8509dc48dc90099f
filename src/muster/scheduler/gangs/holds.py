"""Holds: room that is kept free for members to come.

When a member of a running gang dies, its slot becomes a hold in the same call, so that no other
gang can take the room. Without it there is a deadlock: a member dies, another gang takes its room,
and both gangs wait for each other's room forever. A hold is a slot like any other and exists once,
in the snapshot; `held_for` finds it by gang.

A hold lasts for the full time after a failure, an eviction or the loss of a node; half a minute
after a plain deletion, and the full time once the replacement exists. A cordoned or lost node ends
its holds. Members without a pod (after a restart of the scheduler, or a launcher that comes late)
are placed as placeholders: copies of a sibling that are never created.

Users write the annotations and minimums that holds follow, and no quota counts held room. So a hold
is never larger than what was there: as many members as the gang had when it was last whole, each
like one that had a node, late members together no larger than the others, and no longer than the
administrator allows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import count, islice
from typing import TYPE_CHECKING

import msgspec

from kubekit.objects.annotation_values import read_duration
from kubekit.objects.core import Pod, PodStatus
from kubekit.objects.meta import condition_is_true
from muster.contract.gang import HOLD_ANNOTATION, ON_HOLD_END_ANNOTATION, GangKey
from muster.contract.gang_dialects import SINGLE_POD, role_of
from muster.scheduler.cluster.nodes import is_schedulable
from muster.scheduler.cluster.pod_class import PODS
from muster.scheduler.cluster.snapshot import Hold, Slot, SlotKind
from muster.scheduler.gangs import phase
from muster.scheduler.gangs.members import missing_pods

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from muster.scheduler.cluster.nodes import Mask
    from muster.scheduler.cluster.snapshot import Placement, Snapshot
    from muster.scheduler.decisions.decision import GangView
    from muster.scheduler.gangs.gang_index import Gang
    from muster.scheduler.settings import Settings
    from muster.scheduler.state import State


SECONDS_AFTER_DELETION = 30.0
PLACEHOLDER = "placeholder/"
"""How the UID of a placeholder begins."""
MAX_PLACEHOLDERS = 10_000
"""Members for which room is held before they exist."""


# -- how long --------------------------------------------------------------------------------------


def hold_after(pod: Pod, now: float, seconds: float, *, node_lost: bool) -> Hold | None:
    """The hold for the replacement of a member that left its room; None if none is expected.

    `pod` is the member as last seen. After a failure, an eviction or the loss of the node, the
    controller replaces the member. After a plain deletion it may be that somebody scales down.
    """
    if pod.status.phase == "Succeeded" or seconds <= 0:
        return None
    evicted = condition_is_true(pod.status.conditions, "DisruptionTarget")
    if pod.status.phase == "Failed" or evicted or node_lost:
        return Hold(now + seconds, promised=True)
    return Hold(now + min(seconds, SECONDS_AFTER_DELETION), promised=False)


def hold_seconds(annotations: Mapping[str, str], default: float) -> float:
    """The time in a group's annotation: `90`, `90s`, `5m`, `1h`; the default for anything else."""
    seconds = read_duration(annotations.get(HOLD_ANNOTATION, "").strip())
    return default if seconds is None else seconds


def full_hold(settings: Settings, gang: Gang, now: float) -> Hold:
    """A hold for the full time from now on."""
    return Hold(now + _seconds(settings, gang), promised=True)


def _seconds(settings: Settings, gang: Gang) -> float:
    """How long room is held for a gang: its users choose within the administrator's limit."""
    default, most = settings.hold_seconds, settings.max_hold_seconds
    return min(hold_seconds(gang.annotations, default), max(default, most))


def restarts_on_end(annotations: Mapping[str, str]) -> bool:
    """Whether the remaining members are deleted when a hold ends, so that the gang restarts."""
    return annotations.get(ON_HOLD_END_ANNOTATION, "") == "restart"


# -- making and ending holds -----------------------------------------------------------------------


def new_hold(key: GangKey, priority: int, room: Slot | Placement, hold: Hold) -> Slot:
    """A hold of the room of a slot, or of a placement that is not bound."""
    uid = f"hold/{key.dialect}/{key}/{room.pod.metadata.uid}"
    return Slot(uid, room.node, room.cls, room.pod, SlotKind.HOLD, False, priority, key, hold)


def hold_plan(view: GangView, placements: Iterable[Placement]) -> None:
    """Hold the room of a whole plan, and nothing else, for a gang."""
    view.drop_holds()
    full = full_hold(view.known.settings, view.gang, view.now)
    for placement in placements:
        view.hold(new_hold(view.key, view.priority, placement, full))


def hold_placeholders(
    view: GangView,
    placements: Iterable[Placement],
    former: Iterable[Hold],
    late: Collection[str],
) -> None:
    """Hold the room of placeholders, for no longer than room was held for them before.

    `late` are the roles of the late members among them.
    """
    full = full_hold(view.known.settings, view.gang, view.now)
    before = sorted(hold for hold in former if not hold.late)
    for placement in placements:
        role = role_of(placement.pod)
        role = role if role in late else ""
        # A hold that moves to another node keeps its end, or moving would extend it forever.
        hold = before.pop() if before and not role else full
        view.hold(new_hold(view.key, view.priority, placement, hold._replace(late=role)))


def holds_on(
    snapshot: Snapshot, nodes: Mask, lacks: Collection[str] = ()
) -> dict[GangKey, list[Hold]]:
    """The holds on some nodes, by the gang that they are for; of one of the resources, if any."""
    rows = snapshot.nodes.rows
    by_gang: dict[GangKey, list[Hold]] = {}
    for key, slots in snapshot.held_for.items():
        for slot in slots.values():
            if slot.node not in rows or not nodes[rows[slot.node]] or slot.hold is None:
                continue
            if not lacks or any(slot.cls.requests.get(name) for name in lacks):
                by_gang.setdefault(key, []).append(slot.hold)
    return by_gang


def after_member(state: State, gang: Gang, pod: Pod, slot: Slot, *, gone: bool) -> Hold | None:
    """The hold for the replacement of a member that left its room, if one is expected."""
    key = gang.key
    foreign = pod.spec.scheduler_name not in state.index.names
    if key.dialect == SINGLE_POD.name or gang.ended or foreign:
        return None
    if phase.holds_ended(state.record(key).phase):
        return None
    lost, seconds = state.snapshot.nodes.get(slot.node) is None, _seconds(state.settings, gang)
    return hold_after(slot.pod if gone else pod, state.now, seconds, node_lost=lost)


def is_room_held_after(state: State, gang: Gang, slot: Slot) -> bool:
    """Whether the room of a member that left, and that is to be replaced, is held.

    A gang without any bound member holds nothing, because nothing of it runs that would wait; a
    gang that its owner restarts as a whole does, because all its members come back at once.
    """
    node = state.snapshot.nodes.get(slot.node)
    runs = bool(state.members(gang).bound) or phase.restarts_whole(gang.annotations)
    lacks = state.missing(gang).total > len(state.snapshot.held_for.get(gang.key, ()))
    return runs and lacks and node is not None and is_schedulable(node)


def review_holds(view: GangView) -> bool:
    """End needless holds, extend holds whose replacement exists; whether one has run out."""
    if view.gang.ended:
        view.drop_holds()
    present = {role_of(pod) for pod in view.members.bound}
    spare = -view.missing.total  # above zero: more holds than missing members
    ran_out = False
    for slot in view.holds():
        hold = slot.hold
        assert hold is not None
        spare += not hold.late
        if (spare > 0 and not hold.late) or (hold.late and hold.late in present):
            view.drop_hold(slot)
        elif view.members.pending and not hold.promised:
            full = full_hold(view.known.settings, view.gang, view.now)
            view.hold(replace(slot, hold=full))
        elif hold.until <= view.now:
            view.drop_hold(slot)
            ran_out = ran_out or not hold.late
    return ran_out


# -- members without a pod -------------------------------------------------------------------------


def exceeds_cluster(view: GangView, lacking: Mapping[str, int]) -> bool:
    """Whether more members are absent than all nodes together could run if they were empty."""
    snapshot = view.known.snapshot
    snapshot.settle()
    room = snapshot.nodes.allocatable[snapshot.classes.column(PODS)].sum()
    return sum(lacking.values()) > min(MAX_PLACEHOLDERS, int(room))


def exceeds_last_minimum(view: GangView) -> bool:
    """Whether members are absent that the gang never had: its minimum was raised since it was met.

    No quota counts held room, so room is held for members that were there and for no others.
    """
    return view.terms.min > view.run.met


def holds_will_follow(view: GangView) -> bool:
    """Whether members being deleted still use the room that will be held for the missing ones."""
    held = len(view.held)
    return held + len(view.members.leaving) >= view.missing.total > held


def all_come_back(view: GangView) -> bool:
    """Whether all members that the gang lacks have stopped on a node and will be replaced.

    Their cluster was stopped while they ran, or their owner restarts the gang as a whole.
    """
    if (
        view.gang.ended
        or view.started
        or view.members.pending
        or view.key.dialect == SINGLE_POD.name
    ):
        return False
    whole = phase.restarts_whole(view.annotations)
    stopped = Counter(
        role_of(pod)
        for pod in view.members.failed
        if pod.spec.node_name
        and (whole or condition_is_true(pod.status.conditions, "DisruptionTarget"))
    )
    lacking = missing_pods(view)
    return 0 < sum(lacking.values()) <= stopped.total() and all(
        n <= stopped[role] for role, n in lacking.items() if role
    )


def placeholders(view: GangView, lacking: Mapping[str, int]) -> Iterator[Pod]:
    """Placeholders for members that have no pod yet: copies of a sibling of the same role.

    Only a sibling that has or had a node: a pod that never got one could be of any size.
    """
    numbers, members = count(1), view.members
    placed = (*members.bound, *members.leaving, *members.succeeded, *members.failed)
    for role, n in sorted(lacking.items()):
        siblings = [pod for pod in placed if not role or role_of(pod) == role]
        sibling = min(siblings or members.bound, key=lambda pod: pod.metadata.name)
        for number in islice(numbers, n):
            yield placeholder(sibling, f"{sibling.metadata.uid}/{number}")


def placeholder(pod: Pod, uid: str) -> Pod:
    """A copy of a pod that is placed for its room and never created."""
    metadata = msgspec.structs.replace(
        pod.metadata, uid=f"{PLACEHOLDER}{uid}", deletion_timestamp=None
    )
    spec = msgspec.structs.replace(pod.spec, node_name="")
    return Pod(metadata, spec, PodStatus())
