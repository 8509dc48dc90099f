"""What a deployment reports: its counts, whether enough is available, whether it gets on. Pure.

`kubectl rollout status` and `kubectl wait` read nothing else.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from muster.local.controllers import conditions
from muster.local.controllers.deployments.scaling import bounds, total_replicas
from muster.local.controllers.kinds import NO_LIMIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.api.meta import Raw
    from muster.local.controllers.kinds import Deployment, ReplicaSet

PROGRESSING = "Progressing"
DONE, LATE = "NewReplicaSetAvailable", "ProgressDeadlineExceeded"
_PAUSED, _RESUMED = "DeploymentPaused", "DeploymentResumed"


def status(
    deployment: Deployment,
    new: ReplicaSet | None,
    old: Sequence[ReplicaSet],
    now: datetime,
) -> Raw:
    """The whole status, its conditions included."""
    found = _counts(deployment, new, old)
    rows = _known(deployment)
    rows = conditions.with_condition(rows, _availability(deployment, found, now))
    if has_deadline(deployment):
        rows = _progress(deployment, found, new, rows, now)
    else:
        rows = conditions.without(rows, PROGRESSING)
    return found | {"conditions": _failure(rows, [*([new] if new else []), *old])}


def _counts(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> Raw:
    everything = [*old, *([new] if new is not None else [])]

    def total(field: str) -> int:
        return sum(one.count(field) for one in everything)

    counts = {
        "replicas": total("replicas"),
        "updatedReplicas": new.count("replicas") if new is not None else 0,
        "readyReplicas": total("readyReplicas"),
        "availableReplicas": total("availableReplicas"),
        "unavailableReplicas": max(0, total_replicas(everything) - total("availableReplicas")),
        "collisionCount": int(deployment.status.get("collisionCount") or 0),
    }
    found: Raw = {name: count for name, count in counts.items() if count}
    found["observedGeneration"] = deployment.metadata.generation
    found["terminatingReplicas"] = total("terminatingReplicas")
    return found


def _row(type_: str, status: str, reason: str, message: str, now: datetime) -> Raw:
    row = conditions.new_condition(type_, status, reason, message, now)
    return row | {"lastUpdateTime": row["lastTransitionTime"]}


def _known(deployment: Deployment) -> list[Raw]:
    rows: list[Raw] = deployment.status.get("conditions") or []
    return rows


def _availability(deployment: Deployment, found: Raw, now: datetime) -> Raw:
    least = deployment.spec.replicas - bounds(deployment)[1]
    if found.get("availableReplicas", 0) >= least:
        words = "Deployment has minimum availability."
        return _row("Available", "True", "MinimumReplicasAvailable", words, now)
    words = "Deployment does not have minimum availability."
    return _row("Available", "False", "MinimumReplicasUnavailable", words, now)


def has_deadline(deployment: Deployment) -> bool:
    return deployment.spec.progress_deadline_seconds != NO_LIMIT


def complete(deployment: Deployment, found: Raw) -> bool:
    """Whether every pod there is, is of the current template, and available."""
    wanted = deployment.spec.replicas
    counts = (found.get(f, 0) for f in ("updatedReplicas", "replicas", "availableReplicas"))
    seen = found.get("observedGeneration", 0) >= deployment.metadata.generation
    return seen and all(count == wanted for count in counts)


def _progress(
    deployment: Deployment, found: Raw, new: ReplicaSet | None, rows: list[Raw], now: datetime
) -> list[Raw]:
    """The Progressing row: a pause, a completion, a step forward or a deadline that passed."""
    row = conditions.find(rows, PROGRESSING)
    paused = _pausing(deployment, row, now)
    if paused is not None:
        return conditions.with_condition(rows, paused)
    finished = row is not None and row.get("reason") == DONE
    if deployment.spec.paused or (
        finished and found.get("replicas", 0) == found.get("updatedReplicas", 0)
    ):
        return rows
    who = f'ReplicaSet "{new.metadata.name}"' if new else f'Deployment "{deployment.metadata.name}"'
    if complete(deployment, found):
        words = f"{who} has successfully progressed."
        return conditions.with_condition(rows, _row(PROGRESSING, "True", DONE, words, now))
    if _moved(deployment, found) or row is None:
        return _stepped(rows, row, new, who, now)
    if late(deployment, row, now):
        words = f"{who} has timed out progressing."
        return conditions.with_condition(rows, _row(PROGRESSING, "False", LATE, words, now))
    return rows


def _stepped(
    rows: list[Raw], row: Raw | None, new: ReplicaSet | None, who: str, now: datetime
) -> list[Raw]:
    if row is None and new is None:
        return rows
    words = f"{who} is progressing."
    fresh = _row(PROGRESSING, "True", "ReplicaSetUpdated", words, now)
    if row is not None and row["status"] == "True":
        fresh["lastTransitionTime"] = row.get("lastTransitionTime")
    return [*conditions.without(rows, PROGRESSING), fresh]


def _pausing(deployment: Deployment, row: Raw | None, now: datetime) -> Raw | None:
    """The row that says that it was paused or resumed, once each time."""
    reason = row.get("reason") if row is not None else ""
    if deployment.spec.paused and reason not in (_PAUSED, LATE):
        return _row(PROGRESSING, "Unknown", _PAUSED, "Deployment is paused", now)
    if not deployment.spec.paused and reason == _PAUSED:
        return _row(PROGRESSING, "Unknown", _RESUMED, "Deployment is resumed", now)
    return None


def created(deployment: Deployment, name: str, now: datetime) -> list[Raw]:
    """The conditions once the set of a new template was made."""
    words = f'Created new replica set "{name}"'
    row = _row(PROGRESSING, "True", "NewReplicaSetCreated", words, now)
    return conditions.with_condition(_known(deployment), row)


def _moved(deployment: Deployment, found: Raw) -> bool:
    """Whether the counts are better than those reported last."""
    before = deployment.status

    def gain(field: str) -> int:
        return int(found.get(field, 0)) - int(before.get(field) or 0)

    outdated = gain("replicas") - gain("updatedReplicas")
    fields = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return outdated < 0 or any(gain(field) > 0 for field in fields)


def late(deployment: Deployment, row: Raw | None, now: datetime) -> bool:
    """Whether nothing moved for longer than the deadline."""
    if row is None or row.get("reason") == DONE:
        return False
    return row.get("reason") == LATE or now >= _due(deployment, row)


def _due(deployment: Deployment, row: Raw) -> datetime:
    since = datetime.fromisoformat(row["lastUpdateTime"])
    # Times are written in whole seconds: a deadline counts from the end of that second.
    return since + timedelta(seconds=deployment.spec.progress_deadline_seconds + 1)


def look_again(deployment: Deployment, found: Raw, now: datetime) -> float | None:
    """Seconds until the deadline of a rollout under way."""
    row = conditions.find(found.get("conditions") or [], PROGRESSING)
    waiting = row is not None and row.get("reason") not in (DONE, LATE, _PAUSED)
    if not waiting or row is None or not has_deadline(deployment) or deployment.spec.paused:
        return None
    return max(0.0, (_due(deployment, row) - now).total_seconds())


def _failure(rows: list[Raw], sets: Sequence[ReplicaSet]) -> list[Raw]:
    """Why pods cannot be made, as the first set that has trouble says it."""
    for one in sets:
        row = conditions.find(one.status.get("conditions") or [], "ReplicaFailure")
        if row is not None:
            copied = {**row, "lastUpdateTime": row.get("lastTransitionTime")}
            return conditions.with_condition(rows, copied)
    return conditions.without(rows, "ReplicaFailure")
