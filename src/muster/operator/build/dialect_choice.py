"""The choice of the dialect that declares a job's gang.

An annotation of the job chooses it, else the operator's flags, else the scheduler's name and the
installed CRDs. A gang is complete only if all its pods carry the marks of one dialect. The choice
may change while a job runs (a CRD is installed, an annotation edited, the operator restarted with
other flags), but existing pods keep their marks. So the marks of living pods overrule the choice,
and new pods get the same marks.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kubekit.objects import kinds
from muster.contract.gang import GANG_IF_SCHEDULED
from muster.contract.gang_dialects import (
    DIALECT_CHOICES,
    DIALECTS,
    GROUP_KINDS,
    GROUP_MARKS,
    NAME_LABEL,
    dialect_of_scheduler,
)
from muster.operator.build.labels import replica_spec_of, role_of

if TYPE_CHECKING:
    from kubekit.objects.core import Pod
    from muster.jobs.job import Job, ReplicaSpec
    from muster.operator.decision_types import Observed, Settings

_SAME_MARK = ("volcano", "kube-batch")
"""Both name the group in the same annotation of a pod; only the group object differs."""
_UNMARKED = ("pdb", "none", "declared")
"""Dialects in which the operator adds no marks to pods."""


def dialect_of(job: Job, observed: Observed, settings: Settings) -> str:
    """The gang's dialect: the dialect of its living pods, if the cluster still serves it."""
    wanted = wanted_dialect(job, observed, settings)
    living = _dialect_of_living_pods(job, observed, wanted)
    return living if GROUP_KINDS[living] is None or _is_served(living, observed) else wanted


def wanted_dialect(job: Job, observed: Observed, settings: Settings) -> str:
    """The dialect of a job that has no pods yet."""
    switch = job.annotation("gang").lower()
    # An annotation of the job wins over the flag of the operator; replicas that must share a domain
    # are a gang.
    requested = switch == "true" or job.annotation("topology")
    by_default = settings.gang and (switch != GANG_IF_SCHEDULED or settings.pod_scheduler)
    if switch == "false" or not (requested or by_default):
        return "none"
    # The templates declare their own gang: the operator adds nothing to it.
    if any(_names_gang(spec, requested=switch == "true") for spec in job.replica_specs):
        return "declared"
    dialect = job.annotation("gang-dialect") or settings.dialect
    if dialect == "auto" or dialect not in DIALECT_CHOICES:
        dialect = _by_scheduler(job, observed, settings)
    labelled = any(_names_gang(spec, requested=False) for spec in job.replica_specs)
    return "declared" if dialect == "labels" and labelled else dialect


def has_marks_of(job: Job, pod: Pod, dialect: str) -> bool:
    """Whether a pod carries the marks of this dialect, if it has any."""
    if dialect in _UNMARKED or role_of(job, pod) == "Launcher":
        return True
    marked = _marked_dialect(job, pod)
    return marked == dialect or (marked in _SAME_MARK and dialect in _SAME_MARK)


def gang_roles(job: Job) -> list[ReplicaSpec]:
    """The roles that must start together; a launcher starts later and is not a member."""
    return [spec for spec in job.replica_specs if spec.role != "Launcher"]


def _by_scheduler(job: Job, observed: Observed, settings: Settings) -> str:
    named = next((spec.scheduler for spec in gang_roles(job) if spec.scheduler), "")
    dialect = dialect_of_scheduler(named or settings.scheduler) or "volcano"
    if dialect == "pdb" or _is_served(dialect, observed):
        return dialect
    # Without the dialect's CRD, a budget or labels declare the gang: they need no CRD, and a job
    # that waited for the CRD might wait forever.
    return "pdb" if dialect == "kube-batch" else "labels"


def _is_served(dialect: str, observed: Observed) -> bool:
    kind = GROUP_KINDS[dialect]
    return kind is not None and kind.resource in observed.served_dialects


def _names_gang(replica_spec: ReplicaSpec, *, requested: bool) -> bool:
    """Whether the template names a gang.

    `arena submit --gang` labels pods for schedulers that read only labels. It also requests a gang
    by annotation; then those labels alone do not count, and the gang gets the cluster's dialect.
    """
    meta = replica_spec.template.get("metadata") or {}
    marks = {**(meta.get("labels") or {}), **(meta.get("annotations") or {})}
    counted = (name for name in GROUP_MARKS if not (requested and name == NAME_LABEL))
    return any(name in marks for name in counted) or bool(replica_spec.spec.get("schedulingGroup"))


def _dialect_of_living_pods(job: Job, observed: Observed, wanted: str) -> str:
    """The dialect of most living pods, preferably those with a node; `wanted` without marks."""
    if wanted == "declared":
        return wanted
    living = _living_pods(job, observed)
    placed = [pod for pod in living if pod.spec.node_name]
    # Pods without a node can still be recreated in another dialect, pods with a node cannot.
    counts = Counter(_marked_dialect(job, pod) for pod in placed or living)
    marked = [dialect for dialect, _ in counts.most_common() if dialect]
    if marked:
        return _by_group_object(job, observed, wanted) if marked[0] in _SAME_MARK else marked[0]
    if not counts or wanted in _UNMARKED:
        return wanted
    # Pods without marks: either a budget declares their gang, or they have none.
    budget = (kinds.POD_DISRUPTION_BUDGETS.resource, job.name)
    return "pdb" if budget in observed.objects else "none"


def _living_pods(job: Job, observed: Observed) -> list[Pod]:
    """Pods that have not ended; orphans count only if they carry marks."""
    candidates = [*observed.pods, *(pod for pod in observed.orphans if _marked_dialect(job, pod))]
    return [
        pod
        for pod in candidates
        if not pod.finished
        and pod.metadata.deletion_timestamp is None
        and role_of(job, pod) != "Launcher"
    ]


def _marked_dialect(job: Job, pod: Pod) -> str:
    """The dialect whose mark a pod carries; `volcano` for kube-batch too, the mark is the same."""
    for dialect in DIALECTS:
        if dialect.name in GROUP_KINDS and dialect.group_of(pod) == job.name:
            by_user = dialect.name == "labels" and _is_labelled_by_template(job, pod)
            return "" if by_user else dialect.name
    return ""


def _is_labelled_by_template(job: Job, pod: Pod) -> bool:
    """Whether the user, not the operator, wrote the labels of the dialect `labels`."""
    replica_spec = replica_spec_of(job, pod)
    meta = (replica_spec.template.get("metadata") or {}) if replica_spec else {}
    return NAME_LABEL in (meta.get("labels") or {})


def _by_group_object(job: Job, observed: Observed, wanted: str) -> str:
    """Of the two dialects with the same mark, the one whose group object exists."""
    for dialect in _SAME_MARK:
        kind = GROUP_KINDS[dialect]
        if kind is not None and (kind.resource, job.name) in observed.objects:
            return dialect
    return wanted if wanted in _SAME_MARK else "volcano"
