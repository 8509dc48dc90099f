"""The sizes of replica sets in rolling updates and when a deployment is scaled: pure.

During a rolling update, as long as the statuses of the sets are true, the sets request no more than
replicas + maxSurge pods in total, and no set is scaled down so that fewer than
replicas - maxUnavailable pods are available.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kubekit.objects.annotation_values import read_integer
from localkube.controllers.deployments.revisions import DESIRED, MAXIMUM, by_age
from localkube.controllers.workloads import share

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from localkube.controllers.workloads import Deployment, ReplicaSet

Sizes = dict[str, int]
"""The size of each set by name; sets that keep their size may be left out."""


def bounds(deployment: Deployment) -> tuple[int, int]:
    """maxSurge and maxUnavailable as numbers; never both 0, or no pod could be replaced."""
    spec = deployment.spec
    rolling = spec.strategy.rolling_update
    if spec.strategy.type != "RollingUpdate" or rolling is None:
        return 0, 0
    surge = share(rolling.max_surge, spec.replicas)
    unavailable = share(rolling.max_unavailable, spec.replicas, round_up=False)
    # The API forbids 0 and 0, but 0 and 10 % of 3 replicas, rounded down, is the same.
    return surge, min(unavailable if surge or unavailable else 1, spec.replicas)


def total_replicas(sets: Iterable[ReplicaSet]) -> int:
    """How many pods these sets request."""
    return sum(rs.spec.replicas for rs in sets)


def available(sets: Iterable[ReplicaSet]) -> int:
    return sum(rs.count("availableReplicas") for rs in sets)


def new_size(deployment: Deployment, sets: Sequence[ReplicaSet], size: int) -> int:
    """The next size of the current set, which has `size` replicas: as large as maxSurge allows."""
    desired = deployment.spec.replicas
    if deployment.spec.strategy.type != "RollingUpdate" or size >= desired:
        return desired
    allowed = desired + bounds(deployment)[0] - total_replicas(sets)
    return size + max(0, min(allowed, desired - size))


def shrink_old(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> Sizes:
    """The sizes of old sets in a rolling update: unavailable pods go first, then oldest sets."""
    _, unavailable = bounds(deployment)
    minimum = deployment.spec.replicas - unavailable
    # Pods of the new set that are not available yet do not allow old pods to go.
    starting = new.spec.replicas - new.count("availableReplicas")
    surplus = total_replicas([*old, new]) - minimum - starting
    if surplus <= 0:
        return {}
    sizes = {rs.metadata.name: rs.spec.replicas for rs in by_age(old)}
    for rs in by_age(old):
        unhealthy = rs.spec.replicas - rs.count("availableReplicas")
        removed = max(0, min(unhealthy, surplus))
        sizes[rs.metadata.name] -= removed
        surplus -= removed
    # A set that was just scaled down may still report the pods it loses as available; `surplus`
    # comes from the requested sizes, which are never behind.
    healthy = min(available([*old, new]) - minimum, surplus)
    for name, size in sizes.items():
        removed = max(0, min(size, healthy))
        sizes[name] -= removed
        healthy -= removed
    return sizes


def scale_in_proportion(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]
) -> Sizes:
    """The sizes when only the desired number changed; during an update, in proportion."""
    active = [rs for rs in (*old, *([new] if new is not None else [])) if rs.spec.replicas]
    if len(active) <= 1:
        only = active[0] if active else new or (by_age(old)[-1] if old else None)
        return {} if only is None else {only.metadata.name: deployment.spec.replicas}
    if new is not None and _saturated(deployment, new):
        return {rs.metadata.name: 0 for rs in old}
    if deployment.spec.strategy.type != "RollingUpdate":
        return {}
    return _in_proportion(deployment, active)


def _saturated(deployment: Deployment, new: ReplicaSet) -> bool:
    desired = deployment.spec.replicas
    current = new.metadata.annotations.get(DESIRED) == str(desired)
    return current and new.spec.replicas == desired == new.count("availableReplicas")


def _in_proportion(deployment: Deployment, active: Sequence[ReplicaSet]) -> Sizes:
    """Share the difference among the sets by their sizes; the first set gets the rounding rest.

    When growing, larger and newer sets come first; when shrinking, larger and older sets.
    """
    desired = deployment.spec.replicas
    allowed = desired + bounds(deployment)[0] if desired else 0
    missing = allowed - total_replicas(active)
    ages = {rs.metadata.name: age for age, rs in enumerate(by_age(active))}
    sign = -1 if missing > 0 else 1
    ordered = sorted(active, key=lambda rs: (-rs.spec.replicas, sign * ages[rs.metadata.name]))
    sizes, left = {}, missing
    for rs in ordered:
        part = _part(rs, deployment, allowed, left) if missing else 0
        sizes[rs.metadata.name] = rs.spec.replicas + part
        left -= part
    first = ordered[0].metadata.name
    sizes[first] = max(0, sizes[first] + left)
    return sizes


def _part(rs: ReplicaSet, deployment: Deployment, allowed: int, left: int) -> int:
    if not rs.spec.replicas or not left:
        return 0
    before = read_integer(rs.metadata.annotations.get(MAXIMUM, ""))
    # The size that the set's share was computed from: at the last scaling, surge included.
    basis = before or deployment.status.get("replicas")
    exact = rs.spec.replicas * allowed / (basis or 1)
    fair = math.floor(exact + 0.5) - rs.spec.replicas
    return min(fair, left) if left > 0 else max(fair, left)
