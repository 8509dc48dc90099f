"""The marks by which pods say of which gang they are, and which dialect living pods speak.

Pure. Used by `gang` and `ensure`. A gang is whole only if all of it speaks one dialect, and what
speaks for a new one (a CRD installed later, a changed annotation, an operator started otherwise)
says nothing to pods that exist: they keep theirs, and those that come join them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from muster.api.kinds import KUBE_BATCH_POD_GROUPS, POD_DISRUPTION_BUDGETS, VOLCANO_POD_GROUPS
from muster.operator.build.pods import role_of

if TYPE_CHECKING:
    from muster.api.core import Pod
    from muster.jobs.job import Job
    from muster.operator.observed import Observed

GROUP_NAME = "scheduling.k8s.io/group-name"
TASK = "volcano.sh/task-spec"
COSCHEDULING = "scheduling.x-k8s.io/pod-group"
LABEL_NAME = "pod-group.scheduling.sigs.k8s.io/name"
LABEL_MIN = "pod-group.scheduling.sigs.k8s.io/min-available"

_ALIKE = ("volcano", "kube-batch")
"""Their pods carry the same mark."""
UNMARKED = ("pdb", "none", "declared")


def dialect_of_living_pods(job: Job, observed: Observed, wanted: str) -> str:
    """The dialect of the pods that live, those with a node first; `wanted` if that is open."""
    if wanted == "declared":
        return wanted
    living = _living(job, observed)
    placed = [pod for pod in living if pod.spec.node_name]
    spoken = Counter(_mark(job, pod) for pod in placed or living)
    marked = [mark for mark, _ in spoken.most_common() if mark]
    if marked:
        return _told_apart(job, observed, wanted) if marked[0] in _ALIKE else marked[0]
    if not spoken or wanted in UNMARKED:
        return wanted
    return "pdb" if (POD_DISRUPTION_BUDGETS.resource, job.name) in observed.objects else "none"


def has_marks_of(job: Job, pod: Pod, dialect: str) -> bool:
    """Whether a pod carries the mark of this dialect, if that has one."""
    if dialect in UNMARKED or role_of(job, pod) == "Launcher":
        return True
    mark = _mark(job, pod)
    return mark == dialect or (mark in _ALIKE and dialect in _ALIKE)


def _living(job: Job, observed: Observed) -> list[Pod]:
    """Members that run or wait; of those found without an owner only the marked say something."""
    everyone = [*observed.pods, *(pod for pod in observed.orphans if _mark(job, pod))]
    return [
        pod
        for pod in everyone
        if not pod.finished
        and pod.metadata.deletion_timestamp is None
        and role_of(job, pod) != "Launcher"
    ]


def _mark(job: Job, pod: Pod) -> str:
    meta, group = pod.metadata, pod.spec.scheduling_group
    if meta.annotations.get(GROUP_NAME) == job.name:
        return "volcano"
    if group is not None and group.pod_group_name == job.name:
        return "native"
    if meta.labels.get(COSCHEDULING) == job.name:
        return "coscheduling"
    if meta.labels.get(LABEL_NAME) == job.name and not _from_template(job, pod):
        return "labels"
    return ""


def _from_template(job: Job, pod: Pod) -> bool:
    """Whether the labels of the plainest dialect were written by the job's user."""
    replica_spec = job.replica_spec(role_of(job, pod))
    meta = (replica_spec.template.get("metadata") or {}) if replica_spec else {}
    return LABEL_NAME in (meta.get("labels") or {})


def _told_apart(job: Job, observed: Observed, wanted: str) -> str:
    """Of the two dialects with one mark, that whose object exists."""
    kinds = {"volcano": VOLCANO_POD_GROUPS.resource, "kube-batch": KUBE_BATCH_POD_GROUPS.resource}
    for dialect, resource in kinds.items():
        if (resource, job.name) in observed.objects:
            return dialect
    return wanted if wanted in _ALIKE else "volcano"
