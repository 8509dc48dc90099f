"""The gang of a job: which dialect declares it, its group object, and the marks on its pods.

Pure. Called by `decide`. Each dialect is one row of `DIALECTS`; `auto` chooses by the pods'
scheduler name and by what the cluster serves. A job whose templates already name a gang keeps it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from muster.api import kinds, quantity
from muster.errors import InvalidQuantity
from muster.jobs import names
from muster.operator.actions import EmitEvent
from muster.operator.build import gang_dialect
from muster.operator.build.gang_dialect import COSCHEDULING, GROUP_NAME, LABEL_MIN, LABEL_NAME, TASK
from muster.operator.build.pods import metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from muster.api.kinds import Kind
    from muster.api.meta import Raw
    from muster.jobs.job import Job, Replica, ReplicaSpec
    from muster.operator.observed import Observed, Settings

LATE_MEMBERS = "muster.dev/late"
"""On a group: members that come after the others, as JSON from role to what one requests."""
_KNOWN = ("muster", "kube-batchd", "kube-batch", "volcano", "scheduler-plugins")
DECLARED = (
    GROUP_NAME,
    "scheduling.volcano.sh/group-name",
    COSCHEDULING,
    LABEL_NAME,
    "gang.scheduling.koordinator.sh/name",
)
"""Labels and annotations of templates by which a job has a gang already."""


@dataclass(frozen=True)
class Gang:
    """How one job's gang is declared."""

    job: Job
    dialect: str
    size: int
    """How many pods must start together."""
    scheduler: str
    """The scheduler for pods that name none; empty: leave them alone."""
    resources: Raw

    @property
    def kind(self) -> Kind[Any] | None:
        """The resource of its group object, if the dialect has one."""
        return DIALECTS[self.dialect][0]

    def manifest(self) -> Raw:
        """Its group object."""
        kind, body = DIALECTS[self.dialect]
        assert kind is not None
        meta = metadata(self.job, self.job.name, names.selector(self.operator, self.job.name))
        annotations = self._job_annotations() | self._late()
        if annotations:
            meta["annotations"] = annotations
        return {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": meta,
            "spec": body(self),
        }

    def _job_annotations(self) -> dict[str, str]:
        return {
            name: value
            for name, value in self.job.annotations.items()
            if not name.startswith("kubectl.kubernetes.io/")
        }

    def _late(self) -> dict[str, str]:
        """What a launcher will ask for, where it is of the group: its room is placed and held."""
        launcher = self.job.replica_spec("Launcher")
        if launcher is None or self.dialect == "coscheduling":
            return {}
        return {LATE_MEMBERS: json.dumps({"launcher": _resources([launcher], 1, {})})}

    @property
    def operator(self) -> str:
        return self.job.job_kind.operator

    def annotations(self, replica: Replica) -> dict[str, str]:
        if self.dialect in ("volcano", "kube-batch"):
            return {GROUP_NAME: self.job.name, TASK: replica.role.lower()}
        return {}

    def labels(self, replica: Replica) -> dict[str, str]:
        if replica.role == "Launcher":
            return {}
        if self.dialect == "coscheduling":
            return {COSCHEDULING: self.job.name}
        if self.dialect == "labels":
            return {LABEL_NAME: self.job.name, LABEL_MIN: str(self.size)}
        return {}

    def pod_spec(self) -> Raw:
        if self.dialect == "native":
            return {"schedulingGroup": {"podGroupName": self.job.name}}
        return {}


def gang_of(job: Job, observed: Observed, settings: Settings) -> Gang:
    """The gang this job is to have."""
    members = _members(job)
    size = sum(replica_spec.count for replica_spec in members)
    least = job.policy.scheduling.min_available
    if least is not None:
        size = min(least, size)
    dialect = _spoken(job, observed, settings)
    filled = settings.scheduler if dialect != "none" else ""
    resources = job.policy.scheduling.min_resources or _resources(
        members, size, observed.priorities
    )
    return Gang(job, dialect, size, filled, resources)


def warnings(job: Job, observed: Observed, settings: Settings) -> list[EmitEvent]:
    """Pods of a gang that are addressed to a scheduler of which we do not know that it has any."""
    if _dialect(job, observed, settings) == "none":
        return []
    strange = [r for r in _members(job) if r.scheduler and r.scheduler not in _KNOWN]
    return [
        EmitEvent(
            "SetPodTemplateSchedulerName",
            f"{replica_spec.path}.template.spec.schedulerName {replica_spec.scheduler} is kept: "
            "the job's pods start together only if that scheduler knows gangs",
            "Warning",
        )
        for replica_spec in strange
        if replica_spec.scheduler != settings.scheduler
    ]


def _members(job: Job) -> list[ReplicaSpec]:
    """Those who must start together; a launcher comes later and is not waited for."""
    return [replica_spec for replica_spec in job.replica_specs if replica_spec.role != "Launcher"]


def _spoken(job: Job, observed: Observed, settings: Settings) -> str:
    """The dialect in which the gang is declared: that of its living pods if it can still be."""
    wanted = _dialect(job, observed, settings)
    kept = gang_dialect.dialect_of_living_pods(job, observed, wanted)
    return kept if DIALECTS[kept][0] is None or _served(kept, observed) else wanted


def _dialect(job: Job, observed: Observed, settings: Settings) -> str:
    switch = job.annotation("gang").lower()
    if switch == "false" or (not settings.gang and switch != "true"):
        return "none"
    if any(_declared(replica_spec, switch == "true") for replica_spec in job.replica_specs):
        return "declared"
    dialect = job.annotation("gang-dialect") or settings.dialect
    if dialect == "auto" or dialect not in DIALECT_CHOICES:
        dialect = _auto(job, observed, settings)
    labelled = any(_declared(replica_spec, False) for replica_spec in job.replica_specs)
    return "declared" if dialect == "labels" and labelled else dialect


def _auto(job: Job, observed: Observed, settings: Settings) -> str:
    named = next(
        (replica_spec.scheduler for replica_spec in _members(job) if replica_spec.scheduler), ""
    )
    scheduler = named or settings.scheduler
    if scheduler == "kube-batchd":
        return "pdb"
    if scheduler == "kube-batch":
        return "kube-batch" if _served("kube-batch", observed) else "pdb"
    wanted = "coscheduling" if scheduler.startswith("scheduler-plugins") else "volcano"
    # Without the dialect's CRD the gang is declared by labels, which need no object: a job that
    # waits for a CRD to be installed would wait without a word.
    return wanted if _served(wanted, observed) else "labels"


def _served(dialect: str, observed: Observed) -> bool:
    kind = DIALECTS[dialect][0]
    return kind is not None and kind.resource in observed.served_dialects


def _declared(replica_spec: ReplicaSpec, asked: bool) -> bool:
    """Whether the template names a gang.

    `arena submit --gang` labels pods for schedulers that read no more than that. It asks for a gang
    by annotation as well, and then gets the cluster's own dialect: the labels alone say nothing.
    """
    meta = replica_spec.template.get("metadata") or {}
    marks = {**(meta.get("labels") or {}), **(meta.get("annotations") or {})}
    names = (name for name in DECLARED if not (asked and name == LABEL_NAME))
    return any(name in marks for name in names) or bool(replica_spec.spec.get("schedulingGroup"))


def _resources(replicas: list[ReplicaSpec], size: int, priorities: Mapping[str, int]) -> Raw:
    """What the first `size` members ask for together, those of high priority first."""
    order = sorted(replicas, key=lambda r: -priorities.get(r.spec.get("priorityClassName", ""), 0))
    sums: dict[str, int] = {}
    left = size
    try:
        for replica_spec in order:
            counted = min(replica_spec.count, left)
            left -= counted
            for name, amount in quantity.sum_resources(_asked(replica_spec)).items():
                sums[name] = sums.get(name, 0) + amount * counted
    except InvalidQuantity:
        return {}  # The API server refuses the pods and says so better.
    return {name: f"{n}m" if name == "cpu" else str(n) for name, n in sorted(sums.items()) if n}


def _asked(replica_spec: ReplicaSpec) -> list[Raw]:
    """What each container asks for, with limits standing in where it has no request."""
    rows = [container.get("resources") or {} for container in replica_spec.spec["containers"]]
    return [{**(row.get("limits") or {}), **(row.get("requests") or {})} for row in rows]


def _volcano(gang: Gang) -> Raw:
    spec = _kube_batch(gang)
    if gang.resources:
        spec["minResources"] = gang.resources
    whole = sum(replica_spec.count for replica_spec in _members(gang.job))
    if gang.size == whole:
        spec["minTaskMember"] = {
            replica_spec.role.lower(): replica_spec.count
            for replica_spec in _members(gang.job)
            if replica_spec.count
        }
    return spec


def _kube_batch(gang: Gang) -> Raw:
    policy = gang.job.policy.scheduling
    spec: Raw = {"minMember": gang.size}
    if policy.queue:
        spec["queue"] = policy.queue
    if policy.priority_class:
        spec["priorityClassName"] = policy.priority_class
    return spec


def _coscheduling(gang: Gang) -> Raw:
    spec: Raw = {"minMember": max(gang.size, 1)}
    if gang.resources:
        spec["minResources"] = gang.resources
    if gang.job.policy.scheduling.timeout is not None:
        spec["scheduleTimeoutSeconds"] = gang.job.policy.scheduling.timeout
    return spec


def _native(gang: Gang) -> Raw:
    spec: Raw = {"schedulingPolicy": {"gang": {"minCount": max(gang.size, 1)}}}
    if gang.job.policy.scheduling.priority_class:
        spec["priorityClassName"] = gang.job.policy.scheduling.priority_class
    return spec


def _pdb(gang: Gang) -> Raw:
    chosen = names.selector(gang.operator, gang.job.name)
    return {"minAvailable": gang.size, "selector": {"matchLabels": chosen}}


def _nothing(gang: Gang) -> Raw:
    return {}


DIALECTS: dict[str, tuple[Kind[Any] | None, Callable[[Gang], Raw]]] = {
    "volcano": (kinds.VOLCANO_POD_GROUPS, _volcano),
    "kube-batch": (kinds.KUBE_BATCH_POD_GROUPS, _kube_batch),
    "pdb": (kinds.POD_DISRUPTION_BUDGETS, _pdb),
    "coscheduling": (kinds.COSCHEDULING_POD_GROUPS, _coscheduling),
    "native": (kinds.NATIVE_POD_GROUPS, _native),
    "labels": (None, _nothing),
    "declared": (None, _nothing),
    "none": (None, _nothing),
}

DIALECT_CHOICES = ("auto", *(name for name in DIALECTS if name != "declared"))
"""What a person may ask for."""
