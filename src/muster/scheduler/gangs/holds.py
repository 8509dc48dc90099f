"""How much room is kept for members to come, and for how long.

Called by the state when a member leaves and by `decide`. Pure; time is an argument. This is what
ends the deadlock in which a member of a running gang dies, a rival takes its room, and both wait
for ever.

The rooms kept for one gang: ended, lengthened, and the stand-ins placed into new ones.

Called by `decide`. How long a room is kept is in `hold`; that a room passes to its gang the
moment a member leaves it is in `state`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import msgspec

from muster.api.core import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from muster.api.gang_dialects import ROLE_ANNOTATION, role_of
from muster.api.meta import ObjectMeta, condition_is_true
from muster.scheduler.cluster.pod_class import PODS
from muster.scheduler.gangs.roster import Members, count_by_role

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from muster.api.gang_dialects import GangKey, GangTerms
    from muster.scheduler.decisions.decision import GangView
    from muster.scheduler.state import State


HOLD_ANNOTATION = "muster.dev/hold"
ON_END_ANNOTATION = "muster.dev/on-hold-end"
SECONDS_AFTER_FAILURE = 300.0
SECONDS_AFTER_DELETION = 30.0

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


class Departure(Enum):
    """How a member left its room."""

    SUCCEEDED = "succeeded"  # satisfied: nothing is kept
    FAILED = "failed"  # failed, evicted or lost with its node: a replacement is to be expected
    DELETED = "deleted"  # somebody deleted it: a replacement may come


@dataclass(frozen=True)
class Hold:
    """One room kept: until when, and whether it is already for the full time."""

    until: float
    promised: bool
    late: str = ""
    """The role of the member that is to come late, if the room is for such a one."""


@dataclass(frozen=True)
class Missing:
    """How many members a gang lacks to reach its minimum, in all and by role."""

    total: int
    roles: Mapping[str, int]


def missing(
    terms: GangTerms, members: Members, gone: tuple[str, ...] = (), unnamed: int = 0
) -> Missing:
    """What is missing; members that succeeded count as there, `gone` (their roles) too.

    `unnamed` are gone as well and nobody knows their roles: they stand for roles of which there is
    nobody first.
    """
    there = (*members.bound, *members.succeeded)
    have = count_by_role(there) if terms.roles else {}
    for role in gone:
        have[role] = have.get(role, 0) + 1
    roles = {role: n - have.get(role, 0) for role, n in terms.roles.items()}
    roles = {role: n for role, n in roles.items() if n > 0}
    if roles and unnamed:
        roles = _fill_roles(roles, {*have, *count_by_role(members.pending)}, unnamed)
    count = len(there) + len(gone) + unnamed
    return Missing(max(terms.min - count, sum(roles.values()), 0), roles)


def _fill_roles(roles: Mapping[str, int], present: set[str], unnamed: int) -> dict[str, int]:
    left = {}
    for role in sorted(roles, key=lambda role: (role in present, role)):
        filled = min(unnamed, roles[role])
        unnamed -= filled
        left[role] = roles[role] - filled
    return {role: n for role, n in left.items() if n > 0}


def departure_of(last: Pod, now: Pod | None, *, node_lost: bool) -> Departure:
    """Why a bound member no longer uses its room; `now` is None once its object is gone."""
    pod = now or last
    if pod.status.phase == "Succeeded":
        return Departure.SUCCEEDED
    evicted = condition_is_true(pod.status.conditions, "DisruptionTarget")
    failed = pod.status.phase == "Failed" or evicted or node_lost
    return Departure.FAILED if failed else Departure.DELETED


def hold_after(left: Departure, now: float, seconds: float) -> Hold | None:
    """The hold that a departure begins, if any."""
    if left is Departure.SUCCEEDED or seconds <= 0:
        return None
    if left is Departure.FAILED:
        return Hold(now + seconds, promised=True)
    return Hold(now + min(seconds, SECONDS_AFTER_DELETION), promised=False)


def extended(hold: Hold, now: float, seconds: float) -> Hold:
    """The hold once a replacement exists: for the full time from then on, once."""
    return hold if hold.promised else Hold(now + seconds, promised=True)


def hold_seconds(annotations: Mapping[str, str], default: float) -> float:
    """How long a gang wants its rooms kept: `90`, `90s`, `5m`, `1h`; nonsense means the default."""
    text = annotations.get(HOLD_ANNOTATION, "").strip()
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    try:
        seconds = float(number) * _UNITS[unit]
    except ValueError:
        return default
    return seconds if 0 <= seconds < 1e9 else default


def restarts_on_end(annotations: Mapping[str, str]) -> bool:
    """Whether the members left are deleted when a hold ends, so that the gang starts again."""
    return annotations.get(ON_END_ANNOTATION, "") == "restart"


PLACEHOLDER = "phantom/"
MAX_PLACEHOLDERS = 10_000
"""Members that room is kept for before they exist."""
LATE_ANNOTATION = "muster.dev/late"
"""On a group: members that come after the others have started and are not counted in its minimum,
as JSON from role to what one such member requests. Their room is placed with the gang and held."""


def review_holds(view: GangView) -> bool:
    """End holds that are not needed; lengthen those whose replacement has come. Has one run out?"""
    state, record = view.state, view.record
    record.victims &= state.snapshot.slots.keys()
    orphaned = view.gang.label_only and not view.started and not record.preempts
    if view.gang.ended or orphaned:
        drop_holds(state, view.key)
    for uid in sorted(uid for uid, kept in record.holds.items() if not kept.late)[
        view.missing.total :
    ]:
        state.drop_room(view.key, uid)
    _review_late_holds(view)
    if view.members.pending:
        seconds = state.hold_seconds(view.gang)
        for uid, kept in record.holds.items():
            if not kept.promised:
                record.holds[uid] = extended(kept, view.now, seconds)
                state.wake_at(view.key, record.holds[uid].until)
    ended = [uid for uid, kept in record.holds.items() if kept.until <= view.now]
    needed = any(not record.holds[uid].late for uid in ended)
    for uid in ended:
        state.drop_room(view.key, uid)
    return needed


def drop_holds(state: State, key: GangKey) -> None:
    """Keep nothing for a gang any more."""
    for uid in list(state.record(key).holds):
        state.drop_room(key, uid)


def _review_late_holds(view: GangView) -> None:
    """A late member that has its node needs no room any more."""
    if not any(kept.late for kept in view.record.holds.values()):
        return
    there = {role_of(pod) for pod in view.members.bound}
    for uid, kept in list(view.record.holds.items()):
        if kept.late in there and kept.late:
            view.state.drop_room(view.key, uid)


def missing_pods(view: GangView) -> dict[str, int]:
    """Members that are missing and have no pod yet, by role; `""` for those of any role."""
    waiting = count_by_role(view.members.pending) if view.missing.roles else {}
    roles = {role: n - waiting.get(role, 0) for role, n in view.missing.roles.items()}
    lacking = {role: n for role, n in roles.items() if n > 0}
    rest = view.missing.total - len(view.members.pending) - sum(lacking.values())
    return {**lacking, "": rest} if rest > 0 else lacking


def exceeds_cluster(view: GangView, lacking: Mapping[str, int]) -> bool:
    """Whether so many are absent that all nodes, were they empty, could not hold them."""
    snapshot = view.state.snapshot
    if not lacking:
        return False
    snapshot.settle()
    room = snapshot.nodes.allocatable[snapshot.classes.column(PODS)].sum()
    return sum(lacking.values()) > min(MAX_PLACEHOLDERS, int(room))


def holds_will_follow(view: GangView) -> bool:
    """Whether members that are being deleted still sit in the rooms that will be held."""
    kept = len(view.record.holds)
    return kept + len(view.members.leaving) >= view.missing.total > kept


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
    """Stand-ins for the members that come late and have no pod yet, by role."""
    asked = _read_late(view.annotations) if LATE_ANNOTATION in view.annotations else {}
    if not asked:
        return {}
    there = {role_of(pod) for pod in view.gang.pods.values()} | set(view.record.succeeded.values())
    return {
        role: _late(view, role, requests)
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


def is_placeholder(pod: Pod) -> bool:
    return pod.metadata.uid.startswith(PLACEHOLDER)
