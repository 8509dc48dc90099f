"""The dialects: every way to declare a gang, in one table that scheduler and operator read.

A dialect knows how a pod names its group (`group_of` to read it, `marks` to write it), which kinds
of object declare a group, which terms the object sets (in some dialects the pods themselves set
them), and how such an object is written (`pod_groups`). A pod belongs to the group that it names
in the first dialect of the table. A PodDisruptionBudget selects its pods instead of being named by
them; it counts only for pods that name no group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kubekit.objects.annotation_values import MAX_INTEGER, read_integer
from kubekit.objects.kinds import POD_DISRUPTION_BUDGETS, Kind
from muster.contract import pod_groups as objects
from muster.contract.gang import GangKey, GangTerms, GroupCounts, GroupSpec, PodMarks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kubekit.objects.core import Pod, PodDisruptionBudget
    from kubekit.objects.meta import ObjectMeta, Raw

GROUP_NAME_ANNOTATION = "scheduling.k8s.io/group-name"
VOLCANO_NAME_ANNOTATION = "scheduling.volcano.sh/group-name"
COSCHEDULING_LABEL = "scheduling.x-k8s.io/pod-group"
NAME_LABEL = "pod-group.scheduling.sigs.k8s.io/name"
MIN_LABEL = "pod-group.scheduling.sigs.k8s.io/min-available"
KOORDINATOR_NAME_ANNOTATION = "gang.scheduling.koordinator.sh/name"
KOORDINATOR_MIN_ANNOTATION = "gang.scheduling.koordinator.sh/min-available"
KOORDINATOR_GROUPS_ANNOTATION = "gang.scheduling.koordinator.sh/groups"
KOORDINATOR_TOPOLOGY_ANNOTATION = "gang.scheduling.koordinator.sh/network-topology-spec"
NUMA_ANNOTATION = "volcano.sh/numa-topology-policy"
STRICT_NUMA_POLICIES = ("restricted", "single-numa-node")
"""The policies of Volcano under which a pod must not run on another node; `best-effort` advises."""
NETWORK_MODE_ANNOTATION = "volcano.sh/network-topology-mode"
NETWORK_TIER_ANNOTATION = "volcano.sh/network-topology-highest-tier"
"""On pods without a group: the networkTopology of the group that Volcano creates for them."""
PREEMPTABLE_MARK = "volcano.sh/preemptable"
"""On a pod or its group, as annotation or label: `false` if it is never evicted for others."""
GROUP_MARKS = (
    GROUP_NAME_ANNOTATION,
    VOLCANO_NAME_ANNOTATION,
    COSCHEDULING_LABEL,
    NAME_LABEL,
    KOORDINATOR_NAME_ANNOTATION,
)
"""Labels and annotations by which a pod names its group."""
ROLE_ANNOTATION = "volcano.sh/task-spec"
OPERATOR_LABEL = "training.kubeflow.org/operator-name"
"""On every object of a job, its group included."""
ROLE_LABEL = "training.kubeflow.org/replica-type"


@dataclass(frozen=True)
class Dialect:
    """One row of the table."""

    name: str
    group_of: Callable[[Pod], str] = lambda _: ""
    marks: Callable[[str, str, int], PodMarks] = lambda *_: PodMarks()
    """From the group's name, the pod's role and the gang's minimum."""
    kinds: tuple[Kind[Any], ...] = ()
    terms: Callable[[Any], GangTerms] = lambda _: GangTerms()
    from_pods: Callable[[Iterable[Pod]], GangTerms] | None = None
    spec: Callable[[GroupSpec], Raw] | None = None
    status: Callable[[GroupCounts, str], Raw] | None = None
    """From the counts and a timestamp; None if the object has no status of ours."""
    succeeded: Callable[[objects.PodGroupStatus], int] = lambda status: status.succeeded
    """How many members had succeeded when a status was written."""


def role_of(pod: Pod) -> str:
    """The role of a pod in its gang, in lower case; empty if the pod names none."""
    role = pod.metadata.annotations.get(ROLE_ANNOTATION)
    return (role or pod.metadata.labels.get(ROLE_LABEL, "")).lower()


def from_annotation(*names: str) -> Callable[[Pod], str]:
    """A reader of the first of these annotations that a pod has."""
    return lambda pod: next(
        (value for name in names if (value := pod.metadata.annotations.get(name))), ""
    )


def from_label(name: str) -> Callable[[Pod], str]:
    return lambda pod: pod.metadata.labels.get(name, "")


def _at_most_int32(number: int) -> int:
    """A count in a group's spec; a number that no server should store is the largest one."""
    return max(-MAX_INTEGER, min(number, MAX_INTEGER))


def _terms_from_pods(read: Callable[[Pod], str]) -> Callable[[Iterable[Pod]], GangTerms]:
    def terms(pods: Iterable[Pod]) -> GangTerms:
        minimums = (read_integer(read(pod)) for pod in pods)
        return GangTerms(min=max((n for n in minimums if n is not None), default=1))

    return terms


def unserved_mark(pod: Pod) -> str:
    """A required field or annotation of a pod that Muster does not serve; empty if none."""
    annotations = pod.metadata.annotations
    policy = annotations.get(NUMA_ANNOTATION)
    if policy in STRICT_NUMA_POLICIES:
        return f"{NUMA_ANNOTATION} is {policy}"
    if _asks_for_network_topology(pod):
        return f"{NETWORK_MODE_ANNOTATION} needs a PodGroup of Volcano, and the pod names none"
    if pod.spec.workload_ref is not None:
        return "the pod names its group in workloadRef, the form of Kubernetes 1.35"
    return _koordinator_unserved(annotations) if KOORDINATOR_NAME_ANNOTATION in annotations else ""


# -- scheduling.k8s.io -----------------------------------------------------------------------------


def _native_group(pod: Pod) -> str:
    return pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group else ""


def _native_terms(group: objects.NativePodGroup) -> GangTerms:
    spec = group.spec
    gang = spec.scheduling_policy.gang
    return GangTerms(
        min=_at_most_int32(gang.min_count) if gang else 1,
        priority_class=spec.priority_class_name,
        priority=None if spec.priority is None else _at_most_int32(spec.priority),
        topology=spec.topology,
        may_preempt=spec.preemption_policy != "Never",
        evicted_whole=spec.evicted_whole,
        unserved=spec.unserved,
    )


# -- Volcano and kube-batch ------------------------------------------------------------------------


def _asks_for_network_topology(pod: Pod) -> bool:
    """Whether Volcano would create a group with a hard topology for a pod that names no group."""
    annotations = pod.metadata.annotations
    if NETWORK_MODE_ANNOTATION not in annotations and NETWORK_TIER_ANNOTATION not in annotations:
        return False
    gang = gang_named_by(pod)
    is_soft = annotations.get(NETWORK_MODE_ANNOTATION, "").lower() == "soft"
    return not is_soft and (gang is None or gang.dialect != "volcano")


def _volcano_terms(group: objects.VolcanoPodGroup) -> GangTerms:
    spec = group.spec
    counts = spec.min_task_member.items()
    roles = {role.lower(): _at_most_int32(n) for role, n in counts if n > 0}
    return GangTerms(
        # A role's minimum always holds, also where the total is set below their sum.
        min=_at_most_int32(max(spec.min_member, sum(roles.values()), 1)),
        roles=roles,
        priority_class=spec.priority_class_name,
        min_resources=spec.min_resources,
        topology=spec.topology,
        unserved=spec.unserved,
    )


# -- scheduler-plugins -----------------------------------------------------------------------------


def _coscheduling_terms(group: objects.CoschedulingPodGroup) -> GangTerms:
    minimum = _at_most_int32(max(group.spec.min_member, 1))
    return GangTerms(min=minimum, min_resources=group.spec.min_resources)


# -- Koordinator -----------------------------------------------------------------------------------


def _koordinator_unserved(annotations: Mapping[str, str]) -> str:
    groups = annotations.get(KOORDINATOR_GROUPS_ANNOTATION, "")
    if groups.count('"') > 2 or "," in groups:  # a list of JSON strings; the gang itself is one
        return f"{KOORDINATOR_GROUPS_ANNOTATION} joins several gangs"
    if "MustGather" in annotations.get(KOORDINATOR_TOPOLOGY_ANNOTATION, ""):
        return f"{KOORDINATOR_TOPOLOGY_ANNOTATION} sets MustGather"
    return ""


# -- the table -------------------------------------------------------------------------------------


def _budget_terms(budget: PodDisruptionBudget) -> GangTerms:
    minimum = budget.spec.min_available
    # A percentage names no number of members.
    return GangTerms(min=_at_most_int32(max(minimum, 1)) if isinstance(minimum, int) else 1)


def _volcano_marks(group: str, role: str, _: int) -> PodMarks:
    return PodMarks(annotations={GROUP_NAME_ANNOTATION: group, ROLE_ANNOTATION: role})


DIALECTS: tuple[Dialect, ...] = (
    Dialect(
        "native",
        _native_group,
        lambda group, *_: PodMarks(spec={"schedulingGroup": {"podGroupName": group}}),
        (objects.NATIVE_POD_GROUPS,),
        _native_terms,
        spec=objects.native_spec,
        status=objects.native_status,
        succeeded=objects.native_succeeded,
    ),
    Dialect(
        "volcano",
        from_annotation(VOLCANO_NAME_ANNOTATION, GROUP_NAME_ANNOTATION),
        _volcano_marks,
        (objects.VOLCANO_POD_GROUPS, objects.KUBE_BATCH_POD_GROUPS, objects.SIGS_POD_GROUPS),
        _volcano_terms,
        spec=objects.volcano_spec,
        status=objects.volcano_status,
    ),
    Dialect(
        "coscheduling",
        from_label(COSCHEDULING_LABEL),
        lambda group, *_: PodMarks(labels={COSCHEDULING_LABEL: group}),
        (objects.COSCHEDULING_POD_GROUPS,),
        _coscheduling_terms,
        spec=objects.coscheduling_spec,
        status=objects.coscheduling_status,
    ),
    Dialect(
        "labels",
        from_label(NAME_LABEL),
        lambda group, _, minimum: PodMarks(labels={NAME_LABEL: group, MIN_LABEL: str(minimum)}),
        from_pods=_terms_from_pods(from_label(MIN_LABEL)),
    ),
    Dialect(
        "koordinator",
        from_annotation(KOORDINATOR_NAME_ANNOTATION),
        from_pods=_terms_from_pods(from_annotation(KOORDINATOR_MIN_ANNOTATION)),
    ),
)
PDB = Dialect(
    "pdb",
    kinds=(POD_DISRUPTION_BUDGETS,),
    terms=_budget_terms,
    spec=lambda group: {"minAvailable": group.min, "selector": {"matchLabels": group.selector}},
)
SINGLE_POD = Dialect("pod", from_pods=lambda _: GangTerms())
KUBE_BATCH = Dialect(
    "kube-batch",
    marks=_volcano_marks,
    kinds=(objects.KUBE_BATCH_POD_GROUPS,),
    spec=objects.kube_batch_spec,
)
"""For writing only: pods that carry its mark are read as Volcano's."""
DIALECT_BY_NAME: Mapping[str, Dialect] = {
    dialect.name: dialect for dialect in (*DIALECTS, KUBE_BATCH, PDB, SINGLE_POD)
}
GROUP_KINDS: dict[str, Kind[Any] | None] = {
    **{name: dialect.kinds[0] for name, dialect in DIALECT_BY_NAME.items() if dialect.kinds},
    "labels": None,
    "declared": None,
    "none": None,
}
"""The resource of each dialect's group object, if it has one."""
GROUP_KIND_BY_RESOURCE = {kind.resource: kind for kind in GROUP_KINDS.values() if kind is not None}
DIALECT_CHOICES = ("auto", *(name for name in GROUP_KINDS if name != "declared"))
"""The values of the flag and of the annotation."""

_DIALECT_OF_SCHEDULER = {
    **dict.fromkeys(("muster", "volcano"), "volcano"),
    "kube-batch": "kube-batch",
    "kube-batchd": "pdb",
    "scheduler-plugins": "coscheduling",
    "koord-scheduler": "labels",
}


def dialect_of_scheduler(name: str) -> str:
    """The best dialect that a scheduler reads and the operator writes; empty if unknown."""
    # The Helm chart of scheduler-plugins names its scheduler scheduler-plugins-scheduler.
    known = "scheduler-plugins" if name.startswith("scheduler-plugins") else name
    return _DIALECT_OF_SCHEDULER.get(known, "")


def is_protected(meta: ObjectMeta) -> bool:
    """Whether Volcano's mark forbids to evict a pod, or the pods of a group, for other pods."""
    mark = meta.annotations.get(PREEMPTABLE_MARK) or meta.labels.get(PREEMPTABLE_MARK, "")
    return mark.lower() == "false"


def gang_named_by(pod: Pod) -> GangKey | None:
    """The gang a pod names, in the first dialect in which it names one."""
    for dialect in DIALECTS:
        group = dialect.group_of(pod)
        if group:
            return GangKey(dialect.name, pod.metadata.namespace, group)
    return None


def single_pod_gang(pod: Pod) -> GangKey:
    """Key of the one-pod gang for a pod that names no group."""
    return GangKey(SINGLE_POD.name, pod.metadata.namespace, pod.metadata.name)
