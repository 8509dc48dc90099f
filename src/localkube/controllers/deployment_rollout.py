"""The next steps of a deployment, and its status: pure.

Each call returns only the next steps; their events lead to the next call. So a rollout has no
state besides the replica sets themselves, and a restart in its middle loses nothing. A rolling
update moves replicas from the old sets to the current set: as long as the statuses of the sets are
true, they request no more than replicas + maxSurge pods in total, and no set is scaled down so that
fewer than replicas - maxUnavailable pods are available. Recreate scales the old sets to zero first,
and waits for the last pod to end.

`kubectl rollout status` and `kubectl wait` read nothing but the status: its counts and the
conditions Available and Progressing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kubekit.objects import conditions
from kubekit.objects.annotation_values import read_integer
from kubekit.objects.meta import Raw, read_timestamp, shifted
from localkube.controllers import deployment_revisions
from localkube.controllers.deployment_revisions import DESIRED, MAXIMUM, by_age
from localkube.controllers.workloads import NO_LIMIT, Deployment, ReplicaSet, share

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime


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
    available = sum(rs.count("availableReplicas") for rs in (*old, new))
    healthy = min(available - minimum, surplus)
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


PROGRESSING = "Progressing"
DONE, LATE = "NewReplicaSetAvailable", "ProgressDeadlineExceeded"
_PAUSED, _RESUMED = "DeploymentPaused", "DeploymentResumed"


def status(
    deployment: Deployment,
    new: ReplicaSet | None,
    old: Sequence[ReplicaSet],
    now: datetime,
) -> Raw:
    """The whole status, with its conditions."""
    counts = _counts(deployment, new, old)
    known = conditions.with_condition(_known(deployment), _availability(deployment, counts, now))
    if has_deadline(deployment):
        known = _progress(deployment, counts, new, known, now)
    else:
        known = conditions.without(known, PROGRESSING)
    return counts | {"conditions": _with_failure(known, [*([new] if new else []), *old])}


def _counts(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> Raw:
    sets = [*old, *([new] if new is not None else [])]

    def total(field: str) -> int:
        return sum(rs.count(field) for rs in sets)

    counts = {
        "replicas": total("replicas"),
        "updatedReplicas": new.count("replicas") if new is not None else 0,
        "readyReplicas": total("readyReplicas"),
        "availableReplicas": total("availableReplicas"),
        "unavailableReplicas": max(0, total_replicas(sets) - total("availableReplicas")),
        "collisionCount": deployment.count("collisionCount"),
    }
    result: Raw = {name: count for name, count in counts.items() if count}
    result["observedGeneration"] = deployment.metadata.generation
    result["terminatingReplicas"] = total("terminatingReplicas")
    return result


def _condition(type_: str, status: str, reason: str, message: str, now: datetime) -> Raw:
    condition = conditions.new_condition(type_, status, reason, message, now)
    return condition | {"lastUpdateTime": condition["lastTransitionTime"]}


def _progressing(
    known: list[Raw], status: str, reason: str, message: str, now: datetime
) -> list[Raw]:
    """The conditions with this one of the type Progressing."""
    condition = _condition(PROGRESSING, status, reason, message, now)
    return conditions.with_condition(known, condition)


def _known(deployment: Deployment) -> list[Raw]:
    known: list[Raw] = deployment.status.get("conditions") or []
    return known


def _availability(deployment: Deployment, counts: Raw, now: datetime) -> Raw:
    minimum = deployment.spec.replicas - bounds(deployment)[1]
    if counts.get("availableReplicas", 0) >= minimum:
        message = "Deployment has minimum availability."
        return _condition("Available", "True", "MinimumReplicasAvailable", message, now)
    message = "Deployment does not have minimum availability."
    return _condition("Available", "False", "MinimumReplicasUnavailable", message, now)


def has_deadline(deployment: Deployment) -> bool:
    return deployment.spec.progress_deadline_seconds != NO_LIMIT


def complete(deployment: Deployment, counts: Raw) -> bool:
    """Whether all pods have the current template and are available."""
    fields = ("updatedReplicas", "replicas", "availableReplicas")
    observed = counts.get("observedGeneration", 0) >= deployment.metadata.generation
    return observed and all(counts.get(f, 0) == deployment.spec.replicas for f in fields)


def _progress(
    deployment: Deployment, counts: Raw, new: ReplicaSet | None, known: list[Raw], now: datetime
) -> list[Raw]:
    """The conditions after a pause, a completion, progress, or an exceeded deadline."""
    before = conditions.find(known, PROGRESSING)
    # A pause is written before anything else, so that the time spent paused does not count.
    reason = before.get("reason") if before is not None else ""
    if deployment.spec.paused and reason not in (_PAUSED, LATE):
        return _progressing(known, "Unknown", _PAUSED, "Deployment is paused", now)
    if not deployment.spec.paused and reason == _PAUSED:
        return _progressing(known, "Unknown", _RESUMED, "Deployment is resumed", now)
    all_updated = counts.get("replicas", 0) == counts.get("updatedReplicas", 0)
    if deployment.spec.paused or (reason == DONE and all_updated):
        return known
    name = (
        f'ReplicaSet "{new.metadata.name}"' if new else f'Deployment "{deployment.metadata.name}"'
    )
    if complete(deployment, counts):
        return _progressing(known, "True", DONE, f"{name} has successfully progressed.", now)
    if _has_progress(deployment, counts) or before is None:
        return _with_progress(known, before, new, name, now)
    if late(deployment, before, now):
        return _progressing(known, "False", LATE, f"{name} has timed out progressing.", now)
    return known


def _with_progress(
    known: list[Raw], before: Raw | None, new: ReplicaSet | None, name: str, now: datetime
) -> list[Raw]:
    if before is None and new is None:
        return known
    message = f"{name} is progressing."
    condition = _condition(PROGRESSING, "True", "ReplicaSetUpdated", message, now)
    # Progress renews lastUpdateTime, from which the deadline counts. The transition is older.
    if before is not None and before["status"] == "True":
        condition["lastTransitionTime"] = before.get("lastTransitionTime")
    return [*conditions.without(known, PROGRESSING), condition]


def created(deployment: Deployment, name: str, now: datetime) -> list[Raw]:
    """The conditions after the set of a new template was created."""
    message = f'Created new replica set "{name}"'
    return _progressing(_known(deployment), "True", "NewReplicaSetCreated", message, now)


def _has_progress(deployment: Deployment, counts: Raw) -> bool:
    """Whether the counts are better than the counts in the status."""
    before = deployment.status

    def gain(field: str) -> int:
        return int(counts.get(field, 0)) - int(before.get(field) or 0)

    outdated = gain("replicas") - gain("updatedReplicas")
    fields = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return outdated < 0 or any(gain(field) > 0 for field in fields)


def late(deployment: Deployment, progressing: Raw | None, now: datetime) -> bool:
    """Whether there was no progress for longer than the deadline."""
    if progressing is None or progressing.get("reason") == DONE:
        return False
    return progressing.get("reason") == LATE or now >= _due(deployment, progressing, now)


def _due(deployment: Deployment, progressing: Raw, now: datetime) -> datetime:
    since = read_timestamp(progressing.get("lastUpdateTime")) or now
    # Times are written in whole seconds: a deadline counts from the end of that second.
    return shifted(since, deployment.spec.progress_deadline_seconds + 1)


def deadline_in(deployment: Deployment, status: Raw, now: datetime) -> float | None:
    """Seconds until the progress deadline of a running rollout."""
    progressing = conditions.find(status.get("conditions") or [], PROGRESSING)
    if progressing is None or progressing.get("reason") in (DONE, LATE, _PAUSED):
        return None
    if not has_deadline(deployment) or deployment.spec.paused:
        return None
    return max(0.0, (_due(deployment, progressing, now) - now).total_seconds())


def _with_failure(known: list[Raw], sets: Sequence[ReplicaSet]) -> list[Raw]:
    """The conditions with the ReplicaFailure of the first set that has one."""
    for rs in sets:
        failure = conditions.find(rs.status.get("conditions") or [], "ReplicaFailure")
        if failure is not None:
            copied = {**failure, "lastUpdateTime": failure.get("lastTransitionTime")}
            return conditions.with_condition(known, copied)
    return conditions.without(known, "ReplicaFailure")


@dataclass(frozen=True)
class UpdateSet:
    """Patch a set: its size, its annotations, its minReadySeconds."""

    target: ReplicaSet
    replicas: int
    annotations: dict[str, str]
    min_ready_seconds: int


@dataclass
class Plan:
    """The next steps, in this order."""

    revision: int = 0
    """Of the current template."""
    create: int | None = None
    """Create the set of the current template, with this size."""
    update: list[UpdateSet] = field(default_factory=list)
    write_revision: bool = False
    """Write the current revision on the deployment itself."""
    delete: list[ReplicaSet] = field(default_factory=list)
    """Sets beyond the history limit."""


def decide(
    deployment: Deployment, sets: Sequence[ReplicaSet], *, old_pods_left: bool = False
) -> Plan:
    """The next steps; `old_pods_left` while pods of old templates have not ended."""
    if deployment.metadata.deletion_timestamp is not None:
        return Plan()
    new = deployment_revisions.current(deployment, sets)
    old = [rs for rs in sets if rs is not new]
    revision = max(
        deployment_revisions.next_number(old),
        deployment_revisions.number(new.metadata) if new else 0,
    )
    plan = Plan(revision)
    # A deployment that is paused or was just scaled does not roll: its sets only share the new
    # number among them.
    if deployment.spec.paused or _was_scaled(deployment, sets):
        sizes = scale_in_proportion(deployment, new, old)
    elif deployment.spec.strategy.type == "Recreate":
        sizes = _recreate(deployment, new, old, old_pods_left)
    else:
        sizes = _roll(deployment, new, old)
    if new is None and not deployment.spec.paused and _may_start(deployment, old, old_pods_left):
        plan.create = new_size(deployment, old, 0)
    plan.update = _changes(deployment, new, sets, sizes, revision)
    numbered = deployment_revisions.number(deployment.metadata) == revision
    begun = new is not None or plan.create is not None or bool(plan.update)
    plan.write_revision = begun and not deployment.spec.paused and not numbered
    # As in Kubernetes, old sets are deleted only while no rollout is under way.
    if deployment.spec.paused or complete(deployment, deployment.status):
        plan.delete = _outdated(deployment, old)
    return plan


def _may_start(deployment: Deployment, old: Sequence[ReplicaSet], old_pods_left: bool) -> bool:
    """Whether the current set may be created: with Recreate only when no old pod is left."""
    empty = not old_pods_left and not total_replicas(old)
    return deployment.spec.strategy.type != "Recreate" or empty


def _was_scaled(deployment: Deployment, sets: Sequence[ReplicaSet]) -> bool:
    """Whether the desired number changed since the sets were last scaled."""
    sizes = {rs.metadata.annotations.get(DESIRED) for rs in sets if rs.spec.replicas}
    return bool(sizes - {None, str(deployment.spec.replicas)})


def _recreate(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], old_pods_left: bool
) -> Sizes:
    if total_replicas(old) or old_pods_left:
        return {rs.metadata.name: 0 for rs in old}
    return {} if new is None else {new.metadata.name: deployment.spec.replicas}


def _roll(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> Sizes:
    if new is None:
        return {}
    # One direction per call: the old sets shrink only when the current set cannot grow.
    size = new_size(deployment, [*old, new], new.spec.replicas)
    if size != new.spec.replicas:
        return {new.metadata.name: size}
    return shrink_old(deployment, new, old)


def _changes(
    deployment: Deployment,
    new: ReplicaSet | None,
    sets: Sequence[ReplicaSet],
    sizes: Sizes,
    revision: int,
) -> list[UpdateSet]:
    """The patches of sets that differ from these sizes, annotations and minReadySeconds."""
    patches = []
    for rs in sets:
        meta, size = rs.metadata, sizes.get(rs.metadata.name, rs.spec.replicas)
        annotations, ready = dict(meta.annotations), rs.spec.min_ready_seconds
        if rs is new and not deployment.spec.paused:
            annotations = deployment_revisions.set_annotations(deployment, rs, revision)
            ready = deployment.spec.min_ready_seconds
        if size or rs.spec.replicas:
            annotations |= size_annotations(deployment)
        current = (rs.spec.replicas, meta.annotations, rs.spec.min_ready_seconds)
        if (size, annotations, ready) != current:
            patches.append(UpdateSet(rs, size, annotations, ready))
    return patches


def size_annotations(deployment: Deployment) -> dict[str, str]:
    """The deployment's size, recorded on every set that is scaled."""
    desired = deployment.spec.replicas
    return {DESIRED: str(desired), MAXIMUM: str(desired + bounds(deployment)[0])}


def _outdated(deployment: Deployment, old: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    """The empty old sets beyond the history limit, lowest revisions first."""
    limit = deployment.spec.revision_history_limit
    history = [rs for rs in old if rs.metadata.deletion_timestamp is None]
    if limit == NO_LIMIT or len(history) <= limit:
        return []
    history.sort(key=lambda rs: deployment_revisions.number(rs.metadata))
    return [rs for rs in history[: len(history) - limit] if _empty(rs)]


def _empty(rs: ReplicaSet) -> bool:
    observed = rs.count("observedGeneration") >= rs.metadata.generation
    return observed and not rs.spec.replicas and not rs.count("replicas")
