"""Which pods a rolling update replaces next: pure.

Without a surge, old pods are deleted, as many as `maxUnavailable` allows, and `decide.mend` creates
their successors. With a surge, successors are created first, as many as `maxSurge` allows, and an
old pod is deleted when its successor is available. Old pods that are not available are replaced at
once: that makes nothing worse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from localkube.controllers.daemon_sets.decide import Plan, Progress
from localkube.controllers.daemon_sets.node_fit import Fit
from localkube.controllers.workloads import share

if TYPE_CHECKING:
    from localkube.controllers.workloads import Pod


def roll(progress: Progress) -> Plan:
    """The next steps of a rolling update; none with the strategy OnDelete."""
    strategy = progress.daemon_set.spec.update_strategy
    if strategy.type != "RollingUpdate":
        return Plan()
    surge, unavailable = _bounds(progress)
    return _surge(progress, surge) if surge else _replace(progress, unavailable)


def _bounds(progress: Progress) -> tuple[int, int]:
    """maxSurge and maxUnavailable as numbers; never both 0, or no pod could be replaced."""
    rolling, whole = progress.daemon_set.spec.update_strategy.rolling_update, len(progress.wanted)
    if rolling is None:
        return 0, 1
    surge, unavailable = share(rolling.max_surge, whole), share(rolling.max_unavailable, whole)
    return surge, unavailable if surge or unavailable else 1


def _places(progress: Progress) -> dict[str, tuple[list[Pod], list[Pod]]]:
    """The new and the old pods of each node that has pods or should have one."""
    places = {}
    for name in sorted({*progress.pods, *progress.wanted}):
        pods = [pod for pod in progress.pods.get(name, ()) if not pod.terminating]
        new = [pod for pod in pods if progress.is_updated(pod)]
        places[name] = (new, [pod for pod in pods if pod not in new])
    return places


def _replace(progress: Progress, most_unavailable: int) -> Plan:
    """Delete old pods within the limit."""
    at_once: list[Pod] = []
    candidates: list[Pod] = []
    unavailable = 0
    for new, old in _places(progress).values():
        if len(new) + len(old) != 1:  # `mend` takes care of this node
            unavailable += 1
        elif new:
            unavailable += not progress.is_available(new[0])
        elif not progress.is_available(old[0]):
            at_once += old
            unavailable += 1
        else:
            candidates += old
    return Plan(delete=[*at_once, *candidates[: max(0, most_unavailable - unavailable)]])


def _surge(progress: Progress, most_extra: int) -> Plan:
    """Create successors within the limit, and delete old pods whose successor is available."""
    plan = Plan()
    candidates: list[str] = []
    leaving: list[Pod] = []
    extra = available = 0
    for name, (new, old) in _places(progress).items():
        if len(new) > 1 or len(old) > 1:  # `mend` takes care of this node
            extra += 1
            continue
        available += sum(map(progress.is_available, old or new))
        if old and not new:
            _start_surge(plan, progress, name, old[0], (candidates, leaving))
        elif old and progress.is_available(new[0]):
            plan.delete += old
        elif old:
            extra += 1
    plan.create += candidates[: max(0, most_extra - extra)]
    # A pod on a node that no longer fits goes when a pod elsewhere has taken over.
    plan.delete += leaving[: max(0, available - len(progress.wanted))]
    return plan


def _start_surge(
    plan: Plan, progress: Progress, node: str, old: Pod, lists: tuple[list[str], list[Pod]]
) -> None:
    """Sort a node that has an old pod only."""
    candidates, leaving = lists
    fits, available = progress.fits.get(node) is Fit.RUN, progress.is_available(old)
    if fits:
        (candidates if available else plan.create).append(node)
    else:
        (leaving if available else plan.delete).append(old)
