"""A job's policies: deadline, restarts, pods to delete at the end, time to live, scheduling.

Depending on the version they are directly under spec or inside `runPolicy`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.objects.quantity import MAX_INT64, InvalidQuantity, parse_amount
from muster.jobs.job import RunPolicy, SchedulingPolicy

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from muster.jobs.field_reader import Section

CLEAN_POD_POLICIES = ("All", "Running", "None")


def read(spec: Section, *, first_version: bool) -> RunPolicy:
    """Flat and nested policies as one; the nested field wins.

    `first_version`: the job has a list of replicas, or one template for launcher and workers; such
    jobs leave no pods behind by default.
    """
    nested = spec.section("runPolicy")

    def holder(name: str) -> Section:
        return nested if nested.has(name) else spec

    return RunPolicy(
        clean_pod_policy=_clean_pod_policy(
            holder("cleanPodPolicy"), spec, first_version=first_version
        ),
        ttl_seconds=holder("ttlSecondsAfterFinished").number("ttlSecondsAfterFinished"),
        active_deadline=holder("activeDeadlineSeconds").number("activeDeadlineSeconds", MAX_INT64),
        backoff_limit=holder("backoffLimit").number("backoffLimit"),
        suspend=holder("suspend").boolean("suspend"),
        managed_by=holder("managedBy").text("managedBy"),
        scheduling=_scheduling(nested.section("schedulingPolicy")),
    )


def _clean_pod_policy(policy: Section, spec: Section, *, first_version: bool) -> str:
    if policy.has("cleanPodPolicy"):
        return policy.choice("cleanPodPolicy", CLEAN_POD_POLICIES) or "None"
    default = "All" if first_version else "None"
    # The first version spelled the field differently.
    return spec.choice("cleanupPodPolicy", CLEAN_POD_POLICIES) or default


def _scheduling(policy: Section) -> SchedulingPolicy:
    return SchedulingPolicy(
        min_available=policy.number("minAvailable"),
        queue=policy.text("queue"),
        min_resources=_amounts(policy.section("minResources")),
        priority_class=policy.text("priorityClass"),
        timeout=policy.number("scheduleTimeoutSeconds"),
    )


def _amounts(resources: Section) -> Raw:
    for name, amount in resources.raw.items():
        try:
            # In Python, True is an int; as text it is not a quantity.
            is_number = isinstance(amount, int | float) and not isinstance(amount, bool)
            parse_amount(name, amount if is_number else str(amount))
        except InvalidQuantity as error:
            raise resources.error(name, str(error), 'write a number like "4"') from None
    return resources.raw
