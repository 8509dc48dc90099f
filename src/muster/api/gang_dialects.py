"""The dialects: every way a pod can say which gang it belongs to, in one table.

Read by `roster`. A dialect knows how a pod names its group, which objects declare such a group,
and what terms an object (or, where there is none, the pods themselves) sets. The first row that
matches a pod wins. Pure: no client, no state.

A budget (PodDisruptionBudget) is the one declaration that finds its pods instead of being named by
them; `budget_covers` says which pods, and it comes last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from muster.api.kinds import (
    COSCHEDULING_POD_GROUPS,
    KUBE_BATCH_POD_GROUPS,
    NATIVE_POD_GROUPS,
    POD_DISRUPTION_BUDGETS,
    SIGS_POD_GROUPS,
    VOLCANO_POD_GROUPS,
    Kind,
)
from muster.api.selectors import Selector, from_labels
from muster.errors import InvalidSelector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from muster.api import pod_groups as objects
    from muster.api.core import Pod, PodDisruptionBudget, Resources

GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
VOLCANO_GROUP_ANNOTATION = "scheduling.volcano.sh/group-name"
COSCHEDULING_LABEL = "scheduling.x-k8s.io/pod-group"
LIGHTWEIGHT_LABEL = "pod-group.scheduling.sigs.k8s.io/name"
LIGHTWEIGHT_MIN_LABEL = "pod-group.scheduling.sigs.k8s.io/min-available"
KOORDINATOR_ANNOTATION = "gang.scheduling.koordinator.sh/name"
KOORDINATOR_MIN_ANNOTATION = "gang.scheduling.koordinator.sh/min-available"
ROLE_ANNOTATION = "volcano.sh/task-spec"
ROLE_LABEL = "training.kubeflow.org/replica-type"
HOLD_ANNOTATION = "muster.dev/hold"
"""On a group: how long room is held for a missing member."""
ON_HOLD_END_ANNOTATION = "muster.dev/on-hold-end"
"""On a group: `restart` deletes the remaining members when a hold ends, so that all restart."""
RESTART_ANNOTATION = "muster.dev/restart"
"""On a group: `gang` if all members are recreated when one fails."""
PLACEMENT_ANNOTATION = "muster.dev/placement"
"""On a group or on its pods: `pack` or `spread`."""
PLAN_ANNOTATION = "muster.dev/plan"
"""On a bound pod: the plan it was bound by."""
LATE_ANNOTATION = "muster.dev/late"
"""On a group: members that start after the others and are not counted in its minimum, as JSON from
role to the requests of one such member. Their room is placed with the gang and held."""
BUDGET_SCHEDULERS = frozenset({"kube-batchd", "kube-batch", "muster"})
SERVICE_CONTROLLERS = frozenset({"ReplicaSet", "StatefulSet", "DaemonSet"})


class GangKey(NamedTuple):
    """Which gang: a name means nothing without the dialect that gave it."""

    dialect: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class GangTerms:
    """What a gang was declared to need."""

    min: int = 1
    roles: Mapping[str, int] = field(default_factory=dict)
    priority_class: str = ""
    priority: int | None = None
    min_resources: Resources = field(default_factory=dict)


@dataclass(frozen=True)
class Dialect:
    """One row of the table."""

    name: str
    group_of: Callable[[Pod], str]
    kinds: tuple[Kind[Any], ...] = ()
    terms: Callable[[Any], GangTerms] = lambda _: GangTerms()
    from_pods: Callable[[Iterable[Pod]], GangTerms] | None = None


def role_of(pod: Pod) -> str:
    """The role a pod plays in its gang, in lower case; empty where nothing says."""
    role = pod.metadata.annotations.get(ROLE_ANNOTATION)
    return (role or pod.metadata.labels.get(ROLE_LABEL, "")).lower()


def from_annotation(*names: str) -> Callable[[Pod], str]:
    """The first of some annotations that is there."""
    return lambda pod: next(
        (value for name in names if (value := pod.metadata.annotations.get(name))), ""
    )


def from_label(name: str) -> Callable[[Pod], str]:
    return lambda pod: pod.metadata.labels.get(name, "")


def _native_group(pod: Pod) -> str:
    return pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group else ""


def _native_terms(group: objects.NativePodGroup) -> GangTerms:
    gang = group.spec.scheduling_policy.gang
    return GangTerms(
        min=gang.min_count if gang else 1,
        priority_class=group.spec.priority_class_name,
        priority=group.spec.priority,
    )


def _volcano_terms(group: objects.VolcanoPodGroup) -> GangTerms:
    roles = {role.lower(): n for role, n in group.spec.min_task_member.items() if n > 0}
    return GangTerms(
        # A role's minimum always holds, also where the total is set below their sum.
        min=max(group.spec.min_member, sum(roles.values()), 1),
        roles=roles,
        priority_class=group.spec.priority_class_name,
        min_resources=group.spec.min_resources,
    )


def _coscheduling_terms(group: objects.CoschedulingPodGroup) -> GangTerms:
    return GangTerms(min=max(group.spec.min_member, 1), min_resources=group.spec.min_resources)


def _budget_terms(budget: PodDisruptionBudget) -> GangTerms:
    least = budget.spec.min_available
    return GangTerms(min=max(least, 1) if isinstance(least, int) else 1)


def _terms_from_pods(read: Callable[[Pod], str]) -> Callable[[Iterable[Pod]], GangTerms]:
    def terms(pods: Iterable[Pod]) -> GangTerms:
        counts = [int(text) for pod in pods if (text := read(pod)).isdecimal()]
        return GangTerms(min=max(counts, default=1))

    return terms


DIALECTS: tuple[Dialect, ...] = (
    Dialect("native", _native_group, (NATIVE_POD_GROUPS,), _native_terms),
    Dialect(
        "volcano",
        from_annotation(VOLCANO_GROUP_ANNOTATION, GROUP_ANNOTATION),
        (VOLCANO_POD_GROUPS, KUBE_BATCH_POD_GROUPS, SIGS_POD_GROUPS),
        _volcano_terms,
    ),
    Dialect(
        "coscheduling",
        from_label(COSCHEDULING_LABEL),
        (COSCHEDULING_POD_GROUPS,),
        _coscheduling_terms,
    ),
    Dialect(
        "lightweight",
        from_label(LIGHTWEIGHT_LABEL),
        from_pods=_terms_from_pods(from_label(LIGHTWEIGHT_MIN_LABEL)),
    ),
    Dialect(
        "koordinator",
        from_annotation(KOORDINATOR_ANNOTATION),
        from_pods=_terms_from_pods(from_annotation(KOORDINATOR_MIN_ANNOTATION)),
    ),
)
BUDGET = Dialect("budget", lambda _: "", (POD_DISRUPTION_BUDGETS,), _budget_terms)
SINGLE_POD = Dialect("pod", lambda _: "", from_pods=lambda _: GangTerms())
DIALECT_BY_NAME: Mapping[str, Dialect] = {d.name: d for d in (*DIALECTS, BUDGET, SINGLE_POD)}


def gang_named_by(pod: Pod) -> GangKey | None:
    """The gang a pod names, in the first dialect in which it names one."""
    for dialect in DIALECTS:
        group = dialect.group_of(pod)
        if group:
            return GangKey(dialect.name, pod.metadata.namespace, group)
    return None


def single_pod_gang(pod: Pod) -> GangKey:
    """The gang of one that a pod is which belongs to no other."""
    return GangKey(SINGLE_POD.name, pod.metadata.namespace, pod.metadata.name)


def may_join_budget_gang(pod: Pod) -> bool:
    """Whether a budget can make this pod a gang member: not where it guards an ordinary service."""
    owner = pod.metadata.controller
    service = owner is not None and owner.kind in SERVICE_CONTROLLERS
    return pod.spec.scheduler_name in BUDGET_SCHEDULERS and not service


class Budget(NamedTuple):
    """A budget that declares a gang, with its selector ready for use."""

    object: PodDisruptionBudget
    selector: Selector

    @property
    def allowed(self) -> int:
        """How many pods it would let go now."""
        return self.object.status.disruptions_allowed

    def is_no_milder(self, before: Budget) -> bool:
        """Whether it lets nobody go whom the budget of before did not."""
        same = self.object.spec.selector == before.object.spec.selector
        return same and self.allowed <= before.allowed


def gang_budget(budget: PodDisruptionBudget | None) -> Budget | None:
    """The budget as a gang's declaration; percentages and odd selectors declare none."""
    least = budget.spec.min_available if budget is not None else None
    return parse_budget(budget) if isinstance(least, int) and not isinstance(least, bool) else None


def parse_budget(budget: PodDisruptionBudget | None) -> Budget | None:
    """Any budget, ready for use, unless its selector makes no sense."""
    try:
        return None if budget is None else Budget(budget, from_labels(budget.spec.selector))
    except InvalidSelector:
        return None


def budget_covers(budget: Budget, pod: Pod) -> bool:
    """Whether a budget speaks of a pod: by its selector, or by the controller both belong to."""
    metadata = budget.object.metadata
    if metadata.namespace != pod.metadata.namespace:
        return False
    mine, theirs = metadata.controller, pod.metadata.controller
    if mine is not None and theirs is not None and mine.uid == theirs.uid:
        return True
    return budget.selector.matches(pod.metadata.labels)
