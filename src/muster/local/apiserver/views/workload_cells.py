"""What `kubectl get` shows of deployments, replica sets, jobs and budgets.

Pure; used by `columns.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.local.apiserver.objects import at
from muster.local.apiserver.views.cells import (
    NONE,
    age,
    age_of,
    condition_is_true,
    fields,
    moment,
    name_of,
    number,
    rows,
    text,
    words,
)

if TYPE_CHECKING:
    from datetime import datetime

    from muster.api.meta import Raw

_SHOWN = {"In": "{0} in ({1})", "NotIn": "{0} notin ({1})", "Exists": "{0}", "DoesNotExist": "!{0}"}
_ENDS = ("Complete", "Failed", "Suspended")


def deployment(deployment: Raw, now: datetime) -> list[Any]:
    """One row."""
    ready, wanted = number(deployment, "status.readyReplicas"), number(deployment, "spec.replicas")
    return [
        name_of(deployment),
        f"{ready}/{wanted}",
        number(deployment, "status.updatedReplicas"),
        number(deployment, "status.availableReplicas"),
        age_of(deployment, now),
        *_containers(deployment),
        _selector(deployment),
    ]


def replica_set(replica_set: Raw, now: datetime) -> list[Any]:
    """One row."""
    return [
        name_of(replica_set),
        number(replica_set, "spec.replicas"),
        number(replica_set, "status.replicas"),
        number(replica_set, "status.readyReplicas"),
        age_of(replica_set, now),
        *_containers(replica_set),
        _selector(replica_set),
    ]


def job(job: Raw, now: datetime) -> list[Any]:
    """One row."""
    done, wanted = number(job, "status.succeeded"), at(job, "spec.completions")
    if wanted is None:
        wanted = f"1 of {number(job, 'spec.parallelism')}"
    return [
        name_of(job),
        next((word for word in _ENDS if condition_is_true(job, word)), "Running"),
        f"{done}/{wanted}",
        _took(job, now),
        age_of(job, now),
        *_containers(job),
        _selector(job),
    ]


def _took(job: Raw, now: datetime) -> str:
    start = text(job, "status.startTime")
    end = moment(text(job, "status.completionTime"))
    return age(start, end or now) if start else ""


def budget(budget: Raw, now: datetime) -> list[Any]:
    """One row."""
    amounts = [at(budget, f"spec.{side}") for side in ("minAvailable", "maxUnavailable")]
    return [
        name_of(budget),
        *("N/A" if amount is None else str(amount) for amount in amounts),
        number(budget, "status.disruptionsAllowed"),
        age_of(budget, now),
    ]


def _containers(obj: Raw) -> tuple[str, str]:
    found = rows(obj, "spec.template.spec.containers")
    return ",".join(text(c, "name") for c in found), ",".join(text(c, "image") for c in found)


def _selector(obj: Raw) -> str:
    """Labels and expressions, by their keys."""
    chosen = fields(obj, "spec.selector")
    told = [(key, f"{key}={value}") for key, value in fields(chosen, "matchLabels").items()]
    for row in rows(chosen, "matchExpressions"):
        key, among = text(row, "key"), ",".join(sorted(words(row, "values")))
        told.append((key, _SHOWN.get(text(row, "operator"), "{0}").format(key, among)))
    return ",".join(shown for _, shown in sorted(told, key=lambda pair: pair[0])) or NONE
