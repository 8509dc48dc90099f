"""Which pod is in which gang, kept current by watch events on pods, groups and budgets.

A pod names its gang by a label, an annotation or a field (`api.gang_dialects`); a pod that names
none may be covered by a disruption budget that declares a gang; any other pod addressed to us is a
gang of one. What is derived from members and declaration is computed when it is first needed, and
again after `Gang.changed`.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from kubekit.objects.meta import HasMetadata, Key
from kubekit.objects.selectors import InvalidSelector, Selector, from_labels
from muster.contract.gang import GangKey, GangTerms
from muster.contract.gang_dialects import (
    DIALECT_BY_NAME,
    DIALECTS,
    PDB,
    SINGLE_POD,
    gang_named_by,
    single_pod_gang,
)
from muster.contract.scheduler_rights import NAMES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from datetime import datetime

    from kubekit.objects.core import Pod, PodDisruptionBudget, PriorityClass
    from kubekit.objects.kinds import Kind
    from muster.scheduler.gangs.members import Members


SERVICE_CONTROLLERS = frozenset({"ReplicaSet", "StatefulSet", "DaemonSet"})


@dataclass
class Gang:
    """The members of a gang that exist, and the object that declares it, if that exists."""

    key: GangKey
    pods: dict[str, Pod] = field(default_factory=dict)
    declared: HasMetadata | None = None
    kind: Kind[Any] | None = None
    sorted_members: Members | None = None
    """The members as last sorted; None once one of them has changed."""
    earlier_run: frozenset[str] = frozenset()
    """Pods that ended in an earlier run: they no longer count."""
    last_priority: int = 0
    """The priority of the last member that left: room may be held for a gang without members."""
    _terms: GangTerms | None = field(default=None, init=False)
    _lowest_priority: int | None = field(default=None, init=False)

    def changed(self) -> None:
        """Drop what was derived: a member or the declaration has changed."""
        self.sorted_members = self._terms = self._lowest_priority = None

    @property
    def terms(self) -> GangTerms | None:
        """Minimum, roles and priority; None while the object that pods name does not exist."""
        if self._terms is None:
            self._terms = self._read_terms()
        return self._terms

    @property
    def lowest_priority(self) -> int:
        """The priority of the lowest member that has not ended, if there is one."""
        if self._lowest_priority is None:
            live = [pod.spec.priority for pod in self.pods.values() if not pod.finished]
            ended = (pod.spec.priority for pod in self.pods.values())
            self._lowest_priority = min(live or ended, default=self.last_priority)
        return self._lowest_priority

    def _read_terms(self) -> GangTerms | None:
        dialect = DIALECT_BY_NAME[self.key.dialect]
        if dialect.from_pods is not None:
            return dialect.from_pods(self.pods.values())
        return None if self.declared is None else dialect.terms(self.declared)

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations of the object that declares the gang."""
        return self.declared.metadata.annotations if self.declared is not None else {}

    @property
    def label_only(self) -> bool:
        """Whether the pods themselves declare the gang, and no other object does."""
        return DIALECT_BY_NAME[self.key.dialect].from_pods is not None

    @property
    def ended(self) -> bool:
        """Whether the object that declares the gang is deleted or being deleted."""
        if self.label_only:
            return False
        return self.declared is None or self.declared.metadata.deletion_timestamp is not None

    @property
    def started(self) -> bool:
        """Whether a living member has a node."""
        return any(pod.spec.node_name and not pod.finished for pod in self.pods.values())

    @property
    def created(self) -> datetime | None:
        """When the gang was declared, or its first pod was created."""
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

    @property
    def declares_gang(self) -> bool:
        """Whether the budget declares a gang: its minimum is a number and no percentage."""
        minimum = self.object.spec.min_available
        return isinstance(minimum, int) and not isinstance(minimum, bool)

    def moves_no_pod(self, before: Budget) -> bool:
        """Whether it covers the pods that the earlier budget covered, and declares as much."""
        selectors = self.object.spec.selector == before.object.spec.selector
        owners = self.object.metadata.controller == before.object.metadata.controller
        return selectors and owners and self.declares_gang == before.declares_gang

    def is_no_milder(self, before: Budget) -> bool:
        """Whether it allows no eviction that the earlier budget did not allow."""
        same = self.object.spec.selector == before.object.spec.selector
        return same and self.allowed <= before.allowed

    def covers(self, pod: Pod) -> bool:
        """Whether the budget covers a pod: by its selector, or by the controller of both."""
        metadata = self.object.metadata
        if metadata.namespace != pod.metadata.namespace:
            return False
        owner, pod_owner = metadata.controller, pod.metadata.controller
        if owner is not None and pod_owner is not None and owner.uid == pod_owner.uid:
            return True
        return self.selector.matches(pod.metadata.labels)


def parse_budget(budget: PodDisruptionBudget | None) -> Budget | None:
    """A budget with its selector parsed; None if the selector is invalid."""
    try:
        return None if budget is None else Budget(budget, from_labels(budget.spec.selector))
    except InvalidSelector:
        return None


def may_join_budget_gang(pod: Pod) -> bool:
    """Whether a budget can make this pod a gang member: not the pod of an ordinary service."""
    owner = pod.metadata.controller
    service = owner is not None and owner.kind in SERVICE_CONTROLLERS
    return pod.spec.scheduler_name in NAMES and not service


class GangIndex:
    """All gangs that pods name, and the one-pod gangs of other pods addressed to us."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = frozenset(names)
        self.gangs: dict[GangKey, Gang] = {}
        self.of_pod: dict[str, GangKey] = {}
        self.budgets: dict[Key, Budget] = {}
        self._budget_names: dict[str, list[str]] = {}
        """The names of the budgets in each namespace, sorted."""
        self._declared: dict[Kind[Any], dict[Key, HasMetadata]] = {}
        self._classes: dict[str, int] = {}

    def put_pod(self, pod: Pod) -> GangKey | None:
        """Take over a new or changed pod; returns its gang, None if it is in none of ours."""
        before = self.of_pod.get(pod.metadata.uid)
        return self._enter(pod, before, self._key_of(pod, before))

    def _enter(self, pod: Pod, before: GangKey | None, key: GangKey | None) -> GangKey | None:
        uid = pod.metadata.uid
        if before is not None and before != key:
            self._leave(uid, before)
        if key is not None:
            self.of_pod[uid] = key
            gang = self._gang(key)
            gang.pods[uid] = pod
            gang.changed()
        return key

    def drop_pod(self, uid: str) -> GangKey | None:
        """Drop a deleted pod; returns the gang it was in."""
        key = self.of_pod.get(uid)
        if key is not None:
            self._leave(uid, key)
        return key

    def put_group(self, kind: Kind[Any], key: Key, group: HasMetadata | None) -> set[GangKey]:
        """Take over a group object, None if it was deleted; returns the gangs it may declare."""
        groups = self._declared.setdefault(kind, {})
        groups.pop(key, None)
        if group is not None:
            groups[key] = group
        dialects = (dialect.name for dialect in DIALECTS if kind in dialect.kinds)
        gangs = {GangKey(name, key.namespace, key.name) for name in dialects}
        for gang in gangs:
            self._declare(gang)
        return gangs

    def put_budget(self, key: Key, budget: PodDisruptionBudget | None) -> set[GangKey]:
        """Take over a budget, None if it was deleted; returns the gangs that changed by it."""
        own = GangKey(PDB.name, key.namespace, key.name)
        before, after = self.budgets.pop(key, None), parse_budget(budget)
        if after is not None:
            self.budgets[key] = after
        changed = {own}
        if before is None or after is None or not after.moves_no_pod(before):
            self._list_budget(key)
            changed |= self._move_pods(own, after)
        for gang_key in changed:
            self._declare(gang_key)
        return changed

    def _list_budget(self, key: Key) -> None:
        """Add a budget to the names of its namespace, or remove it if it does not exist."""
        names = self._budget_names.setdefault(key.namespace, [])
        place = bisect_left(names, key.name)
        if names[place : place + 1] == [key.name]:
            del names[place]
        if key in self.budgets:
            names.insert(place, key.name)
        if not names:
            del self._budget_names[key.namespace]

    def _move_pods(self, own: GangKey, budget: Budget | None) -> set[GangKey]:
        """Let pods that name no gang join the gang of a budget, or leave it; the gangs changed.

        Only pods that leave are compared with all other budgets: any user may create thousands.
        """
        changed = set()
        gang = budget if budget is not None and budget.declares_gang else None
        unnamed = [
            pod
            for row in self.gangs.values()
            if row.key.namespace == own.namespace and row.key.dialect in (SINGLE_POD.name, PDB.name)
            for pod in row.pods.values()
        ]
        for pod in unnamed:
            before = self.of_pod[pod.metadata.uid]
            joins = gang is not None and may_join_budget_gang(pod) and gang.covers(pod)
            if before == own and not joins:
                after = self.put_pod(pod)
            elif joins and (before.dialect != PDB.name or own.name < before.name):
                after = self._enter(pod, before, own)
            else:
                continue
            changed |= {before} | ({after} if after else set())
        return changed

    def budgets_over(self, pod: Pod, but: GangKey | None = None) -> list[Key]:
        """The disruption budgets over a pod, other than the one that declares `but`."""
        return [key for key in self._covering(pod) if but != (PDB.name, *key)]

    def allowed(self) -> dict[Key, int]:
        """How many evictions each disruption budget allows now."""
        return {key: budget.allowed for key, budget in self.budgets.items()}

    def put_priority_class(self, name: str, priority: PriorityClass | None) -> None:
        self._classes.pop(name, None)
        if priority is not None:
            self._classes[name] = priority.value

    def class_values(self) -> Collection[int]:
        """The values of all priority classes: a group's class may rank its gang below its pods."""
        return self._classes.values()

    def priority(self, gang: Gang) -> int:
        """The priority of the group's class, but never more than that of the lowest member.

        Quotas and admission limit the priorities of pods. Nothing limits the class that a group
        names, and many users may write groups.
        """
        lowest, terms = gang.lowest_priority, gang.terms or GangTerms()
        if terms.priority is not None:
            return min(terms.priority, lowest)
        return min(self._classes.get(terms.priority_class, lowest), lowest)

    def _key_of(self, pod: Pod, before: GangKey | None) -> GangKey | None:
        named = gang_named_by(pod)
        if named is not None:
            # Members of other schedulers count towards the minimum too; we bind only our own.
            return named
        if pod.spec.scheduler_name not in self.names:
            return None
        if may_join_budget_gang(pod):
            for key in self._covering(pod):
                if self.budgets[key].declares_gang:
                    return GangKey(PDB.name, *key)
        # A pod first seen with its node needs nothing from us; one that we saw waiting stays.
        return single_pod_gang(pod) if not pod.spec.node_name or before is not None else None

    def _covering(self, pod: Pod) -> Iterator[Key]:
        """The budgets over a pod, by name."""
        namespace = pod.metadata.namespace
        for name in self._budget_names.get(namespace, ()):
            key = Key(namespace, name)
            if self.budgets[key].covers(pod):
                yield key

    def _gang(self, key: GangKey) -> Gang:
        gang = self.gangs.get(key)
        if gang is None:
            gang = self.gangs[key] = Gang(key)
            self._declare(key)
        return gang

    def _declare(self, key: GangKey) -> None:
        """Find the object that declares a gang."""
        gang = self.gangs.get(key)
        if gang is None:
            return
        name = Key(key.namespace, key.name)
        gang.declared = gang.kind = None
        gang.changed()
        if key.dialect == PDB.name:
            budget = self.budgets.get(name)
            gang.declared = budget.object if budget is not None and budget.declares_gang else None
            gang.kind = PDB.kinds[0]
            return
        for kind in DIALECT_BY_NAME[key.dialect].kinds:
            group = self._declared.get(kind, {}).get(name)
            if group is not None:
                gang.declared, gang.kind = group, kind
                return

    def _leave(self, uid: str, key: GangKey) -> None:
        self.of_pod.pop(uid, None)
        gang = self.gangs.get(key)
        if gang is not None:
            if (pod := gang.pods.pop(uid, None)) is not None:
                gang.last_priority = pod.spec.priority
            gang.earlier_run -= {uid}
            gang.changed()
