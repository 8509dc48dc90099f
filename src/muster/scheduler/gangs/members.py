"""The members of a gang sorted by state, the members it lacks, and its run.

Members that succeed count as present for as long as their run lasts, even when their objects are
gone; after a restart of the scheduler the group's status tells how many there were. A run is over
when the minimum has succeeded, no member is left and no replacement is expected. From then on its
successes do not count, so that the next run of the same gang is all or nothing too.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from kubekit.objects.meta import find_condition, in_utc
from muster.contract.gang_dialects import DIALECT_BY_NAME, SINGLE_POD, role_of
from muster.contract.pod_groups import PodGroupStatus
from muster.scheduler.placement.demand import ClassDemand

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime

    from kubekit.objects.core import Pod
    from muster.contract.gang import GangTerms
    from muster.scheduler.cluster.pod_class import PodClass, PodClasses
    from muster.scheduler.decisions.decision import GangView
    from muster.scheduler.gangs.gang_index import Gang

UNSCHEDULABLE = "Unschedulable"
"""The reason of PodScheduled=False that schedulers write."""


@dataclass(frozen=True)
class Members:
    """A gang's members by their state now.

    `bound` members live on a node or are being bound to one; `pending` members need a node from us;
    `leaving` members are being deleted. Gated pods, and `foreign` pods that wait for another
    scheduler, are only counted. `ours` says whether any member is addressed to us.
    """

    bound: tuple[Pod, ...]
    pending: tuple[Pod, ...]
    leaving: tuple[Pod, ...]
    succeeded: tuple[Pod, ...]
    failed: tuple[Pod, ...]
    gated: int = 0
    running: int = 0
    foreign: int = 0
    ours: bool = True

    @cached_property
    def being_bound(self) -> bool:
        """Whether binds are not confirmed: they may still fail, and the gang is due then."""
        return not all(pod.spec.node_name for pod in self.bound)


@dataclass(frozen=True)
class Missing:
    """How many members a gang lacks to reach its minimum, in total and by role."""

    total: int
    roles: Mapping[str, int]


@dataclass(frozen=True)
class Run:
    """The memory of a gang's current run."""

    seen: bool = False
    """Whether this process has considered the gang before."""
    succeeded: Mapping[str, str] = field(default_factory=dict)
    """Members that succeeded, name to role, even after their objects are gone."""
    recalled: int = 0
    """Members that succeeded before this process started and whose objects are gone."""
    succeeded_last_run: int = 0
    """Members that succeeded in the last run, until the next one begins."""
    met: int = 0
    """The minimum that the gang last met."""
    inherited: bool = False
    """Whether an earlier process has bound members: their minimum counts as met."""
    expects: tuple[float, ...] = ()
    """Until when replacements are expected, one time for each member that died."""


def members_of(gang: Gang, assumed: Mapping[str, str], names: Collection[str]) -> Members:
    """The members as last sorted, or sorted now if one of them has changed."""
    if gang.sorted_members is None:
        gang.sorted_members = sort_members(gang, gang.earlier_run, assumed, names)
    return gang.sorted_members


def sort_members(
    gang: Gang, earlier_run: Collection[str], assumed: Mapping[str, str], names: Collection[str]
) -> Members:
    """Sort a gang's members; `assumed` has the binds in flight, `names` our scheduler names."""
    bound: list[Pod] = []
    pending: list[Pod] = []
    leaving: list[Pod] = []
    succeeded: list[Pod] = []
    failed: list[Pod] = []
    gated = running = foreign = 0
    for pod in sorted(gang.pods.values(), key=lambda p: p.metadata.name):
        if pod.finished:
            if pod.metadata.uid not in earlier_run:
                (succeeded if pod.status.phase == "Succeeded" else failed).append(pod)
        elif pod.metadata.deletion_timestamp is not None:
            leaving.append(pod)
        elif pod.spec.node_name or pod.metadata.uid in assumed:
            bound.append(pod)
            running += pod.status.phase == "Running"
        elif pod.spec.scheduling_gates:
            gated += 1
        elif pod.spec.scheduler_name not in names:
            foreign += 1
        else:
            pending.append(pod)
    ours = bool(pending) or any(p.spec.scheduler_name in names for p in gang.pods.values())
    return Members(
        bound=tuple(bound),
        pending=tuple(pending),
        leaving=tuple(leaving),
        succeeded=tuple(succeeded),
        failed=tuple(failed),
        gated=gated,
        running=running,
        foreign=foreign,
        ours=ours,
    )


def waits_since(pod: Pod) -> datetime | None:
    """Since when a pending pod has waited for a node; None if its objects do not tell."""
    scheduled = find_condition(pod.status.conditions, "PodScheduled")
    created = in_utc(pod.metadata.creation_timestamp)
    if scheduled is None or created is None:
        return created
    # A pod that was held back by scheduling gates did not wait for a node until now.
    waits = in_utc(scheduled.last_transition_time) if scheduled.reason == UNSCHEDULABLE else None
    return None if waits is None else max(created, waits)


def count_by_role(pods: Iterable[Pod]) -> Counter[str]:
    """How many pods of each role."""
    return Counter(map(role_of, pods))


def group_by_class(classes: PodClasses, pods: Iterable[Pod]) -> tuple[ClassDemand, ...]:
    """Pods by class and role, in the order of their first member."""
    members = tuple(pods)
    groups: dict[tuple[PodClass, str], list[Pod]] = {}
    known = -1
    # A pod's selector can make a label interesting that tells earlier pods apart: then start again.
    while known != len(classes.interesting):
        known, groups = len(classes.interesting), {}
        for pod in members:
            groups.setdefault((classes.of(pod), role_of(pod)), []).append(pod)
    return tuple(ClassDemand(cls, role, tuple(members)) for (cls, role), members in groups.items())


# -- missing members -------------------------------------------------------------------------------


def find_missing(gang: Gang, members: Members, run: Run) -> Missing:
    """The members a gang lacks. Members that succeeded in this run count, even if deleted since."""
    terms = gang.terms
    if terms is None:
        return Missing(0, {})
    if not (run.succeeded or run.recalled):
        return missing(terms, members)
    return missing(terms, members, _gone(gang, run), run.recalled)


def missing(
    terms: GangTerms, members: Members, gone: tuple[str, ...] = (), unnamed: int = 0
) -> Missing:
    """The members missing beside those present and those `gone` by success (their roles).

    The roles of `unnamed` successes are not known: they are counted first towards roles that have
    no member yet.
    """
    present = (*members.bound, *members.succeeded)
    roles: Mapping[str, int] = {}
    if terms.roles:  # most gangs have none: counting their pods would be for nothing
        present_roles = count_by_role(present) + Counter(gone)
        roles = Counter(terms.roles) - present_roles
        if roles and unnamed:
            roles = _fill_roles(roles, {*present_roles, *count_by_role(members.pending)}, unnamed)
    count = len(present) + len(gone) + unnamed
    return Missing(max(terms.min - count, sum(roles.values()), 0), roles)


def _fill_roles(roles: Mapping[str, int], present: set[str], unnamed: int) -> Mapping[str, int]:
    left = Counter(roles)
    for role in sorted(roles, key=lambda role: (role in present, role)):
        filled = min(unnamed, roles[role])
        unnamed -= filled
        left[role] -= filled
    return +left  # without the roles that are full


def missing_pods(view: GangView) -> dict[str, int]:
    """Missing members that have no pod yet, by role; under `""` the members of any role."""
    roles = view.missing.roles
    lacking = Counter(roles) - count_by_role(view.members.pending) if roles else {}
    unassigned = view.missing.total - len(view.members.pending) - sum(lacking.values())
    return {**lacking, "": unassigned} if unassigned > 0 else lacking


# -- the run ---------------------------------------------------------------------------------------


def count_succeeded(gang: Gang, members: Members, run: Run) -> int:
    """How many members succeeded in this run, or in the last one until the next begins."""
    count = len(members.succeeded) + len(_gone(gang, run)) + run.recalled
    return count or run.succeeded_last_run


def _gone(gang: Gang, run: Run) -> tuple[str, ...]:
    """The roles of members that succeeded in this run and whose objects are gone."""
    if not run.succeeded:
        return ()
    present = {pod.metadata.name for pod in gang.pods.values()}
    return tuple(role for name, role in run.succeeded.items() if name not in present)


def pod_seen(gang: Gang, run: Run, pod: Pod, *, gone: bool) -> Run:
    """The run with a success remembered, or forgotten if a member of that name is alive again."""
    name = pod.metadata.name
    if gone or pod.metadata.uid in gang.earlier_run:
        return run
    if pod.status.phase == "Succeeded":
        return replace(run, succeeded={**run.succeeded, name: role_of(pod)})
    if pod.finished or name not in run.succeeded:
        return run
    return replace(run, succeeded={n: role for n, role in run.succeeded.items() if n != name})


def review_run(gang: Gang, members: Members, run: Run, now: float) -> tuple[Run, bool]:
    """The run now, with successes from before a restart, and whether an earlier one is over."""
    terms = gang.terms
    if gang.key.dialect == SINGLE_POD.name or terms is None:
        return run, False
    first, lacks = not run.seen, find_missing(gang, members, run).total
    met = terms.min if run.inherited or not lacks else run.met
    if first or run.inherited or met != run.met:
        recalled = _recalled(gang, members, run) if first else run.recalled
        run = replace(run, seen=True, recalled=recalled, met=met, inherited=False)
    if first and _is_a_later_run(terms, members):
        return replace(run, succeeded={}, recalled=0, succeeded_last_run=0), True
    if run.succeeded_last_run and (members.bound or members.pending):
        run = replace(run, succeeded_last_run=0)
    if not (members.succeeded or run.succeeded or run.recalled):
        return run, False
    if find_missing(gang, members, run).total or not _is_over(members, run, now, first=first):
        return run, False
    count = count_succeeded(gang, members, run)
    return replace(run, succeeded={}, recalled=0, succeeded_last_run=count, expects=()), True


def _recalled(gang: Gang, members: Members, run: Run) -> int:
    """The members that succeeded before a restart and are gone, by the group's status."""
    status = getattr(gang.declared, "status", None)
    if not isinstance(status, PodGroupStatus):
        return run.recalled
    return max(0, DIALECT_BY_NAME[gang.key.dialect].succeeded(status) - len(members.succeeded))


def _is_over(members: Members, run: Run, now: float, *, first: bool) -> bool:
    """Whether no member of a run is left, and none is expected."""
    if members.bound or members.leaving or members.gated or any(t > now for t in run.expects):
        return False
    # Pending pods keep a run going. At our first look they cannot belong to a run of which not even
    # the succeeded pods are left: they are the next one.
    return not members.pending or (first and not members.succeeded)


def _is_a_later_run(terms: GangTerms, members: Members) -> bool:
    """After a restart: whether the live members belong to a later run than the succeeded ones.

    So it is if all were created after the last succeeded member was bound.
    """
    alive = (*members.bound, *members.pending)
    if not alive or missing(terms, replace(members, bound=())).total:
        return False
    created = [pod.metadata.creation_timestamp for pod in alive]
    bound = [pod.bound_at for pod in members.succeeded]
    first = min((at for at in created if at is not None), default=None)
    last = max((at for at in bound if at is not None), default=None)
    return first is not None and last is not None and first > last
