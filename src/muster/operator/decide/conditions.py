"""A job's status: conditions and counts, and the rules by which conditions follow one another.

Pure. Called by `decide`. The rules (checked by a table in the tests):

1. once Succeeded or Failed is True no condition changes any more, so never both;
2. the same type, status and reason again changes nothing, not even the message;
3. a new status moves lastTransitionTime, a new reason alone does not;
4. a new condition goes to the end, in place of an older one of its type, so that the last one is
   what the State column shows; Running and Restarting replace each other; the end of a job and its
   suspension turn either to False where it stands.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Any

from muster.api.meta import timestamp
from muster.jobs import names
from muster.operator.build.labels import role_of
from muster.operator.decide import backoff, gang_restart, limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from muster.api.core import Pod
    from muster.api.meta import Raw
    from muster.jobs.job import Job

FINAL = ("Succeeded", "Failed")
TRANSIENT_FIELDS = ("waiting", "replaced", backoff.FIELD, limits.FIELD, gang_restart.FIELD)
"""What the status of a job that has ended or is suspended keeps nothing of."""
_EXCLUSIVE = {"Running": "Restarting", "Restarting": "Running"}


_SHAPES: dict[str, Callable[[Any], bool]] = {
    "conditions": lambda value: isinstance(value, list),
    "replicaStatuses": lambda value: isinstance(value, dict) and _are([*value.values()], dict),
    "startTime": lambda value: _is_time(value),
    "completionTime": lambda value: _is_time(value),
    "observedGeneration": lambda value: isinstance(value, int),
    "restarts": lambda value: isinstance(value, int),
    "launcherAttempt": lambda value: isinstance(value, int),
    "formed": lambda value: isinstance(value, bool),
    backoff.FIELD: lambda value: backoff.is_readable(value),
    limits.FIELD: lambda value: _are_counts(value),
    gang_restart.FIELD: lambda value: _are_counts(value),
    "unclaimed": lambda value: _are(value, str),
    "replaced": lambda value: _are(value, str),
    "waiting": lambda value: isinstance(value, dict),
}


def readable(written: object) -> Raw:
    """A status without what is not of the shape that we write: another operator may have been here.

    The first version kept replicaStatuses as a list, and anybody may write anything.
    """
    if not isinstance(written, dict):
        return {}
    kept = {name: v for name, v in written.items() if name not in _SHAPES or _SHAPES[name](v)}
    if "conditions" in kept:
        kept["conditions"] = [row for row in kept["conditions"] if _is_condition(row)]
    return kept


def _are_counts(value: object) -> bool:
    return isinstance(value, dict) and _are([*value.values()], int)


def _is_condition(row: object) -> bool:
    """Whether it is text under names that we know; what else there is in it is not ours."""
    fields = ("type", "status", "reason", "message", "lastTransitionTime")
    return (
        isinstance(row, dict)
        and bool(row.get("type"))
        and all(isinstance(row.get(field, ""), str) for field in fields)
    )


def _are(values: object, kind: type) -> bool:
    return isinstance(values, list) and all(isinstance(value, kind) for value in values)


def _is_time(value: object) -> bool:
    try:
        return datetime.fromisoformat(str(value)).tzinfo is not None
    except ValueError:
        return False


def time(status: Raw, field: str) -> datetime | None:
    """A time in the status, if it is there."""
    value = status.get(field)
    return datetime.fromisoformat(value) if value else None


def is_true(status: Raw, type_: str) -> bool:
    """Whether that condition is there and True."""
    found = condition(status, type_)
    return found is not None and found.get("status") == "True"


def condition(status: Raw, type_: str) -> Raw | None:
    """The condition of that type."""
    found: Iterable[Raw] = status.get("conditions") or ()
    return next((row for row in found if row.get("type") == type_), None)


def outcome(status: Raw) -> str | None:
    """Succeeded or Failed, once the job has ended."""
    return next((type_ for type_ in FINAL if is_true(status, type_)), None)


def with_condition(
    status: Raw, type_: str, value: str, reason: str, message: str, now: datetime
) -> Raw:
    """The status after this became so."""
    if outcome(status) is not None:
        return status
    old = condition(status, type_)
    if old is not None and (old.get("status"), old.get("reason")) == (value, reason):
        return status
    at = timestamp(now)
    moved = at if old is None or old.get("status") != value else old.get("lastTransitionTime", at)
    row = {
        "type": type_,
        "status": value,
        "reason": reason,
        "message": message,
        "lastUpdateTime": at,
        "lastTransitionTime": moved,
    }
    dropped = {type_, _EXCLUSIVE.get(type_)}
    kept = [c for c in status.get("conditions") or () if c.get("type") not in dropped]
    if type_ in FINAL:
        kept = [{**c, "status": "False"} if c.get("type") in _EXCLUSIVE else c for c in kept]
    return {**status, "conditions": [*kept, row]}


def suspended(job: Job, status: Raw, now: datetime) -> Raw:
    """The status of a job that was told to hold still."""
    reason, message = f"{job.kind}Suspended", f"{job.kind} {job.name} is suspended."
    at = timestamp(now)
    rows = [
        {**row, "status": "False", "reason": reason, "message": message, "lastTransitionTime": at}
        if row.get("type") in _EXCLUSIVE and row.get("status") == "True"
        else row
        for row in status.get("conditions") or ()
    ]
    idle = {
        role: {**counts, "active": 0}
        for role, counts in (status.get("replicaStatuses") or {}).items()
    }
    status = {**status, "conditions": rows}
    if idle:
        status["replicaStatuses"] = idle
    return with_condition(status, "Suspended", "True", reason, message, now)


def resumed(job: Job, status: Raw, now: datetime) -> Raw:
    """The status of a job that may go on; its time counts from now."""
    message = f"{job.kind} {job.name} is resumed."
    status = {**status, "startTime": timestamp(now)}
    return with_condition(status, "Suspended", "False", f"{job.kind}Resumed", message, now)


def replica_counts(job: Job, pods_of: dict[str, list[Pod]]) -> Raw:
    """replicaStatuses: Running pods are active, and one being deleted is nothing any more."""
    result: Raw = {}
    for replica_spec in job.replica_specs:
        pods = pods_of.get(replica_spec.role, [])
        active = [pod for pod in not_terminating(pods) if pod.status.phase == "Running"]
        row: dict[str, Any] = {
            "active": len(active),
            "succeeded": sum(pod.status.phase == "Succeeded" for pod in pods),
            "failed": sum(pod.status.phase == "Failed" for pod in not_terminating(pods)),
        }
        if job.job_kind.has_scale:
            row["selector"] = names.selector_text(
                job.job_kind.operator, job.name, replica_spec.role
            )
        result[replica_spec.role] = {name: count for name, count in row.items() if count}
    return result


def with_active(job: Job, final: Raw, staying: Sequence[Pod]) -> Raw:
    """The status of a failed job, with the pods that run on; success counts all as succeeded."""
    if not is_true(final, "Failed"):
        return final
    rows: Raw = {}
    running = Counter(
        role_of(job, p) for p in not_terminating(staying) if p.status.phase == "Running"
    )
    for role, row in (final.get("replicaStatuses") or {}).items():
        rest = {name: count for name, count in row.items() if name != "active"}
        rows[role] = {"active": running[role], **rest} if running[role] else rest
    return {**final, "replicaStatuses": rows} if rows else final


def not_terminating(pods: Sequence[Pod]) -> list[Pod]:
    """Those that nobody has asked to go."""
    return [pod for pod in pods if pod.metadata.deletion_timestamp is None]


def with_phases(status: Raw) -> Raw:
    """status.phase and status.state, for clients of the first version."""
    end = outcome(status)
    if end:
        return {**status, "phase": "Done", "state": end}
    if is_true(status, "Running") or is_true(status, "Restarting"):
        return {**status, "phase": "Running", "state": "Running"}
    return {**status, "phase": "Creating", "state": "Unknown"}


def merge_patch(old: Raw, new: Raw) -> Raw:
    """The merge patch that makes `new` of `old`."""
    result: Raw = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            inner = merge_patch(before, value)
            if inner:
                result[name] = inner
        elif value != before or name not in old:
            result[name] = value
    return result
