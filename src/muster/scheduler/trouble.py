"""Members for which no node would do, whatever it is: they are left out, and named.

Called by `decide`. A claim that is not there and a resource claim that nobody here understands
concern the pods that have them: the others are placed without them where the gang's terms allow it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from muster.scheduler import explain
from muster.scheduler.actions import Action, Say
from muster.scheduler.case import Case, wait
from muster.scheduler.explain import Reason
from muster.scheduler.gangs import ALONE
from muster.scheduler.parked import Spot, Wake

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster.api.core import Pod

UNSUPPORTED = "asks for resourceClaims, which are not supported"


@dataclass(frozen=True)
class Trouble:
    """Pods that cannot be placed: how many, the words for it, and what would wake them."""

    pods: frozenset[str]
    reason: Reason
    wakes: int


def trouble(case: Case) -> Trouble | None:
    """What keeps some of the gang's pending members from every node."""
    found: list[tuple[Pod, str]] = []
    storage = case.state.snapshot.volumes.trouble
    for pod in case.muster.pending:
        says = UNSUPPORTED if pod.spec.resource_claims else storage(pod)
        if says:
            found.append((pod, says))
    if not found:
        return None
    pod, says = found[0]
    text = says if case.key.dialect == ALONE.name else f"{pod.metadata.name}: {says}"
    more = f"; and {len(found) - 1} more" if len(found) > 1 else ""
    supported = any(says is not UNSUPPORTED for _, says in found)
    code = explain.UNSUPPORTED if says is UNSUPPORTED else explain.NO_VOLUME
    uids = frozenset(pod.metadata.uid for pod, _ in found)
    return Trouble(uids, Reason(code, text + more), Wake.STORAGE if supported else Wake.NONE)


def without(case: Case, found: Trouble, fill: Callable[[Case], list[Action]]) -> list[Action]:
    """Place the others, then say what is the matter, unless they wait for something else."""
    entry = case.entry
    before, since, heard = entry.reason, entry.waits_since, entry.heard
    able = tuple(pod for pod in case.muster.pending if pod.metadata.uid not in found.pods)
    muster = replace(case.muster, pending=able)
    actions = fill(replace(case, muster=muster))
    spots = case.state.parked.spots
    if entry.reason is None or entry.reason.code == explain.NOT_ENOUGH_MEMBERS:
        spot = spots.get(case.key) or Spot(Wake.NONE)
        wait(case, found.reason, Spot(spot.wakes | found.wakes, spot.classes))
    elif case.key in spots:
        spots[case.key].wakes |= found.wakes
    if before is not None:
        entry.waits_since = since
    actions = [action for action in actions if not isinstance(action, Say)]
    if entry.reason == before and entry.heard <= heard:
        return actions
    return [*actions, Say(case.key, entry.reason)]
