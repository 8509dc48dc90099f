"""Why a gang waits, in words a person can act on. Pure.

The same sentence goes to pod conditions, events, group status and `muster explain`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

from muster.api.gang_dialects import DIALECT_BY_NAME, GangKey, GangTerms
from muster.api.quantity import format_amount
from muster.scheduler.cluster.pod_class import PODS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from muster.api.meta import Key
    from muster.scheduler.cluster.snapshot import Hold
    from muster.scheduler.gangs.members import Members
    from muster.scheduler.placement.demand import ClassShortage, Unplaced


@dataclass(frozen=True)
class Reason:
    """A reason code (one word, stable, counted in metrics) and a sentence."""

    code: str
    text: str


MAX_NAMED_GANGS = 3
"""Gangs named as those for whom room is kept."""
NOT_ENOUGH_MEMBERS = "NotEnoughMembers"
NO_SUCH_GROUP = "NoSuchGroup"
NOT_ENOUGH_ROOM = "NotEnoughRoom"
FITS_NOWHERE = "FitsNowhere"
NOT_TOGETHER = "DoesNotFitTogether"
UNSUPPORTED = "Unsupported"
BIND_FAILED = "BindFailed"
PREEMPTING = "Preempting"
PROVISIONING = "Provisioning"
NO_VOLUME = "NoVolume"
LEAVING = "Leaving"
INTERNAL = "Internal"


def no_group(key: GangKey) -> Reason:
    """The pods name a group and there is none."""
    kinds = " or ".join(kind.resource for kind in DIALECT_BY_NAME[key.dialect].kinds)
    return Reason(NO_SUCH_GROUP, f"waits for {key.name} to be created: there is no such {kinds}")


def too_few(terms: GangTerms, there: int, members: Members, roles: dict[str, int]) -> Reason:
    """Members are yet to be created."""
    text = f"{there} of {terms.min} members exist"
    lacking = [f"{n} more {_many(role or 'member', n)}" for role, n in sorted(roles.items())]
    if lacking:
        text += f"; needs {' and '.join(lacking)}"
    if members.gated:
        text += f"; {members.gated} held back by scheduling gates"
    if members.foreign:
        text += f"; {members.foreign} addressed to another scheduler and not bound yet"
    return Reason(NOT_ENOUGH_MEMBERS, text)


def min_resources(lacks: Mapping[str, int]) -> Reason:
    """The group's minResources are not free, all nodes taken together."""
    short = ", ".join(f"{format_amount(name, n)} {name}" for name, n in sorted(lacks.items()))
    return Reason(NOT_ENOUGH_ROOM, f"the group's minResources are not free: short {short}")


def unplaced(result: Unplaced, nodes: int) -> Reason:
    """Members are there and room is not; `nodes` is how many nodes there are."""
    if nodes == 0:
        return Reason(FITS_NOWHERE, "there are no nodes")
    if not result.short:
        return Reason(NOT_ENOUGH_ROOM, "does not fit")
    if not result.alone:
        names = " and ".join(_members(short) for short in result.short)
        return Reason(NOT_TOGETHER, f"each role fits by itself, but not {names} beside the others")
    code = NOT_ENOUGH_ROOM if all(short.ever for short in result.short) else FITS_NOWHERE
    return Reason(code, "; ".join(_one(short) for short in result.short))


def with_holds(
    reason: Reason, rooms: Mapping[GangKey, Sequence[Hold]], wall_offset: float
) -> Reason:
    """A reason, and for whom and until when rooms are kept that would help."""
    said = []
    for key, holds in islice(rooms.items(), MAX_NAMED_GANGS):
        until = datetime.fromtimestamp(max(kept.until for kept in holds) + wall_offset, UTC)
        many = "1 room is" if len(holds) == 1 else f"{len(holds)} rooms are"
        said.append(f"{many} kept for {key} until {until:%H:%M:%SZ}")
    if len(rooms) > MAX_NAMED_GANGS:
        said.append(f"others for {len(rooms) - MAX_NAMED_GANGS} more gangs")
    return Reason(reason.code, "; ".join((reason.text, *said)))


def with_reserved(reason: Reason, nodes: int, gang: GangKey) -> Reason:
    """A reason, and the nodes that are reserved for a starving gang."""
    text = f"{nodes} nodes are kept for {gang}, which waited too long"
    return Reason(reason.code, f"{reason.text}; {text}")


def with_budgets(reason: Reason, budgets: Sequence[Key]) -> Reason:
    """A reason, and the disruption budgets but for which room would be made by eviction."""
    names, more = ", ".join(map(str, budgets[:MAX_NAMED_GANGS])), len(budgets) - MAX_NAMED_GANGS
    which = names if more <= 0 else f"{names} and {more} more"
    by = f"the budget {which} protects" if len(budgets) == 1 else f"the budgets {which} protect"
    said = f"it would fit in place of pods of lower priority, which {by}"
    return Reason(reason.code, f"{reason.text}; {said}")


def _one(short: ClassShortage) -> str:
    parts = [f"{short.fits} of {_members(short)} fit"]
    if short.lacks and short.ever:
        lacks = (f"{format_amount(name, n)} {name}" for name, n in short.lacks.items())
        parts.append("short " + ", ".join(lacks))
    if not short.ever:
        each = (f"{format_amount(name, n)} {name}" for name, n in _each(short))
        parts.append(f"no node would do even if it were empty: each asks for {', '.join(each)}")
    if short.removed:
        (says, n), *rest = short.removed
        first = f"{n} node{'s' * (n != 1)} {says}"
        parts.append(", ".join([first, *(f"{n} {says}" for says, n in rest)]))
    return "; ".join(parts)


def _each(short: ClassShortage) -> list[tuple[str, int]]:
    return [(name, n) for name, n in short.want.cls.requests.items() if name != PODS]


def _members(short: ClassShortage) -> str:
    return f"{short.wanted} {_many(short.want.role or 'pod', short.wanted)}"


def _many(what: str, n: int) -> str:
    return what if n == 1 or what.endswith("s") else f"{what}s"
