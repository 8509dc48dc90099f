"""The gang of a job: its group object and the marks on its pods, per dialect."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from kubekit.objects import quantity
from kubekit.objects.quantity import InvalidQuantity
from muster.contract.gang import (
    HOLD_ANNOTATION,
    LATE_ANNOTATION,
    ON_HOLD_END_ANNOTATION,
    PLACEMENT_ANNOTATION,
    PREFERRED_TOPOLOGY_ANNOTATION,
    RESTART_ANNOTATION,
    TOPOLOGY_ANNOTATION,
    GroupSpec,
    PodMarks,
)
from muster.contract.gang_dialects import (
    DIALECT_BY_NAME,
    GROUP_KINDS,
    PREEMPTABLE_MARK,
    dialect_of_scheduler,
)
from muster.contract.unserved_fields import EVENT as NOT_SERVED, of_job
from muster.operator.build.dialect_choice import dialect_of, gang_roles, wanted_dialect
from muster.operator.build.labels import job_selector, owned_manifest
from muster.operator.decision_types import EmitEvent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kubekit.objects.kinds import Kind
    from kubekit.objects.meta import Raw
    from muster.jobs.job import Job, Replica, ReplicaSpec
    from muster.operator.decision_types import Observed, Settings


TOPOLOGY_WITHOUT_GANG = EmitEvent(
    "TopologyWithoutGang",
    f"{TOPOLOGY_ANNOTATION} needs a gang, and muster.dev/gang is false: "
    "the replicas may run in several domains",
    "Warning",
)
TOPOLOGY_MARKS = (TOPOLOGY_ANNOTATION, PREFERRED_TOPOLOGY_ANNOTATION)
GROUP_ANNOTATIONS = frozenset(
    {
        *TOPOLOGY_MARKS,
        HOLD_ANNOTATION,
        ON_HOLD_END_ANNOTATION,
        PLACEMENT_ANNOTATION,
        RESTART_ANNOTATION,
        # Volcano reads these on PodGroups, and its users write them on jobs.
        PREEMPTABLE_MARK,
        "sla-waiting-time",
        "volcano.sh/cooldown-time",
        "volcano.sh/jdb-max-unavailable",
        "volcano.sh/jdb-min-available",
        "volcano.sh/qos-level",
        "volcano.sh/revocable-zone",
        "volcano.sh/sla-waiting-time",
        "volcano.sh/task-topology-affinity",
        "volcano.sh/task-topology-anti-affinity",
        "volcano.sh/task-topology-task-order",
    }
)
"""The annotations of a job that its group gets. Users who may not write groups may write jobs, so
it gets no others: `muster.dev/late`, for one, is the operator's own."""


@dataclass(frozen=True)
class Gang:
    """How one job's gang is declared; in the dialect `none` the pods are not a gang."""

    job: Job
    dialect: str
    size: int
    """How many pods must start together."""
    scheduler: str
    """The scheduler for pods that name none; empty: leave them as they are."""
    resources: Raw
    priority_class: str
    """The class for pods that name none; empty: leave them as they are."""

    @property
    def kind(self) -> Kind[Any] | None:
        """The resource of its group object, if the dialect has one."""
        return GROUP_KINDS[self.dialect]

    def manifest(self) -> Raw:
        """The manifest of its group object."""
        assert self.kind is not None
        manifest = owned_manifest(self.job, self.kind, self.job.name, job_selector(self.job))
        own = self.job.annotations.items()
        chosen = {name: value for name, value in own if name in GROUP_ANNOTATIONS}
        annotations = chosen | self._late_members()
        if annotations:
            manifest["metadata"]["annotations"] = annotations
        return {**manifest, "spec": self._group_spec()}

    def _group_spec(self) -> Raw:
        write_spec, policy = DIALECT_BY_NAME[self.dialect].spec, self.job.policy.scheduling
        assert write_spec is not None
        spec = GroupSpec(
            min=self.size,
            roles={spec.role.lower(): spec.count for spec in gang_roles(self.job)},
            resources=self.resources,
            selector=job_selector(self.job),
            priority_class=policy.priority_class,
            queue=policy.queue,
            timeout=policy.timeout,
        )
        return write_spec(spec)

    def _late_members(self) -> dict[str, str]:
        """An annotation with the launcher's requests.

        A launcher is usually created after its workers. The scheduler reads its requests here, and
        places the workers only where the launcher fits too.
        """
        launcher = self.job.replica_spec("Launcher")
        if launcher is None or self.dialect == "coscheduling":
            return {}
        return {LATE_ANNOTATION: json.dumps({"launcher": _resources([launcher], 1, {})})}

    def marks(self, replica: Replica) -> PodMarks:
        """The marks by which a replica's pod names its group.

        A launcher gets no labels: with them alone it would count as a member that must start first.
        """
        dialect = DIALECT_BY_NAME.get(self.dialect)
        marks = PodMarks()
        if dialect is not None:
            marks = dialect.marks(self.job.name, replica.role.lower(), self.size)
        if self.kind is None:  # no group object of ours carries them
            own = {name: v for name in TOPOLOGY_MARKS if (v := self.job.annotations.get(name))}
            marks = replace(marks, annotations={**own, **marks.annotations})
        return replace(marks, labels={}) if replica.role == "Launcher" else marks


def gang_of(job: Job, observed: Observed, settings: Settings) -> Gang:
    """The gang that this job should have."""
    roles = gang_roles(job)
    size = sum(replica_spec.count for replica_spec in roles)
    policy = job.policy.scheduling
    if policy.min_available is not None:
        # A gang larger than the job could never start.
        size = min(policy.min_available, size)
    dialect = dialect_of(job, observed, settings)
    scheduler = settings.scheduler if dialect != "none" else settings.pod_scheduler
    resources = policy.min_resources or _resources(roles, size, observed.priorities)
    named, known = policy.priority_class, observed.priorities
    priority_class = named if scheduler and not _lacks_class(named, known) else ""
    return Gang(job, dialect, size, scheduler, resources, priority_class)


def _lacks_class(name: str, known: Mapping[str, int]) -> bool:
    """Whether a priority class is known not to exist: every cluster has some if we may list any."""
    return bool(name and known) and name not in known


def warnings(job: Job, observed: Observed, settings: Settings) -> list[EmitEvent]:
    """Warnings about a gang that the job needs and that pods or annotations prevent."""
    if wanted_dialect(job, observed, settings) == "none":
        return [TOPOLOGY_WITHOUT_GANG] if TOPOLOGY_ANNOTATION in job.annotations else []
    named = job.policy.scheduling.priority_class
    lacks_class = EmitEvent(
        "NoPriorityClass",
        f"there is no PriorityClass {named}, which schedulingPolicy names: "
        "the pods have the default priority",
        "Warning",
    )
    return [lacks_class] * _lacks_class(named, observed.priorities) + [
        EmitEvent(
            "SetPodTemplateSchedulerName",
            f"{spec.path}.template.spec.schedulerName {spec.scheduler} is kept: "
            "the job's pods start together only if that scheduler knows gangs",
            "Warning",
        )
        for spec in gang_roles(job)
        if spec.scheduler not in ("", settings.scheduler)
        and not dialect_of_scheduler(spec.scheduler)
    ]


def unserved(job: Job, observed: Observed, settings: Settings) -> list[EmitEvent]:
    """Events about fields of the schedulingPolicy that have no effect."""
    gang = gang_of(job, observed, settings)
    schedulers = {spec.scheduler or gang.scheduler for spec in job.replica_specs}
    found = of_job(job.policy.scheduling.for_scheduler, gang.dialect, schedulers)
    return [EmitEvent(NOT_SERVED, str(row), "Warning") for row in found]


def _resources(roles: list[ReplicaSpec], size: int, priorities: Mapping[str, int]) -> Raw:
    """The sum of the requests of the first `size` pods, those of high priority first."""
    order = sorted(roles, key=lambda r: -priorities.get(r.spec.get("priorityClassName", ""), 0))
    sums: Counter[str] = Counter()
    left = size
    try:
        for replica_spec in order:
            counted = min(replica_spec.count, left)
            left -= counted
            for name, amount in quantity.sum_resources(requests_of(replica_spec)).items():
                sums[name] += amount * counted
    except InvalidQuantity:
        return {}  # The API server rejects the pods with a better message.
    return {name: f"{n}m" if name == "cpu" else str(n) for name, n in sorted(sums.items()) if n}


def requests_of(replica_spec: ReplicaSpec) -> list[Raw]:
    """The requests of each container; as in Kubernetes, a limit is also a request if none is."""
    rows = [container.get("resources") or {} for container in replica_spec.spec["containers"]]
    return [{**(row.get("limits") or {}), **(row.get("requests") or {})} for row in rows]


def limits_of(replica_spec: ReplicaSpec) -> list[Raw]:
    """The limits of each container."""
    rows = [container.get("resources") or {} for container in replica_spec.spec["containers"]]
    return [row.get("limits") or {} for row in rows]
