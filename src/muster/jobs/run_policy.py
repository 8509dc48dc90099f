"""A job's policies: how long it may run, how often it may restart, what stays, how it is scheduled.

Depending on the version they are directly under spec or inside `runPolicy`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.api import quantity
from muster.errors import InvalidJob, InvalidQuantity
from muster.jobs.fields import boolean, choice, integer, mapping, text
from muster.jobs.job import RunPolicy, SchedulingPolicy

if TYPE_CHECKING:
    from muster.api.meta import Raw

CLEAN_POD_POLICIES = ("All", "Running", "None")


def read(spec: Raw, *, first: bool) -> RunPolicy:
    """Flat and nested policies as one; the nested field wins.

    `first`: the job is of the first version (a list of replicas, or one template for launcher and
    workers), whose jobs leave no pods behind by default.
    """
    inner = mapping(spec.get("runPolicy"), "spec.runPolicy")

    def where(name: str) -> tuple[Any, str]:
        if inner.get(name) is not None:
            return inner[name], f"spec.runPolicy.{name}"
        return spec.get(name), f"spec.{name}"

    def number(name: str, most: int = 2**31 - 1) -> int | None:
        value, path = where(name)
        return None if value is None else integer(value, path, 0, most)

    return RunPolicy(
        clean_pod_policy=_clean_pod_policy(
            spec, *where("cleanPodPolicy"), "All" if first else "None"
        ),
        ttl_seconds=number("ttlSecondsAfterFinished"),
        active_deadline=number("activeDeadlineSeconds", 2**63 - 1),
        backoff_limit=number("backoffLimit"),
        suspend=boolean(*where("suspend")),
        managed_by=text(*where("managedBy")),
        scheduling=_scheduling(inner),
    )


def _clean_pod_policy(spec: Raw, value: object, path: str, default: str) -> str:
    if value is None:
        value, path = spec.get("cleanupPodPolicy"), "spec.cleanupPodPolicy"
    else:
        default = "None"
    return choice(value, path, CLEAN_POD_POLICIES) or default


def _scheduling(run_policy: Raw) -> SchedulingPolicy:
    path = "spec.runPolicy.schedulingPolicy"
    policy = mapping(run_policy.get("schedulingPolicy"), path)
    least = policy.get("minAvailable")
    timeout = policy.get("scheduleTimeoutSeconds")
    return SchedulingPolicy(
        min_available=None if least is None else integer(least, f"{path}.minAvailable", 0),
        queue=text(policy.get("queue"), f"{path}.queue"),
        min_resources=_amounts(policy.get("minResources"), f"{path}.minResources"),
        priority_class=text(policy.get("priorityClass"), f"{path}.priorityClass"),
        timeout=None if timeout is None else integer(timeout, f"{path}.scheduleTimeoutSeconds", 0),
    )


def _amounts(value: object, path: str) -> Raw:
    amounts = mapping(value, path)
    for name, amount in amounts.items():
        try:
            plain = isinstance(amount, int | float) and not isinstance(amount, bool)
            quantity.parse_amount(name, amount if plain else str(amount))
        except InvalidQuantity as error:
            raise InvalidJob(f"{path}.{name}", str(error), hint='write a number like "4"') from None
    return amounts
