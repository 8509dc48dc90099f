"""Room held for members to come: when, for how long, and for whom.

When a member of a running gang dies, its slot passes to a hold in the same call, so that no other
gang can take it. This prevents a deadlock: a member dies, a rival takes its room, and both wait for
ever. A hold is a slot like any other and exists once, in the snapshot; `held_for` finds it by gang.

How long: the full time after a failure, eviction or node loss; half a minute after a plain
deletion, and the full time once the replacement exists. A cordoned or lost node ends its holds.
Members that have no pod yet (after a restart of the scheduler, a raised minimum, or a launcher
that comes late) are placed as placeholders: pods that do not exist, in the likeness of a sibling.
"""

from __future__ import annotations

import json
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any

import msgspec

from muster.api.core import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from muster.api.gang_dialects import (
    HOLD_ANNOTATION,
    LATE_ANNOTATION,
    ON_HOLD_END_ANNOTATION,
    ROLE_ANNOTATION,
    SINGLE_POD,
    GangKey,
    role_of,
)
from muster.api.meta import ObjectMeta, condition_is_true
from muster.scheduler.cluster.nodes import is_schedulable
from muster.scheduler.cluster.pod_class import PODS
from muster.scheduler.cluster.snapshot import Hold, Slot, SlotKind
from muster.scheduler.gangs import phase
from muster.scheduler.gangs.members import find_missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from muster.scheduler.cluster.nodes import Mask
    from muster.scheduler.cluster.snapshot import Placement, Snapshot
    from muster.scheduler.decisions.decision import GangView
    from muster.scheduler.gangs.gang_index import Gang
    from muster.scheduler.state import State


SECONDS_AFTER_FAILURE = 300.0
SECONDS_AFTER_DELETION = 30.0
PLACEHOLDER = "phantom/"
MAX_PLACEHOLDERS = 10_000
"""Members for which room is held before they exist."""

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


class Departure(Enum):
    """How a member left its node."""

    SUCCEEDED = "succeeded"  # no room is held
    FAILED = "failed"  # failed, evicted or lost with its node: a replacement is expected
    DELETED = "deleted"  # someone deleted it: a replacement may come


# -- how long --------------------------------------------------------------------------------------


def departure_of(last: Pod, now: Pod | None, *, node_lost: bool) -> Departure:
    """Why a bound member no longer uses its room; `now` is None once its object is gone."""
    pod = now or last
    if pod.status.phase == "Succeeded":
        return Departure.SUCCEEDED
    evicted = condition_is_true(pod.status.conditions, "DisruptionTarget")
    failed = pod.status.phase == "Failed" or evicted or node_lost
    return Departure.FAILED if failed else Departure.DELETED


def hold_after(departure: Departure, now: float, seconds: float) -> Hold | None:
    """The hold that a departure begins, if any."""
    if departure is Departure.SUCCEEDED or seconds <= 0:
        return None
    if departure is Departure.FAILED:
        return Hold(now + seconds, promised=True)
    return Hold(now + min(seconds, SECONDS_AFTER_DELETION), promised=False)


def hold_seconds(annotations: Mapping[str, str], default: float) -> float:
    """How long a group asks for: `90`, `90s`, `5m`, `1h`; anything else means the default."""
    text = annotations.get(HOLD_ANNOTATION, "").strip()
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    try:
        seconds = float(number) * _UNITS[unit]
    except ValueError:
        return default
    return seconds if 0 <= seconds < 1e9 else default


def full_hold(state: State, gang: Gang) -> Hold:
    """A hold for the full time from now on."""
    return Hold(state.now + _seconds(state, gang), promised=True)


def _seconds(state: State, gang: Gang) -> float:
    return hold_seconds(gang.annotations, state.settings.hold_seconds)


def restarts_on_end(annotations: Mapping[str, str]) -> bool:
    """Whether the remaining members are deleted when a hold ends, so that the gang restarts."""
    return annotations.get(ON_HOLD_END_ANNOTATION, "") == "restart"


# -- making and ending holds -----------------------------------------------------------------------


def hold_room(state: State, key: GangKey, slot: Slot, hold: Hold) -> None:
    """Hold the room of a slot for a gang."""
    uid = f"hold/{key.dialect}/{key}/{slot.uid}"
    priority = state.index.priority(state.index.gangs[key])
    state.snapshot.put(
        Slot(uid, slot.node, slot.cls, slot.pod, SlotKind.HOLD, False, priority, key, hold)
    )


def hold_plan(state: State, gang: Gang, placements: Iterable[Placement]) -> None:
    """Hold the room of a whole plan, in place of all that the gang held before."""
    drop_holds(state, gang.key)
    for pod, node, cls in placements:
        slot = Slot(pod.metadata.uid, node, cls, pod)
        hold_room(state, gang.key, slot, full_hold(state, gang))


def hold_placeholders(
    view: GangView, placements: Iterable[Placement], former: Iterable[Hold]
) -> None:
    """Hold the room of placeholders, for no longer than it was held for them before."""
    state, late = view.state, late_members(view)
    before = sorted(hold for hold in former if not hold.late)
    for pod, node, cls in placements:
        role = role_of(pod) if role_of(pod) in late else ""
        hold = before.pop() if before and not role else full_hold(state, view.gang)
        slot = Slot(pod.metadata.uid, node, cls, pod)
        hold_room(state, view.key, slot, hold._replace(late=role))


def drop_hold(state: State, slot: Slot) -> None:
    """Free held room."""
    state.snapshot.remove(slot.uid)
    state.room_changed(slot, None)


def drop_holds(state: State, key: GangKey) -> list[Hold]:
    """Free all room held for a gang; what was held."""
    slots = holds_of(state.snapshot, key)
    for slot in slots:
        drop_hold(state, slot)
    return [slot.hold for slot in slots if slot.hold is not None]


def drop_holds_on(state: State, node: str) -> None:
    """A node is lost or cordoned: the gangs with holds there look for room elsewhere."""
    for slot in list(state.snapshot.on_node.get(node, {}).values()):
        if slot.kind is SlotKind.HOLD and slot.owner is not None:
            drop_hold(state, slot)
            state.mark_due(slot.owner)


def holds_of(snapshot: Snapshot, key: GangKey) -> tuple[Slot, ...]:
    """The slots held for a gang, in a fixed order."""
    held = snapshot.held_for.get(key)
    return tuple(held[uid] for uid in sorted(held)) if held else ()


def holds_on(snapshot: Snapshot, nodes: Mask) -> dict[GangKey, list[Hold]]:
    """The holds on some nodes, by the gang that they are for."""
    rows = snapshot.nodes.rows
    found: dict[GangKey, list[Hold]] = {}
    for key, slots in snapshot.held_for.items():
        for slot in slots.values():
            if slot.node in rows and nodes[rows[slot.node]] and slot.hold is not None:
                found.setdefault(key, []).append(slot.hold)
    return found


def member_left(state: State, gang: Gang, pod: Pod, slot: Slot, *, gone: bool) -> None:
    """A member no longer uses its slot: hold the room if a replacement is to come.

    Not when no other member is bound: then nothing of the gang runs, unless its owner restarts it
    as a whole.
    """
    record, key = state.record(gang.key), gang.key
    if key.dialect == SINGLE_POD.name or gang.ended or phase.holds_ended(record.phase):
        return
    if pod.spec.scheduler_name not in state.index.names:
        return
    node = state.snapshot.nodes.get(slot.node)
    departure = departure_of(slot.pod, None if gone else pod, node_lost=node is None)
    hold = hold_after(departure, state.now, _seconds(state, gang))
    if hold is None:
        return
    record.run.expects.append(hold.until)
    runs = bool(state.members(gang).bound) or phase.restarts_whole(gang.annotations)
    lacks = find_missing(state, gang).total > len(state.snapshot.held_for.get(key, ()))
    if runs and lacks and node is not None and is_schedulable(node):
        hold_room(state, key, slot, hold)


def review_holds(view: GangView) -> bool:
    """End holds that are not needed, extend those whose replacement exists; has one run out?"""
    state, key = view.state, view.key
    if view.gang.ended:
        drop_holds(state, key)
    present = {role_of(pod) for pod in view.members.bound}
    spare = -view.missing.total
    ran_out = False
    for slot in holds_of(state.snapshot, key):
        hold = slot.hold
        assert hold is not None
        spare += not hold.late
        if (spare > 0 and not hold.late) or (hold.late and hold.late in present):
            drop_hold(state, slot)
        elif view.members.pending and not hold.promised:
            extended = Hold(view.now + _seconds(state, view.gang), promised=True)
            state.snapshot.put(replace(slot, hold=extended))
        elif hold.until <= view.now:
            drop_hold(state, slot)
            ran_out = ran_out or not hold.late
    return ran_out


# -- members without a pod -------------------------------------------------------------------------


def exceeds_cluster(view: GangView, lacking: Mapping[str, int]) -> bool:
    """Whether more members are absent than all nodes could run if they were empty."""
    snapshot = view.state.snapshot
    snapshot.settle()
    room = snapshot.nodes.allocatable[snapshot.classes.column(PODS)].sum()
    return sum(lacking.values()) > min(MAX_PLACEHOLDERS, int(room))


def holds_will_follow(view: GangView) -> bool:
    """Whether members that are being deleted still use the room that will be held."""
    held = len(view.state.snapshot.held_for.get(view.key, ()))
    return held + len(view.members.leaving) >= view.missing.total > held


def placeholders(view: GangView, lacking: Mapping[str, int]) -> Iterator[Pod]:
    """Stand-ins for members that have no pod yet, in the likeness of a sibling of their role."""
    number = 0
    for role, n in sorted(lacking.items()):
        siblings = [pod for pod in view.gang.pods.values() if not role or role_of(pod) == role]
        likeness = min(siblings or view.members.bound, key=lambda pod: pod.metadata.name)
        for _ in range(n):
            number += 1
            yield _placeholder(likeness, f"{likeness.metadata.uid}/{number}")


def late_members(view: GangView) -> dict[str, Pod]:
    """Stand-ins for the late members that have no pod yet, by role."""
    requested = _read_late(view.annotations) if LATE_ANNOTATION in view.annotations else {}
    if not requested:
        return {}
    succeeded = view.record.run.succeeded.values()
    there = {role_of(pod) for pod in view.gang.pods.values()} | set(succeeded)
    return {
        role: _late(view, role, requests)
        for role, requests in sorted(requested.items())
        if role not in there
    }


def late_holds(view: GangView) -> tuple[Slot, ...]:
    """The slots held for late members that exist now."""
    roles = {role_of(pod) for pod in view.members.pending} - {""}
    slots = holds_of(view.state.snapshot, view.key)
    return tuple(slot for slot in slots if slot.hold is not None and slot.hold.late in roles)


def _read_late(annotations: Mapping[str, str]) -> dict[str, Any]:
    try:
        read = json.loads(annotations.get(LATE_ANNOTATION, "{}"))
    except ValueError:
        return {}
    roles = read.items() if isinstance(read, dict) else ()
    return {role.lower(): requests for role, requests in roles if isinstance(requests, dict)}


def _late(view: GangView, role: str, requests: dict[str, Any]) -> Pod:
    plain = {
        name: amount for name, amount in requests.items() if isinstance(amount, str | int | float)
    }
    main = Container(resources=ResourceRequirements(requests=plain))
    metadata = ObjectMeta(
        name=f"{view.key.name}-{role}",
        namespace=view.key.namespace,
        annotations={ROLE_ANNOTATION: role},
    )
    return _placeholder(Pod(metadata, PodSpec(containers=(main,))), f"{view.key}/{role}")


def _placeholder(likeness: Pod, uid: str) -> Pod:
    """A pod that does not exist, for the sake of its room."""
    metadata = msgspec.structs.replace(
        likeness.metadata, uid=f"{PLACEHOLDER}{uid}", deletion_timestamp=None
    )
    spec = msgspec.structs.replace(likeness.spec, node_name="")
    return Pod(metadata, spec, PodStatus())
