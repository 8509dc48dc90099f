"""PodGroup of scheduling.k8s.io: columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.local.apiserver.codec import at
from muster.local.apiserver.resource import STATUS, Resource, Strategy
from muster.local.apiserver.views.cells import NONE, age_of, conditions, name_of, text

if TYPE_CHECKING:
    from datetime import datetime

    from muster.api.meta import Raw

_STATES = {"True": "Scheduled", "False": "Unscheduled"}


def _cells(group: Raw, now: datetime) -> list[Any]:
    scheduled = conditions(group, "PodGroupScheduled")[:1]
    gang = at(group, "spec.schedulingPolicy.gang") is not None
    return [
        name_of(group),
        "Gang" if gang else "Basic",
        text(group, "spec.podGroupTemplateRef.workload.workloadName", NONE),
        next((_STATES.get(text(c, "status"), "Pending") for c in scheduled), "Pending"),
        age_of(group, now),
    ]


POD_GROUPS = Resource(
    "scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", subresources=STATUS,
    strategy=Strategy(
        generation="spec",
        columns=("Name", "Policy", "Workload", "Status", "Age"),
        cells=_cells,
    ),
)  # fmt: skip
