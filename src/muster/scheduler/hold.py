"""How much room is kept for members to come, and for how long.

Called by the state when a member leaves and by `decide`. Pure; time is an argument. This is what
ends the deadlock in which a member of a running gang dies, a rival takes its room, and both wait
for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from muster.api.meta import is_true
from muster.scheduler.roster import Muster, per_role

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster.api.core import Pod
    from muster.scheduler.gangs import Terms

HOLD_ANNOTATION = "muster.dev/hold"
ON_END_ANNOTATION = "muster.dev/on-hold-end"
AFTER_FAILURE = 300.0
AFTER_DELETION = 30.0

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


class Left(Enum):
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


def missing(terms: Terms, muster: Muster, gone: tuple[str, ...] = (), unnamed: int = 0) -> Missing:
    """What is missing; members that succeeded count as there, `gone` (their roles) too.

    `unnamed` are gone as well and nobody knows their roles: they stand for roles of which there is
    nobody first.
    """
    there = (*muster.bound, *muster.succeeded)
    have = per_role(there) if terms.roles else {}
    for role in gone:
        have[role] = have.get(role, 0) + 1
    roles = {role: n - have.get(role, 0) for role, n in terms.roles.items()}
    roles = {role: n for role, n in roles.items() if n > 0}
    if roles and unnamed:
        roles = _stand_in(roles, {*have, *per_role(muster.pending)}, unnamed)
    count = len(there) + len(gone) + unnamed
    return Missing(max(terms.min - count, sum(roles.values()), 0), roles)


def _stand_in(roles: Mapping[str, int], present: set[str], unnamed: int) -> dict[str, int]:
    left = {}
    for role in sorted(roles, key=lambda role: (role in present, role)):
        filled = min(unnamed, roles[role])
        unnamed -= filled
        left[role] = roles[role] - filled
    return {role: n for role, n in left.items() if n > 0}


def how_it_left(last: Pod, now: Pod | None, *, node_lost: bool) -> Left:
    """Why a bound member no longer uses its room; `now` is None once its object is gone."""
    pod = now or last
    if pod.status.phase == "Succeeded":
        return Left.SUCCEEDED
    evicted = is_true(pod.status.conditions, "DisruptionTarget")
    failed = pod.status.phase == "Failed" or evicted or node_lost
    return Left.FAILED if failed else Left.DELETED


def hold_for(left: Left, now: float, seconds: float) -> Hold | None:
    """The hold that a departure begins, if any."""
    if left is Left.SUCCEEDED or seconds <= 0:
        return None
    if left is Left.FAILED:
        return Hold(now + seconds, promised=True)
    return Hold(now + min(seconds, AFTER_DELETION), promised=False)


def prolonged(hold: Hold, now: float, seconds: float) -> Hold:
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
