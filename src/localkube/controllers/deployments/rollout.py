"""The next steps of a deployment: pure.

Each call returns only the next steps; their events lead to the next call. So a rollout has no
state besides the replica sets themselves, and a restart in its middle loses nothing. A rolling
update moves replicas from the old sets to the current set, within maxSurge and maxUnavailable;
Recreate scales the old sets to zero first, and waits for the last pod to end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from localkube.controllers.deployments import progress, revisions, scaling
from localkube.controllers.deployments.revisions import DESIRED, MAXIMUM
from localkube.controllers.workloads import NO_LIMIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localkube.controllers.deployments.scaling import Sizes
    from localkube.controllers.workloads import Deployment, ReplicaSet


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
    """Delete a set beyond the history limit."""

    target: ReplicaSet


Step = CreateSet | UpdateSet | SetRevision | DeleteSet


def decide(
    deployment: Deployment, sets: Sequence[ReplicaSet], *, old_pods_left: bool = False
) -> list[Step]:
    """The next steps; `old_pods_left` while pods of old templates have not ended."""
    if deployment.metadata.deletion_timestamp is not None:
        return []
    new = revisions.current(deployment, sets)
    old = [rs for rs in sets if rs is not new]
    revision = max(revisions.next_number(old), revisions.number(new.metadata) if new else 0)
    steps: list[Step] = []
    # A deployment that is paused or was just scaled does not roll: its sets only share the new
    # number among them.
    if deployment.spec.paused or _was_scaled(deployment, sets):
        sizes = scaling.scale_in_proportion(deployment, new, old)
    elif deployment.spec.strategy.type == "Recreate":
        sizes = _recreate(deployment, new, old, old_pods_left)
    else:
        sizes = _roll(deployment, new, old)
    if new is None and not deployment.spec.paused and _may_start(deployment, old, old_pods_left):
        steps.append(CreateSet(scaling.new_size(deployment, old, 0), revision))
    steps += _changes(deployment, new, sets, sizes, revision)
    if (new is not None or steps) and not deployment.spec.paused:
        steps += _number(deployment, revision)
    # As in Kubernetes, old sets are deleted only while no rollout is under way.
    if deployment.spec.paused or progress.complete(deployment, deployment.status):
        steps += _outdated(deployment, old)
    return steps


def _may_start(deployment: Deployment, old: Sequence[ReplicaSet], old_pods_left: bool) -> bool:
    """Whether the current set may be created: with Recreate only when no old pod is left."""
    empty = not old_pods_left and not scaling.total_replicas(old)
    return deployment.spec.strategy.type != "Recreate" or empty


def _was_scaled(deployment: Deployment, sets: Sequence[ReplicaSet]) -> bool:
    """Whether the desired number changed since the sets were last scaled."""
    sizes = {rs.metadata.annotations.get(DESIRED) for rs in sets if rs.spec.replicas}
    return bool(sizes - {None, str(deployment.spec.replicas)})


def _recreate(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], old_pods_left: bool
) -> Sizes:
    if scaling.total_replicas(old) or old_pods_left:
        return {rs.metadata.name: 0 for rs in old}
    return {} if new is None else {new.metadata.name: deployment.spec.replicas}


def _roll(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> Sizes:
    if new is None:
        return {}
    # One direction per call: the old sets shrink only when the current set cannot grow.
    size = scaling.new_size(deployment, [*old, new], new.spec.replicas)
    if size != new.spec.replicas:
        return {new.metadata.name: size}
    return scaling.shrink_old(deployment, new, old)


def _changes(
    deployment: Deployment,
    new: ReplicaSet | None,
    sets: Sequence[ReplicaSet],
    sizes: Sizes,
    revision: int,
) -> list[Step]:
    """The patches of sets that differ from these sizes, annotations and minReadySeconds."""
    steps: list[Step] = []
    for rs in sets:
        meta, size = rs.metadata, sizes.get(rs.metadata.name, rs.spec.replicas)
        annotations, ready = dict(meta.annotations), rs.spec.min_ready_seconds
        if rs is new and not deployment.spec.paused:
            annotations = revisions.set_annotations(deployment, rs, revision)
            ready = deployment.spec.min_ready_seconds
        if size or rs.spec.replicas:
            annotations |= size_annotations(deployment)
        current = (rs.spec.replicas, meta.annotations, rs.spec.min_ready_seconds)
        if (size, annotations, ready) != current:
            steps.append(UpdateSet(rs, size, annotations, ready))
    return steps


def size_annotations(deployment: Deployment) -> dict[str, str]:
    """The deployment's size, recorded on every set that is scaled."""
    desired = deployment.spec.replicas
    return {DESIRED: str(desired), MAXIMUM: str(desired + scaling.bounds(deployment)[0])}


def _number(deployment: Deployment, revision: int) -> list[Step]:
    return [] if revisions.number(deployment.metadata) == revision else [SetRevision(revision)]


def _outdated(deployment: Deployment, old: Sequence[ReplicaSet]) -> list[Step]:
    """The deletions of empty old sets beyond the history limit, lowest revisions first."""
    limit = deployment.spec.revision_history_limit
    history = [rs for rs in old if rs.metadata.deletion_timestamp is None]
    if limit == NO_LIMIT or len(history) <= limit:
        return []
    history.sort(key=lambda rs: revisions.number(rs.metadata))
    return [DeleteSet(rs) for rs in history[: len(history) - limit] if _empty(rs)]


def _empty(rs: ReplicaSet) -> bool:
    observed = rs.count("observedGeneration") >= rs.metadata.generation
    return observed and not rs.spec.replicas and not rs.count("replicas")
