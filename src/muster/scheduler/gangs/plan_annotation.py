"""The annotation `muster.dev/plan`: tells a half-bound gang from a gang that lost a member.

Both have some members bound and some pending, and need different care: the half-bound gang must be
completed or released, the other gang waits for a replacement. A restarted scheduler has no memory
of either, so every bind leaves this annotation: the server merges it into the pod in the same write
that binds the pod. It reads `<plan>/<size>/<count>[/uid,uid,…]`: the plan's id, how many members
are bound when the plan is done (0 if the gang has been whole), how many pods the plan binds, and
their UIDs unless there are too many to name.

After a restart of the scheduler, a plan was cut short if fewer members are bound than its size and
a pod of the plan still waits. A plan with too many pods to name trusts the server's times: it was
cut short if not all of its pods are bound and a pod waits that is as old as its last bind or older.
So in a gang of more than MAX_NAMED_PODS, surplus older than the binds plus a lost member looks
half-bound: it is repaired first, and released only if that fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kubekit.objects.annotation_values import read_integer
from muster.contract.gang import PLAN_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubekit.objects.core import Pod
    from muster.scheduler.gangs.members import Members

MAX_NAMED_PODS = 200
"""A UID has 36 characters: an annotation of about 7 kB at most."""


class PlanMark(NamedTuple):
    """The plan of a bound pod, as its annotation names it; no UIDs if the plan has too many."""

    size: int = 0
    pods: int = 0
    uids: frozenset[str] = frozenset()


def write(plan: str, size: int, uids: Sequence[str]) -> str:
    """The annotation of a plan."""
    if not size:
        return f"{plan}/0"
    named = f"/{','.join(uids)}" if len(uids) <= MAX_NAMED_PODS else ""
    return f"{plan}/{size}/{len(uids)}{named}"


def read(annotation: str) -> PlanMark:
    """The plan; an invalid annotation is read as size 0, as of a gang that was whole."""
    _, size, *rest = (*annotation.split("/"), "", "")
    members, pods = read_integer(size), read_integer(rest[0])
    if members is None or pods is None:
        return PlanMark()
    return PlanMark(members, pods, frozenset(filter(None, rest[1].split(","))))


def was_cut_short(members: Members) -> bool:
    """After a restart: whether the binds of a plan were cut short, rather than a member lost."""
    plans: dict[str, list[Pod]] = {}
    for pod in members.bound:
        if mark := pod.metadata.annotations.get(PLAN_ANNOTATION):
            plans.setdefault(mark, []).append(pod)
    return any(_lacks_pods(read(mark), bound, members) for mark, bound in plans.items())


def _lacks_pods(plan: PlanMark, bound: Sequence[Pod], members: Members) -> bool:
    if len(members.bound) >= plan.size:
        return False
    if plan.uids:
        return any(pod.metadata.uid in plan.uids for pod in members.pending)
    # Too many pods to name: a pod that already existed at the last bind was probably in the plan.
    last = max((when for pod in bound if (when := pod.bound_at) is not None), default=None)
    created = (pod.metadata.creation_timestamp for pod in members.pending)
    old = last is not None and any(when is not None and when <= last for when in created)
    return old and plan.pods > len(bound)
