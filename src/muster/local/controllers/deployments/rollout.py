"""A deployment: what to do next with its replica sets. Pure.

Called by `rollout/deployments.py`, once per change of anything concerned. Each call answers the
next steps only, and what they lead to calls again. Strategies: a rolling update moves replicas from
the old sets to the current one within bounds; Recreate empties the old ones first, to the last pod.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from muster.local.controllers.deployments import progress, revisions, scaling
from muster.local.controllers.deployments.revisions import DESIRED, MAXIMUM
from muster.local.controllers.kinds import NO_LIMIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.local.controllers.deployments.scaling import Sizes
    from muster.local.controllers.kinds import Deployment, ReplicaSet


@dataclass(frozen=True)
class CreateSet:
    """Create the set of the current template."""

    replicas: int
    revision: int


@dataclass(frozen=True)
class UpdateSet:
    """Patch a set: its size, its annotations, its minReadySeconds."""

    target: ReplicaSet
    replicas: int
    annotations: dict[str, str]
    min_ready_seconds: int


@dataclass(frozen=True)
class SetRevision:
    """Write the current revision on the deployment itself."""

    revision: int


@dataclass(frozen=True)
class DeleteSet:
    """Delete a set that history no longer needs."""

    target: ReplicaSet


Step = CreateSet | UpdateSet | SetRevision | DeleteSet


def decide(
    deployment: Deployment, sets: Sequence[ReplicaSet], *, old_pods_left: bool = False
) -> list[Step]:
    """The next steps; `old_pods_left` while pods of former templates have not ended."""
    if deployment.metadata.deletion_timestamp is not None:
        return []
    new = revisions.current(deployment, sets)
    old = [one for one in sets if one is not new]
    count = max(revisions.next_number(old), revisions.number(new.metadata) if new else 0)
    steps: list[Step] = []
    if deployment.spec.paused or _was_scaled(deployment, sets):
        sizes = scaling.scale_in_proportion(deployment, new, old)
    elif deployment.spec.strategy.type == "Recreate":
        sizes = _recreate(deployment, new, old, old_pods_left)
    else:
        sizes = _roll(deployment, new, old)
    if new is None and not deployment.spec.paused and _may_start(deployment, old, old_pods_left):
        steps.append(CreateSet(scaling.new_size(deployment, old, 0), count))
    steps += _changes(deployment, new, sets, sizes, count)
    if (new is not None or steps) and not deployment.spec.paused:
        steps += _number(deployment, count)
    if deployment.spec.paused or progress.complete(deployment, deployment.status):
        steps += _outdated(deployment, old)
    return steps


def _may_start(deployment: Deployment, old: Sequence[ReplicaSet], old_pods_left: bool) -> bool:
    """Whether the current set may be made: at once, or with Recreate when nothing old is left."""
    emptied = not old_pods_left and not scaling.total_replicas(old)
    return deployment.spec.strategy.type != "Recreate" or emptied


def _was_scaled(deployment: Deployment, sets: Sequence[ReplicaSet]) -> bool:
    """Whether the wanted number changed since the sets were last given theirs."""
    told = {one.metadata.annotations.get(DESIRED) for one in sets if one.spec.replicas}
    return bool(told - {None, str(deployment.spec.replicas)})


def _recreate(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], old_pods_left: bool
) -> Sizes:
    if scaling.total_replicas(old) or old_pods_left:
        return {one.metadata.name: 0 for one in old}
    return {} if new is None else {new.metadata.name: deployment.spec.replicas}


def _roll(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> Sizes:
    if new is None:
        return {}
    size = scaling.new_size(deployment, [*old, new], new.spec.replicas)
    if size != new.spec.replicas:
        return {new.metadata.name: size}
    return scaling.shrink_old(deployment, new, old)


def _changes(
    deployment: Deployment,
    new: ReplicaSet | None,
    sets: Sequence[ReplicaSet],
    sizes: Sizes,
    count: int,
) -> list[Step]:
    """The patches that make the sets so; a set that is so already gets none."""
    steps: list[Step] = []
    for one in sets:
        meta, size = one.metadata, sizes.get(one.metadata.name, one.spec.replicas)
        notes, ready = dict(meta.annotations), one.spec.min_ready_seconds
        if one is new and not deployment.spec.paused:
            notes = revisions.set_annotations(deployment, one, count)
            ready = deployment.spec.min_ready_seconds
        if size or one.spec.replicas:
            notes |= told(deployment)
        if (size, notes, ready) != (
            one.spec.replicas,
            meta.annotations,
            one.spec.min_ready_seconds,
        ):
            steps.append(UpdateSet(one, size, notes, ready))
    return steps


def told(deployment: Deployment) -> dict[str, str]:
    """What a set is told of the deployment's size when it is given its own."""
    wanted = deployment.spec.replicas
    return {DESIRED: str(wanted), MAXIMUM: str(wanted + scaling.bounds(deployment)[0])}


def _number(deployment: Deployment, count: int) -> list[Step]:
    return [] if revisions.number(deployment.metadata) == count else [SetRevision(count)]


def _outdated(deployment: Deployment, old: Sequence[ReplicaSet]) -> list[Step]:
    """Old sets beyond the history limit, the lowest revisions first; only those that are empty."""
    limit = deployment.spec.revision_history_limit
    kept = [one for one in old if one.metadata.deletion_timestamp is None]
    if limit == NO_LIMIT or len(kept) <= limit:
        return []
    kept.sort(key=lambda one: revisions.number(one.metadata))
    return [DeleteSet(one) for one in kept[: len(kept) - limit] if _empty(one)]


def _empty(one: ReplicaSet) -> bool:
    seen = one.count("observedGeneration") >= one.metadata.generation
    return seen and not one.spec.replicas and not one.count("replicas")
