"""The rooms kept for one gang: ended, lengthened, and the stand-ins placed into new ones.

Called by `decide`. How long a room is kept is in `hold`; that a room passes to its gang the
moment a member leaves it is in `state`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from muster.api.core import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from muster.api.meta import ObjectMeta
from muster.scheduler import hold
from muster.scheduler.gangs import ROLE_ANNOTATION, role_of
from muster.scheduler.podclass import PODS
from muster.scheduler.roster import per_role

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from muster.scheduler.case import Case
    from muster.scheduler.gangs import GangKey
    from muster.scheduler.state import State

PHANTOM = "phantom/"
MOST = 10_000
"""Members that room is kept for before they exist."""
LATE_ANNOTATION = "muster.dev/late"
"""On a group: members that come after the others have started and are not counted in its minimum,
as JSON from role to what one such member requests. Their room is placed with the gang and held."""


def tend_rooms(case: Case) -> bool:
    """End holds that are not needed; lengthen those whose replacement has come. Has one run out?"""
    state, entry = case.state, case.entry
    entry.victims &= state.snapshot.slots.keys()
    orphaned = case.gang.label_only and not case.started and not entry.preempts
    if case.gang.ended or orphaned:
        give_up_rooms(state, case.key)
    for uid in sorted(uid for uid, kept in entry.holds.items() if not kept.late)[
        case.missing.total :
    ]:
        state.drop_room(case.key, uid)
    _tend_late(case)
    if case.muster.pending:
        seconds = state.hold_seconds(case.gang)
        for uid, kept in entry.holds.items():
            if not kept.promised:
                entry.holds[uid] = hold.prolonged(kept, case.now, seconds)
                state.look_again(case.key, entry.holds[uid].until)
    ended = [uid for uid, kept in entry.holds.items() if kept.until <= case.now]
    needed = any(not entry.holds[uid].late for uid in ended)
    for uid in ended:
        state.drop_room(case.key, uid)
    return needed


def give_up_rooms(state: State, key: GangKey) -> None:
    """Keep nothing for a gang any more."""
    for uid in list(state.entry(key).holds):
        state.drop_room(key, uid)


def _tend_late(case: Case) -> None:
    """A late member that has its node needs no room any more."""
    if not any(kept.late for kept in case.entry.holds.values()):
        return
    there = {role_of(pod) for pod in case.muster.bound}
    for uid, kept in list(case.entry.holds.items()):
        if kept.late in there and kept.late:
            case.state.drop_room(case.key, uid)


def absent(case: Case) -> dict[str, int]:
    """Members that are missing and have no pod yet, by role; `""` for those of any role."""
    waiting = per_role(case.muster.pending) if case.missing.roles else {}
    roles = {role: n - waiting.get(role, 0) for role, n in case.missing.roles.items()}
    lacking = {role: n for role, n in roles.items() if n > 0}
    rest = case.missing.total - len(case.muster.pending) - sum(lacking.values())
    return {**lacking, "": rest} if rest > 0 else lacking


def too_many(case: Case, lacking: Mapping[str, int]) -> bool:
    """Whether so many are absent that all nodes, were they empty, could not hold them."""
    snapshot = case.state.snapshot
    if not lacking:
        return False
    snapshot.settle()
    room = snapshot.nodes.allocatable[snapshot.classes.column(PODS)].sum()
    return sum(lacking.values()) > min(MOST, int(room))


def rooms_come_back(case: Case) -> bool:
    """Whether members that are being deleted still sit in the rooms that will be held."""
    kept = len(case.entry.holds)
    return kept + len(case.muster.leaving) >= case.missing.total > kept


def phantoms(case: Case, lacking: Mapping[str, int]) -> Iterator[Pod]:
    """Stand-ins for members that have no pod yet, in the likeness of a sibling of their role."""
    number = 0
    for role, n in sorted(lacking.items()):
        siblings = [pod for pod in case.gang.pods.values() if not role or role_of(pod) == role]
        likeness = min(siblings or case.muster.bound, key=lambda pod: pod.metadata.name)
        for _ in range(n):
            number += 1
            yield _phantom(likeness, f"{likeness.metadata.uid}/{number}")


def late_members(case: Case) -> dict[str, Pod]:
    """Stand-ins for the members that come late and have no pod yet, by role."""
    asked = _read_late(case.annotations) if LATE_ANNOTATION in case.annotations else {}
    if not asked:
        return {}
    there = {role_of(pod) for pod in case.gang.pods.values()} | set(case.entry.succeeded.values())
    return {
        role: _late(case, role, requests)
        for role, requests in sorted(asked.items())
        if role not in there
    }


def _read_late(annotations: Mapping[str, str]) -> dict[str, Any]:
    try:
        read = json.loads(annotations.get(LATE_ANNOTATION, "{}"))
    except ValueError:
        return {}
    roles = read.items() if isinstance(read, dict) else ()
    return {role.lower(): asked for role, asked in roles if isinstance(asked, dict)}


def _late(case: Case, role: str, requests: dict[str, Any]) -> Pod:
    plain = {
        name: amount for name, amount in requests.items() if isinstance(amount, str | int | float)
    }
    main = Container(resources=ResourceRequirements(requests=plain))
    metadata = ObjectMeta(
        name=f"{case.key.name}-{role}",
        namespace=case.key.namespace,
        annotations={ROLE_ANNOTATION: role},
    )
    return _phantom(Pod(metadata, PodSpec(containers=(main,))), f"{case.key}/{role}")


def _phantom(likeness: Pod, uid: str) -> Pod:
    """A pod that does not exist, for the sake of its room."""
    metadata = msgspec.structs.replace(
        likeness.metadata, uid=f"{PHANTOM}{uid}", deletion_timestamp=None
    )
    spec = msgspec.structs.replace(likeness.spec, node_name="")
    return Pod(metadata, spec, PodStatus())


def is_phantom(pod: Pod) -> bool:
    return pod.metadata.uid.startswith(PHANTOM)
