"""A deployment's status: its counts and the conditions Available and Progressing: pure.

`kubectl rollout status` and `kubectl wait` read nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.objects import conditions
from kubekit.objects.meta import read_timestamp, shifted
from localkube.controllers.deployments.scaling import bounds, total_replicas
from localkube.controllers.workloads import NO_LIMIT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from kubekit.objects.meta import Raw
    from localkube.controllers.workloads import Deployment, ReplicaSet

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
        "collisionCount": int(deployment.status.get("collisionCount") or 0),
    }
    result: Raw = {name: count for name, count in counts.items() if count}
    result["observedGeneration"] = deployment.metadata.generation
    result["terminatingReplicas"] = total("terminatingReplicas")
    return result


def _condition(type_: str, status: str, reason: str, message: str, now: datetime) -> Raw:
    condition = conditions.new_condition(type_, status, reason, message, now)
    return condition | {"lastUpdateTime": condition["lastTransitionTime"]}


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
    paused = _pausing(deployment, before, now)
    if paused is not None:
        return conditions.with_condition(known, paused)
    finished = before is not None and before.get("reason") == DONE
    if deployment.spec.paused or (
        finished and counts.get("replicas", 0) == counts.get("updatedReplicas", 0)
    ):
        return known
    name = (
        f'ReplicaSet "{new.metadata.name}"' if new else f'Deployment "{deployment.metadata.name}"'
    )
    if complete(deployment, counts):
        message = f"{name} has successfully progressed."
        done = _condition(PROGRESSING, "True", DONE, message, now)
        return conditions.with_condition(known, done)
    if _has_progress(deployment, counts) or before is None:
        return _with_progress(known, before, new, name, now)
    if late(deployment, before, now):
        message = f"{name} has timed out progressing."
        timeout = _condition(PROGRESSING, "False", LATE, message, now)
        return conditions.with_condition(known, timeout)
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


def _pausing(deployment: Deployment, before: Raw | None, now: datetime) -> Raw | None:
    """The condition after the deployment was paused or resumed, once each time."""
    reason = before.get("reason") if before is not None else ""
    if deployment.spec.paused and reason not in (_PAUSED, LATE):
        return _condition(PROGRESSING, "Unknown", _PAUSED, "Deployment is paused", now)
    if not deployment.spec.paused and reason == _PAUSED:
        return _condition(PROGRESSING, "Unknown", _RESUMED, "Deployment is resumed", now)
    return None


def created(deployment: Deployment, name: str, now: datetime) -> list[Raw]:
    """The conditions after the set of a new template was created."""
    message = f'Created new replica set "{name}"'
    condition = _condition(PROGRESSING, "True", "NewReplicaSetCreated", message, now)
    return conditions.with_condition(_known(deployment), condition)


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
