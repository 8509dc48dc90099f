"""How many replicas in which set: the arithmetic of rolling updates and of scaling. Pure.

What holds throughout a rolling update, as long as the sets' statuses are true: the sets ask for no
more than replicas + maxSurge pods, and no set is made smaller in a way that leaves fewer than
replicas - maxUnavailable pods available.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from muster.local.controllers.deployments.revisions import DESIRED, MAXIMUM, by_age

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from muster.local.controllers.kinds import Deployment, ReplicaSet

Sizes = dict[str, int]
"""The size that each set should have, by name; sets that stay as they are may be left out."""


def bounds(deployment: Deployment) -> tuple[int, int]:
    """maxSurge and maxUnavailable as numbers; never both 0, or nothing could ever move."""
    spec = deployment.spec
    rolling = spec.strategy.rolling_update
    if spec.strategy.type != "RollingUpdate" or rolling is None:
        return 0, 0
    surge = _share(rolling.max_surge, spec.replicas, up=True)
    unavailable = _share(rolling.max_unavailable, spec.replicas, up=False)
    return surge, min(unavailable if surge or unavailable else 1, spec.replicas)


def _share(value: int | str, whole: int, *, up: bool) -> int:
    if isinstance(value, int):
        return value
    exact = int(value.rstrip("%")) * whole / 100
    return math.ceil(exact) if up else math.floor(exact)


def total_replicas(sets: Iterable[ReplicaSet]) -> int:
    """How many pods these sets want."""
    return sum(one.spec.replicas for one in sets)


def available(sets: Iterable[ReplicaSet]) -> int:
    return sum(one.count("availableReplicas") for one in sets)


def new_size(deployment: Deployment, sets: Sequence[ReplicaSet], now: int) -> int:
    """The size of the current set, which has `now` replicas: what there is room for."""
    wanted = deployment.spec.replicas
    if deployment.spec.strategy.type != "RollingUpdate" or now >= wanted:
        return wanted
    room = wanted + bounds(deployment)[0] - total_replicas(sets)
    return now + max(0, min(room, wanted - now))


def shrink_old(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> Sizes:
    """The sizes of the old sets in a rolling update: the unhealthy go first, then the oldest."""
    _, unavailable = bounds(deployment)
    least = deployment.spec.replicas - unavailable
    coming = new.spec.replicas - new.count("availableReplicas")
    spare = total_replicas([*old, new]) - least - coming
    if spare <= 0:
        return {}
    sizes = {one.metadata.name: one.spec.replicas for one in by_age(old)}
    for one in by_age(old):
        sick = one.spec.replicas - one.count("availableReplicas")
        gone = max(0, min(sick, spare))
        sizes[one.metadata.name] -= gone
        spare -= gone
    # A set that was made smaller a moment ago may still report the pods it is losing as available;
    # what is asked for never does.
    healthy = min(available([*old, new]) - least, spare)
    for name, size in sizes.items():
        gone = max(0, min(size, healthy))
        sizes[name] -= gone
        healthy -= gone
    return sizes


def scale_in_proportion(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]
) -> Sizes:
    """The sizes when only the wanted number changed: in the middle of an update, in proportion."""
    wanted = deployment.spec.replicas
    everything = [*old, *([new] if new is not None else [])]
    active = [one for one in everything if one.spec.replicas]
    if len(active) <= 1:
        only = active[0] if active else new or (by_age(old)[-1] if old else None)
        return {} if only is None else {only.metadata.name: wanted}
    if new is not None and _saturated(deployment, new):
        return {one.metadata.name: 0 for one in old}
    if deployment.spec.strategy.type != "RollingUpdate":
        return {}
    return _in_proportion(deployment, active)


def _saturated(deployment: Deployment, new: ReplicaSet) -> bool:
    wanted = deployment.spec.replicas
    told = new.metadata.annotations.get(DESIRED) == str(wanted)
    return told and new.spec.replicas == wanted == new.count("availableReplicas")


def _in_proportion(deployment: Deployment, active: Sequence[ReplicaSet]) -> Sizes:
    """Share the difference among the sets by their sizes; what rounding leaves goes to the first.

    Growing, bigger and newer sets come first; shrinking, bigger and older ones.
    """
    wanted = deployment.spec.replicas
    allowed = wanted + bounds(deployment)[0] if wanted else 0
    missing = allowed - total_replicas(active)
    ages = {one.metadata.name: age for age, one in enumerate(by_age(active))}
    sign = -1 if missing > 0 else 1
    ordered = sorted(active, key=lambda one: (-one.spec.replicas, sign * ages[one.metadata.name]))
    sizes, left = {}, missing
    for one in ordered:
        part = _part(one, deployment, allowed, left) if missing else 0
        sizes[one.metadata.name] = one.spec.replicas + part
        left -= part
    first = ordered[0].metadata.name
    sizes[first] = max(0, sizes[first] + left)
    return sizes


def _part(one: ReplicaSet, deployment: Deployment, allowed: int, left: int) -> int:
    if not one.spec.replicas or not left:
        return 0
    before = one.metadata.annotations.get(MAXIMUM, "")
    basis = int(before) if before.isdigit() and int(before) else deployment.status.get("replicas")
    exact = one.spec.replicas * allowed / (basis or 1)
    fair = math.floor(exact + 0.5) - one.spec.replicas
    return min(fair, left) if left > 0 else max(fair, left)
