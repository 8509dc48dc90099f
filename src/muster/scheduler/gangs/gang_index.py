"""Which pod is in which gang, kept current by watch events on pods, groups and budgets.

A gang is counted from its members each time: nothing derived is stored that could go stale.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from muster.api.gang_dialects import (
    DIALECT_BY_NAME,
    DIALECTS,
    PDB,
    SINGLE_POD,
    GangKey,
    GangTerms,
    gang_named_by,
    single_pod_gang,
)
from muster.api.meta import HasMetadata, Key
from muster.api.selectors import Selector, from_labels
from muster.errors import InvalidSelector

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from muster.api.core import Pod, PodDisruptionBudget, PriorityClass
    from muster.api.kinds import Kind
    from muster.scheduler.gangs.members import Members


BUDGET_SCHEDULERS = frozenset({"kube-batchd", "kube-batch", "muster"})
SERVICE_CONTROLLERS = frozenset({"ReplicaSet", "StatefulSet", "DaemonSet"})


@dataclass
class Gang:
    """The members of a gang as seen, and the object that declares it, if it exists."""

    key: GangKey
    pods: dict[str, Pod] = field(default_factory=dict)
    declared: HasMetadata | None = None
    kind: Kind[Any] | None = None
    sorted_members: Members | None = None
    """The members as last sorted; None once one of them has changed."""
    earlier_run: set[str] = field(default_factory=set)
    """Pods that ended in a run that is over: they no longer count."""

    @property
    def terms(self) -> GangTerms | None:
        """What it needs; None while the object that pods name does not exist."""
        dialect = DIALECT_BY_NAME[self.key.dialect]
        if dialect.from_pods is not None:
            return dialect.from_pods(self.pods.values())
        return None if self.declared is None else dialect.terms(self.declared)

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations of the object that declares it."""
        return self.declared.metadata.annotations if self.declared is not None else {}

    @property
    def label_only(self) -> bool:
        """Whether nothing but its pods declares it."""
        return DIALECT_BY_NAME[self.key.dialect].from_pods is not None

    @property
    def ended(self) -> bool:
        """Whether the object that declares it is gone or going."""
        if self.label_only:
            return False
        return self.declared is None or self.declared.metadata.deletion_timestamp is not None

    @property
    def created(self) -> datetime | None:
        """When it was declared, or when its first pod came."""
        if self.declared is not None:
            return self.declared.metadata.creation_timestamp
        times = [p.metadata.creation_timestamp for p in self.pods.values()]
        return min((t for t in times if t is not None), default=None)


class Budget(NamedTuple):
    """A disruption budget with its selector parsed."""

    object: PodDisruptionBudget
    selector: Selector

    @property
    def allowed(self) -> int:
        """How many pods may be evicted now."""
        return self.object.status.disruptions_allowed

    def is_no_milder(self, before: Budget) -> bool:
        """Whether it allows no eviction that the earlier budget did not."""
        same = self.object.spec.selector == before.object.spec.selector
        return same and self.allowed <= before.allowed


def gang_budget(budget: PodDisruptionBudget | None) -> Budget | None:
    """The budget as a gang's declaration; a percentage or an invalid selector declares none."""
    least = budget.spec.min_available if budget is not None else None
    return parse_budget(budget) if isinstance(least, int) and not isinstance(least, bool) else None


def parse_budget(budget: PodDisruptionBudget | None) -> Budget | None:
    """Any budget, unless its selector is invalid."""
    try:
        return None if budget is None else Budget(budget, from_labels(budget.spec.selector))
    except InvalidSelector:
        return None


def budget_covers(budget: Budget, pod: Pod) -> bool:
    """Whether a budget covers a pod: by its selector, or by the controller that owns both."""
    metadata = budget.object.metadata
    if metadata.namespace != pod.metadata.namespace:
        return False
    mine, theirs = metadata.controller, pod.metadata.controller
    if mine is not None and theirs is not None and mine.uid == theirs.uid:
        return True
    return budget.selector.matches(pod.metadata.labels)


def may_join_budget_gang(pod: Pod) -> bool:
    """Whether a budget can make this pod a gang member: not if it protects an ordinary service."""
    owner = pod.metadata.controller
    service = owner is not None and owner.kind in SERVICE_CONTROLLERS
    return pod.spec.scheduler_name in BUDGET_SCHEDULERS and not service


class GangIndex:
    """All gangs that pods name, and the pods addressed to us that are in none."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = frozenset(names)
        self.gangs: dict[GangKey, Gang] = {}
        self.of_pod: dict[str, GangKey] = {}
        self._declared: dict[Kind[Any], dict[Key, HasMetadata]] = {}
        self.gang_budgets: dict[Key, Budget] = {}
        self.budgets: dict[Key, Budget] = {}
        self._classes: dict[str, int] = {}

    def put_pod(self, pod: Pod) -> GangKey | None:
        """A pod that came or changed; the gang it is in, if it is ours."""
        uid = pod.metadata.uid
        before = self.of_pod.get(uid)
        key = self._key_of(pod, before)
        if before is not None and before != key:
            self._leave(uid, before)
        if key is not None:
            self.of_pod[uid] = key
            gang = self._gang(key)
            gang.pods[uid], gang.sorted_members = pod, None
        return key

    def drop_pod(self, uid: str) -> GangKey | None:
        """A pod that is gone; the gang it was in."""
        key = self.of_pod.get(uid)
        if key is not None:
            self._leave(uid, key)
        return key

    def put_group(self, kind: Kind[Any], key: Key, group: HasMetadata | None) -> set[GangKey]:
        """A group object came, changed or (None) went; the gangs that concerns."""
        known = self._declared.setdefault(kind, {})
        if group is None:
            known.pop(key, None)
        else:
            known[key] = group
        touched = set()
        for dialect in DIALECTS:
            if kind in dialect.kinds:
                gang_key = GangKey(dialect.name, key.namespace, key.name)
                touched.add(gang_key)
                self._declare(gang_key)
        return touched

    def put_budget(self, key: Key, budget: PodDisruptionBudget | None) -> set[GangKey]:
        """A budget came, changed or went: pods may join its gang or leave it."""
        declared, parsed = gang_budget(budget), parse_budget(budget)
        if parsed is not None:
            self.budgets[key] = parsed
        else:
            self.budgets.pop(key, None)
        if declared is not None:
            self.gang_budgets[key] = declared
        else:
            self.gang_budgets.pop(key, None)
        touched = {GangKey(PDB.name, key.namespace, key.name)}
        loose = [
            pod
            for gang in list(self.gangs.values())
            if gang.key.namespace == key.namespace
            and gang.key.dialect in (SINGLE_POD.name, PDB.name)
            for pod in list(gang.pods.values())
        ]
        for pod in loose:
            before = self.of_pod[pod.metadata.uid]
            after = self.put_pod(pod)
            if after != before:
                touched |= {before} | ({after} if after else set())
        for gang_key in touched:
            self._declare(gang_key)
        return touched

    def budgets_over(self, pod: Pod, but: GangKey | None = None) -> list[Key]:
        """The disruption budgets over a pod, other than the one that declares `but`."""
        return [
            key
            for key, budget in self.budgets.items()
            if (but is None or key != (but.namespace, but.name)) and budget_covers(budget, pod)
        ]

    def allowed(self) -> dict[Key, int]:
        """How many pods each disruption budget would let go now."""
        return {key: budget.allowed for key, budget in self.budgets.items()}

    def put_priority_class(self, name: str, priority: PriorityClass | None) -> None:
        if priority is None:
            self._classes.pop(name, None)
        else:
            self._classes[name] = priority.value

    def class_values(self) -> Collection[int]:
        """What priority classes there are: a gang may rank below its pods by its group's class."""
        return self._classes.values()

    def priority(self, gang: Gang) -> int:
        """The group's class decides, else the lowest of its members."""
        terms = gang.terms or GangTerms()
        if terms.priority is not None:
            return terms.priority
        if terms.priority_class in self._classes:
            return self._classes[terms.priority_class]
        live = [p.spec.priority for p in gang.pods.values() if not p.finished]
        return min(live, default=0)

    def _key_of(self, pod: Pod, before: GangKey | None) -> GangKey | None:
        named = gang_named_by(pod)
        if named is not None:
            # A gang counts whole, whoever schedules its members: we bind only our own of them.
            return named
        if pod.spec.scheduler_name not in self.names:
            return None
        if may_join_budget_gang(pod):
            covering = [key for key, b in self.gang_budgets.items() if budget_covers(b, pod)]
            if covering:
                return GangKey(PDB.name, *min(covering))
        return single_pod_gang(pod) if not pod.spec.node_name or before is not None else None

    def _gang(self, key: GangKey) -> Gang:
        found = self.gangs.get(key)
        if found is None:
            found = self.gangs[key] = Gang(key)
            self._declare(key)
        return found

    def _declare(self, key: GangKey) -> None:
        gang = self.gangs.get(key)
        if gang is None:
            return
        where = Key(key.namespace, key.name)
        gang.declared = gang.kind = None
        if key.dialect == PDB.name:
            budget = self.gang_budgets.get(where)
            gang.declared = None if budget is None else budget.object
            gang.kind = PDB.kinds[0]
            return
        for kind in DIALECT_BY_NAME[key.dialect].kinds:
            group = self._declared.get(kind, {}).get(where)
            if group is not None:
                gang.declared, gang.kind = group, kind
                return

    def _leave(self, uid: str, key: GangKey) -> None:
        self.of_pod.pop(uid, None)
        gang = self.gangs.get(key)
        if gang is not None:
            gang.pods.pop(uid, None)
            gang.earlier_run.discard(uid)
            gang.sorted_members = None
