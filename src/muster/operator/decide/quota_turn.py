"""Whether a job may create pods now, or waits for a ResourceQuota: its turn in the quota's line.

A job learns that a quota limits it when the API server refuses a pod: the message names the quota
and the resources that it lacks. A job that is not refused, but needs these resources too, joins the
line without asking, unless the quota has a scope: whether that holds for its pods only the server
knows. It asks when nobody ahead of it needs the same. A job that needs more than the quota allows
in all does not ask before that changes.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from kubekit.objects.meta import timestamp
from kubekit.objects.quantity import Amount, InvalidQuantity
from muster.jobs.job_status import QUOTA_EXCEEDED, QuotaWait, Waiting
from muster.jobs.quota_line import amount, blocks, is_hopeless, rank, resource_of
from muster.operator.build.gang import gang_of, limits_of, requests_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from muster.jobs.job import Job, Replica
    from muster.operator.decision_types import Observed, Settings

_REFUSAL = re.compile(
    r"exceeded quota: (?P<name>[^,\s]+), requested: (?P<requested>.*?), used: .*?,"
    r" limited: (?P<limited>\S*)"
)
_PODS = ("pods", "count/pods")
_MAX_RESOURCES = 16
"""Resources that a status names."""


class Refusal(NamedTuple):
    """The words of the API server about a pod that exceeds a quota."""

    name: str
    requested: dict[str, str]
    limited: dict[str, str]


def refusal_of(message: str) -> Refusal | None:
    """The parts of a refusal; None if it does not say what the quota lacks."""
    found = _REFUSAL.search(message)
    if found is None:
        return None
    return Refusal(found["name"], _amounts(found["requested"]), _amounts(found["limited"]))


def _amounts(text: str) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in text.split(","))
    return {name.strip(): value for name, _, value in pairs if value}


def wait_for_quota(
    job: Job, missing: Sequence[Replica], observed: Observed, settings: Settings, now: datetime
) -> Waiting | None:
    """Why none of the missing pods may be created now; None if they may."""
    if not (observed.quota_refusal or observed.quota_line or _wait_so_far(job)):
        return None  # the usual case
    whole = _created_together(job, missing, observed, settings)
    if observed.quota_refusal:
        return _after_refusal(job, whole, observed, now)
    if not missing:
        return None
    hopeless = _hopeless(job, whole, observed, _wait_so_far(job))
    return hopeless or _behind_others(job, missing, observed, now)


def _created_together(
    job: Job, missing: Sequence[Replica], observed: Observed, settings: Settings
) -> Sequence[Replica]:
    """The replicas that need room in the quota at once: of a gang, all that have no node.

    A gang that is refused in part gives its pods without a node back.
    """
    if gang_of(job, observed, settings).dialect == "none":
        return missing[:1]
    placed = {pod.metadata.name for pod in observed.pods if pod.spec.node_name}
    whole = [replica for replica in job.replicas() if replica.name not in placed]
    return whole if len(whole) > len(missing) else missing


def _hopeless(
    job: Job, whole: Sequence[Replica], observed: Observed, before: QuotaWait | None
) -> Waiting | None:
    """A job that needs more than the quota allows does not ask until one of both changes."""
    quota = observed.quotas.get(before.name) if before is not None else None
    # Of a quota with a scope, the job may need less than it seems.
    if before is None or quota is None or quota.spec.is_scoped:
        return None
    needs = _needs(job, whole, before.needs)
    limits = {name: str(quota.spec.hard[name]) for name in needs if name in quota.spec.hard}
    wait = replace(before, needs=needs, limits=limits)
    if not is_hopeless(wait):
        return None
    amounts = ", ".join(f"{needs[name]} {name} of {limit}" for name, limit in limits.items())
    never = "" if job.status.has_started else "can never start: it "
    text = (
        f"{never}needs more than the ResourceQuota {quota.metadata.name} allows in all: {amounts}; "
        "use fewer replicas, or ask for a larger quota"
    )
    return Waiting(QUOTA_EXCEEDED, text, quota=wait)


def _behind_others(
    job: Job, missing: Sequence[Replica], observed: Observed, now: datetime
) -> Waiting | None:
    """The wait for a job that is ahead in line and needs the same resources."""
    own = _with_rank(job, _wait_so_far(job) or QuotaWait(""), observed, now)
    place = rank(own, _created(job), job.name)
    for other in observed.quota_line:
        if other.rank >= place:
            return None
        quota = observed.quotas.get(other.wait.name)
        if quota is not None and quota.spec.is_scoped and own.name != other.wait.name:
            continue
        shared = {name: need_of(job, missing, name) for name in other.wait.needs}
        shared = {name: need for name, need in shared.items() if need}
        if blocks(other.wait, shared):
            return _behind(other.wait, shared, own)
    return None


def is_asking(job: Job, missing: Sequence[Replica], observed: Observed) -> bool:
    """Whether a job in line has its turn: it stands there until all its pods are created."""
    if not missing or observed.blocked is not None or observed.template_rejection:
        return False
    return _wait_so_far(job) is not None


def _after_refusal(
    job: Job, whole: Sequence[Replica], observed: Observed, now: datetime
) -> Waiting:
    waiting = Waiting(QUOTA_EXCEEDED, observed.quota_refusal)
    refusal = refusal_of(observed.quota_refusal)
    if refusal is None:
        return waiting
    needs = _needs(job, whole, dict(list(refusal.requested.items())[:_MAX_RESOURCES]))
    limits = {name: refusal.limited[name] for name in needs if name in refusal.limited}
    quota = _with_rank(job, QuotaWait(refusal.name, needs, limits), observed, now)
    return _hopeless(job, whole, observed, quota) or replace(waiting, quota=quota)


def _needs(job: Job, replicas: Sequence[Replica], known: Mapping[str, str]) -> dict[str, str]:
    """What these replicas need of the resources, or what is known of a resource in other words."""
    needs = {name: need_of(job, replicas, name) for name in known}
    return {name: _written(name, need) if need else known[name] for name, need in needs.items()}


def _behind(quota: QuotaWait, shared: dict[str, int], own: QuotaWait) -> Waiting:
    needs = {name: _written(name, need) for name, need in shared.items()}
    limits = {name: quota.limits[name] for name in needs if name in quota.limits}
    text = (
        f"waits in the line of the ResourceQuota {quota.name}, which lacks {', '.join(needs)}: "
        "jobs ahead of it have a higher priority, or are older"
    )
    wait = replace(own, name=quota.name, needs=needs, limits=limits)
    return Waiting(QUOTA_EXCEEDED, text, quota=wait)


def _wait_so_far(job: Job) -> QuotaWait | None:
    waiting = job.status.waiting
    return waiting.quota if waiting is not None and waiting.reason == QUOTA_EXCEEDED else None


def _with_rank(job: Job, quota: QuotaWait, observed: Observed, now: datetime) -> QuotaWait:
    """The wait, with what decides on the job's place."""
    before = _wait_so_far(job)
    return replace(
        quota,
        priority=_priority(job, observed),
        has_place=job.status.has_started and not job.status.preempted,
        since=before.since if before is not None and before.since else timestamp(now),
    )


def _priority(job: Job, observed: Observed) -> int:
    """The priority of its lowest pod, as far as the operator knows the classes."""
    named = job.policy.scheduling.priority_class
    classes = (spec.spec.get("priorityClassName") or named for spec in job.replica_specs)
    return min((observed.priorities.get(name, 0) for name in classes), default=0)


def _created(job: Job) -> str:
    return timestamp(job.created) if job.created is not None else ""


def need_of(job: Job, replicas: Iterable[Replica], name: str) -> int:
    """How much of a quota's resource these replicas use; 0 if that cannot be told."""
    roles = Counter(replica.role for replica in replicas)
    return sum(_need_of_pod(job, role, name) * count for role, count in roles.items())


def _need_of_pod(job: Job, role: str, name: str) -> int:
    spec = job.replica_spec(role)
    if name in _PODS:
        return 1
    if spec is None or name.startswith("count/"):
        return 0
    rows = limits_of(spec) if name.startswith("limits.") else requests_of(spec)
    try:
        return sum(amount(name, row[resource_of(name)]) for row in rows if resource_of(name) in row)
    except InvalidQuantity:
        return 0


def _written(name: str, need: int) -> str:
    """The amount as exact text: it is compared with what the quota allows."""
    resource = resource_of(name)
    if resource == "cpu":
        return str(Amount(need * 10**6))
    in_bytes = resource in ("memory", "ephemeral-storage")
    return str(Amount(need * 10**9, "binary" if in_bytes else "decimal"))
