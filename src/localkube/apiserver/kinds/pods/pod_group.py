"""PodGroup of scheduling.k8s.io: columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localkube.apiserver.codec import at
from localkube.apiserver.resource import STATUS, Resource, Strategy
from localkube.apiserver.views.cells import AGE, NAME, NONE, conditions, text, text_at

if TYPE_CHECKING:
    from datetime import datetime

    from kubekit.objects.meta import Raw

_STATES = {"True": "Scheduled", "False": "Unscheduled"}


def _policy(group: Raw, now: datetime) -> str:
    return "Basic" if at(group, "spec.schedulingPolicy.gang") is None else "Gang"


def _status(group: Raw, now: datetime) -> str:
    scheduled = conditions(group, "PodGroupScheduled")[:1]
    return next((_STATES.get(text(c, "status"), "Pending") for c in scheduled), "Pending")


POD_GROUPS = Resource(
    "scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", subresources=STATUS,
    strategy=Strategy(
        not_by_status={"f:metadata": {}, "f:spec": {}},
        generation="spec",
        columns=NAME | {
            "Policy": _policy,
            "Workload": text_at("spec.podGroupTemplateRef.workload.workloadName", NONE),
            "Status": _status,
        } | AGE,
    ),
)  # fmt: skip
